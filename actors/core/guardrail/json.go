package guardrail

import (
	"encoding/json"
	"strings"
)

// shortest is the length of the shortest number that is looked at, in digits.
const shortest = 7

// CheckJSON looks at JSON as Check does at a text: at the whole, and at each of its texts, names and long numbers as what they say, whatever
// their escapes. What is left of it is JSON. What is none is a text.
func (g *Guardrail) CheckJSON(text string, toModel bool) *Result {
	result := g.Check(text, toModel)
	if !json.Valid([]byte(text)) {
		return result
	}
	var clean strings.Builder
	var parts Tally
	for at := 0; at < len(text); {
		size, said := literal(text[at:])
		if said != "" {
			part := g.Check(said, toModel)
			for _, found := range part.Findings {
				result.list(found)
			}
			parts.Add(part.Tally)
			if part.Text != said {
				quoted, err := json.Marshal(part.Text)
				if err == nil { // a text can always be encoded
					clean.Write(quoted)
					at += size
					continue
				}
			}
		}
		clean.WriteString(text[at : at+size])
		at += size
	}
	result.Text = clean.String()
	result.Tally.most(parts) // the whole and its parts are the same text
	return result
}

// literal is the text or number that valid JSON begins with, and what it says; "" = nothing that is looked at.
func literal(text string) (size int, said string) {
	const number = "+-.0123456789eE"
	switch c := text[0]; {
	case c == '"':
		for size = 1; size < len(text) && text[size] != '"'; size++ {
			if text[size] == '\\' {
				size++
			}
		}
		size = min(size+1, len(text))
		if json.Unmarshal([]byte(text[:size]), &said) != nil {
			return size, "" // unreachable: it is valid
		}
		return size, said
	case c == '-' || c >= '0' && c <= '9':
		for size < len(text) && strings.IndexByte(number, text[size]) >= 0 {
			size++
		}
		if size >= shortest {
			return size, text[:size]
		}
		return size, ""
	}
	return 1, ""
}
