// Package mailer sends mails: to a mail server by SMTP, or, where there is none, into a folder as files that a person or a program picks
// up. It knows nothing of who gets what; the rules of attempts are in package mail.
package mailer
