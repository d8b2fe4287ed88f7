// Package dlp finds what should not leave: secrets (keys, tokens, passwords) and personal data (cards, accounts, identity numbers,
// mail addresses, telephone numbers), in texts that people and machines wrote and that somebody may have disguised.
//
// A text is read in three views: as it is; folded, in which characters that look like others are those, digits of all scripts are
// digits and what is invisible is gone; and, where characters stand apart from each other, joined. What looks like base64 is decoded
// and read, too. A finding always names the bytes of the text itself.
//
// Numbers count only where their check digits are right (ISO/IEC 7812 for cards, ISO 7064 for IBANs, the weights of the issuing
// authorities for the rest), tokens where their form and length is that of their issuer, other values where they are random enough
// or stand behind a word that says what they are.
//
// A scan looks at each byte a fixed number of times: its time and memory are bounded by the text's length.
package dlp
