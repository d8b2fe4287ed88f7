// Package naming is the rule of what names are made of: of files, agents, conversations, and of whatever else is shown beside the
// words of others.
package naming

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"parley/actors/core/letters"
)

// Plain is a name without characters that nobody sees and that change how what stands around them is shown or read: overrides of the
// direction of writing, spaces without width, separators of lines and paragraphs (which are spaces then). What joins letters and
// emoji, and marks of numbers, stay.
func Plain(name string) string {
	if letters.ASCII(name) || !utf8.ValidString(name) { // what is not UTF-8 is refused elsewhere
		return name
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\u2028', r == '\u2029':
			return ' '
		case hidden(r):
			return -1
		}
		return r
	}, name)
}

func hidden(r rune) bool {
	const zeroWidthNonJoiner, zeroWidthJoiner = '\u200C', '\u200D'
	switch {
	case !unicode.Is(unicode.Cf, r), unicode.Is(unicode.Prepended_Concatenation_Mark, r):
		return false
	case r == zeroWidthNonJoiner, r == zeroWidthJoiner:
		return false
	}
	return r < '\U000E0020' || r > '\U000E007F' // tags are parts of flags
}
