package failure

import (
	"strings"
	"unicode"

	"parley/actors/core/naming"
)

// maxShown bounds the text of another server that a caller is shown, in bytes.
const maxShown = 200

// Shown is the text of another server as a caller may be shown it: one line without control characters, of at most 200 bytes. What
// is longer is not text for people and becomes "".
func Shown(text string) string {
	text = strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, naming.Plain(text)))
	if len(text) > maxShown {
		return ""
	}
	return text
}
