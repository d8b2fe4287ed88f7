package chat

import (
	"bytes"

	"parley/actors/machine/rawjson"
)

// value follows the arguments of a call as they come: whether they are one whole JSON object or list, and which.
type value struct {
	quoted, escape bool
	depth          int
	size           int    // without blanks between its parts
	sum            uint64 // two with the same sum and size are the same
	whole          bool
}

// add takes the next piece.
func (v *value) add(text rawjson.Text) {
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
func (v *value) same(text rawjson.Text) bool {
	var other value
	other.add(text)
	return v.whole && other.whole && other.size == v.size && other.sum == v.sum
}
