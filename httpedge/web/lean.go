package web

import (
	"bytes"
	"regexp"
)

// tailComment is a comment behind code, with no quote in it, so that it cannot be the inside of a text.
var tailComment = regexp.MustCompile("([;{},(\\[]) +// [^'\"`\n]*$")

// lean returns a module or a style sheet of the playground as it is served: without its comments and indentation, which are a tenth of the
// page. A text over several lines would lose its indentation, too: there is none.
func lean(text []byte) []byte {
	out, inside := make([]byte, 0, len(text)), false
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(line)
		switch {
		case inside:
			inside = !bytes.HasSuffix(line, []byte("*/"))
			continue
		case len(line) == 0, bytes.HasPrefix(line, []byte("//")):
			continue
		case bytes.HasPrefix(line, []byte("/*")):
			end := bytes.Index(line, []byte("*/"))
			if inside = end < 0; inside || end == len(line)-2 {
				continue
			}
		}
		out = append(append(out, tailComment.ReplaceAll(line, []byte("$1"))...), '\n')
	}
	return out
}
