package dlp

import (
	"cmp"
	"slices"
	"strings"
)

// Class is what kind of harm a finding does.
type Class int

// Classes of findings.
const (
	Secret   Class = iota // opens something
	Personal              // is about somebody
)

// Kind is what was found.
type Kind string

// Finding is a part of a text, from byte Start to before byte End.
type Finding struct {
	Kind       Kind
	Class      Class
	Start, End int
}

// MaxText bounds a text that is scanned, in bytes; of a longer one the caller decides.
const MaxText = 16 << 20

// Scan returns what is in a text, in order, without overlaps, every byte of what was found: of equal ones the first in the list of patterns.
func Scan(text string) []Finding {
	s := scanner{}
	s.view(asItIs(text))
	if folded, changed := fold(text); changed {
		s.view(folded)
	}
	if joined, changed := join(text); changed {
		s.view(joined)
	}
	s.decode(text)
	return disjoint(s.found)
}

// ScanNamed scans a text that stands under a name, as the value of a member does: that of a secret says that the text is one.
func ScanNamed(name, text string) []Finding {
	lower := strings.ToLower(name)
	if len(name) > longestName || !isPassword(lower) && !isSecretName(lower) && lower != "authorization" {
		return Scan(text)
	}
	prefix := name + ": "
	found := Scan(prefix + text)
	kept := found[:0]
	for _, f := range found {
		if f.Start, f.End = max(f.Start-len(prefix), 0), f.End-len(prefix); f.End > f.Start {
			kept = append(kept, f)
		}
	}
	return kept
}

// longestName bounds a name that says what a value is.
const longestName = 40

// scanner collects findings of all views of a text.
type scanner struct {
	found  []Finding
	digits digits // the number that is looked at
	depth  int    // of base64 within base64
}

// view is a text and where each of its bytes stands in the original; nil = at the same place.
type view struct {
	text string
	at   []int32
}

func asItIs(text string) view { return view{text: text} }

// original returns the bytes of the original that a part of the view was made of.
func (v view) original(start, end int) (from, to int) {
	if v.at == nil {
		return start, end
	}
	return int(v.at[start]), int(v.at[end]) // at has one more than text has bytes
}

// view looks at a view of the text.
func (s *scanner) view(v view) {
	t := v.text
	for i := 0; i < len(t); {
		c := t[i]
		first := i == 0 || !isWord(t[i-1])
		switch {
		case first && isWord(c):
			i = s.wordAt(v, i)
			continue
		case c == '@':
			s.email(v, i)
		case c == '-':
			if end := s.privateKey(v, i); end > i {
				i = end
				continue
			}
		case c == ':' || c == '=':
			if c == ':' && strings.HasPrefix(t[i:], "://") {
				s.urlPassword(v, i)
			} else {
				s.assigned(v, i)
			}
		}
		i++
	}
}

// wordAt looks at what begins at i, the first character of a word, and returns where to go on.
func (s *scanner) wordAt(v view, i int) int {
	for _, look := range [...]func(*scanner, view, int) (int, bool){(*scanner).tokenAt, (*scanner).account, (*scanner).sixth, (*scanner).word} {
		if end, found := look(s, v, i); found {
			return end
		}
	}
	if isDigit(v.text[i]) {
		return max(s.number(v, i), i+1)
	}
	if len(v.text) > i+2 && v.text[i]|0x20 == 'a' && v.text[i+1]|0x20 == 't' && !isWord(v.text[i+2]) {
		s.spelled(v, i)
	}
	return max(s.random(v, i), i+1)
}

func (s *scanner) add(v view, kind Kind, class Class, start, end int) {
	start, end = v.original(start, end)
	s.found = append(s.found, Finding{Kind: kind, Class: class, Start: start, End: end})
}

// disjoint sorts findings and drops those that another one covers. Of two that overlap the longer one has what both have.
func disjoint(found []Finding) []Finding {
	if len(found) < 2 {
		return found
	}
	slices.SortStableFunc(found, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(b.End, a.End))
	})
	kept := found[:1]
	for _, f := range found[1:] {
		last := &kept[len(kept)-1]
		switch {
		case f.End <= last.End:
			continue
		case f.Start < last.End && f.End-f.Start > last.End-last.Start:
			last.End = f.Start // which is behind its start: of two with one start the longer is first
		case f.Start < last.End:
			f.Start = last.End
		}
		kept = append(kept, f)
	}
	return kept
}
