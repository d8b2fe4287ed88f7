// Package guardrail checks texts that go to models and come from them (document 3, 10.12): for personal data and secrets, words, what
// moderation looks for, and attempts to take a model over. It is pure.
//
// It finds by the parts that shields use: package dlp for data, aegis.Stream for texts that come in pieces, and package phrase for
// lists of them (moderate). A phrase is found whole, whatever its case; what is put otherwise is missed.
package guardrail
