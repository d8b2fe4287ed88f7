package rawjson

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

// And is both texts, in memory of its own: one with room behind it was made here, and grows.
func (t Text) And(next Text) Text {
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

// Seam joins the pieces of one text: JSON escapes each half of a surrogate pair by itself, and the halves may be in two pieces.
type Seam struct {
	half Text
}

// Join is a piece without the half of a character at its end, which goes before the next.
func (s *Seam) Join(piece Text) Text {
	if len(piece) <= 2 {
		return nil
	}
	if s.half != nil {
		piece, s.half = s.half.And(piece), nil
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
