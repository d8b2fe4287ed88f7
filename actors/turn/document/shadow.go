//go:build !race

package document

// shadow is how much more memory a build takes that watches itself.
const shadow = 1
