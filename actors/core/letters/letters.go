// Package letters cuts texts that came from outside to so many bytes, in whole characters.
package letters

import "unicode/utf8"

// Head is the beginning of a text, at most so many bytes.
func Head[T ~string | ~[]byte](text T, most int) T {
	if len(text) <= most {
		return text
	}
	most = max(most, 0)
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

// Shorten does so, too; three dots behind it, which are not counted, say where it did.
func Shorten(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return Head(text, most) + "..."
}

// ASCII says whether a text has no other characters.
func ASCII(text string) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
