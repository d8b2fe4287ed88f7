//go:build race

package document

// shadow is how much more memory the race detector takes: it keeps a record of every word.
const shadow = 24
