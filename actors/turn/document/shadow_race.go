//go:build race

package document

// shadow is the factor by which the race detector needs more memory: it keeps a record of every word.
const shadow = 24

// slow is the factor by which an instrumented build needs more processor time.
const slow = 8
