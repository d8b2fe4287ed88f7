//go:build !race

package document

// shadow is the factor by which an instrumented build needs more memory.
const shadow = 1

// slow is the factor by which an instrumented build needs more processor time.
const slow = 1
