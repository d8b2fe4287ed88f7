package chat

import (
	"bytes"
	"encoding/json"
	"slices"
)

// Text is a text as JSON, with its quotes. nil = nothing.
type Text []byte

// String decodes the text.
func (t Text) String() string {
	if len(t) < 2 {
		return ""
	}
	if bytes.IndexByte(t, '\\') < 0 {
		return string(t[1 : len(t)-1])
	}
	var text string
	_ = json.Unmarshal(t, &text) // the whole event is valid JSON
	return text
}

// and is both texts, in memory of its own: one with room behind it was made here, and grows.
func (t Text) and(next Text) Text {
	switch {
	case len(next) <= 2:
		return t
	case len(t) <= 2:
		return slices.Clip(next)
	case cap(t) == len(t):
		t = append(make(Text, 0, 2*(len(t)+len(next))), t...)
	}
	return append(t[:len(t)-1], next[1:]...)
}

// seam joins the pieces of one text: JSON escapes each half of a surrogate pair by itself, and the halves may be in two pieces.
type seam struct {
	half Text
}

// join is a piece without the half of a character at its end, which goes before the next.
func (s *seam) join(piece Text) Text {
	if len(piece) <= 2 {
		return nil
	}
	if s.half != nil {
		piece, s.half = s.half.and(piece), nil
	}
	if at := halfAt(piece); at > 0 {
		s.half = append(append(Text{'"'}, piece[at:len(piece)-1]...), '"')
		piece = append(piece[:at:at], '"')
	}
	if len(piece) <= 2 {
		return nil
	}
	return piece
}

// halfAt is where a first half at the end of a text begins, 0 = there is none.
func halfAt(text Text) int {
	const size = len(`\ud83d"`)
	at := len(text) - size
	if at < 1 || text[at] != '\\' || text[at+1] != 'u' || text[at+2]|0x20 != 'd' || bytes.IndexByte([]byte("89abAB"), text[at+3]) < 0 {
		return 0
	}
	before := at
	for before > 0 && text[before-1] == '\\' {
		before--
	}
	if (at-before)%2 == 1 {
		return 0 // a backslash, and the letter u
	}
	return at
}

// value follows the arguments of a call as they come: whether they are one whole JSON object or list, and which.
type value struct {
	quoted, escape bool
	depth          int
	size           int    // without blanks between its parts
	sum            uint64 // two with the same sum and size are the same
	whole          bool
}

// add takes the next piece.
func (v *value) add(text Text) {
	if bytes.Contains(text, []byte(`\u`)) { // rare: decoded, so that a letter is the same in any form
		for _, c := range []byte(text.String()) {
			v.take(c)
		}
		return
	}
	for i := 1; i < len(text)-1; i++ {
		c := text[i]
		if c == '\\' {
			i++
			if c = text[i]; c != '"' && c != '\\' && c != '/' {
				c = ' ' // a tab, say
			}
		}
		v.take(c)
	}
}

func (v *value) take(c byte) {
	v.look(c)
	if v.quoted || c != ' ' && c != '\n' && c != '\r' && c != '\t' {
		const prime = 1099511628211 // of FNV-1a
		v.sum = (v.sum ^ uint64(c)) * prime
		v.size++
	}
}

func (v *value) look(c byte) {
	switch {
	case v.escape:
		v.escape = false
	case v.quoted:
		v.quoted, v.escape = c != '"', c == '\\'
	case c == '"':
		v.quoted = true
	case c == '{', c == '[':
		v.depth++
	case c == '}', c == ']':
		v.depth--
		v.whole = v.depth == 0
	}
}

// same says whether a text is that value, whole, once more.
func (v *value) same(text Text) bool {
	var other value
	other.add(text)
	return v.whole && other.whole && other.size == v.size && other.sum == v.sum
}
