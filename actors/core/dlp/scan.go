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
func Scan(text string) []Finding { return ScanAfter(text, 0) }

// ScanAfter returns what Scan finds that ends behind a byte, for a text that comes in pieces: the byte is where Open was when the text was
// shorter, in nothing that was found. What is before it is read where it says what the rest is.
func ScanAfter(text string, from int) []Finding {
	s := scanner{}
	s.view(asItIs(text), from)
	if folded, changed := fold(text); changed {
		s.view(folded, from)
	}
	if joined, changed := join(text); changed {
		s.view(joined, from)
	}
	s.decode(text, begin(text, from))
	return slices.DeleteFunc(disjoint(s.found), func(f Finding) bool { return f.End <= from })
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
	from   int     // see ScanAfter, in the view
	digits *digits // the number that is looked at; nil = there was none
	depth  int     // of base64 within base64
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

// begin is where to begin so that all is found that ends behind a byte: what has no blanks is looked at from where it begins, and what is told
// by a name before it from the assignment (assigned).
func begin(text string, from int) int {
	const assignment = 32 // more than what may be between the name and the value
	return runOf(text, max(0, runOf(text, from)-assignment))
}

// runOf is where the run without blanks begins that a byte is in, or behind.
func runOf(text string, at int) int {
	for at > 0 && !isBlank(text[at-1]) {
		at--
	}
	return at
}

// view looks at a view of the text.
func (s *scanner) view(v view, from int) {
	t := v.text
	if s.from = from; v.at != nil {
		s.from, _ = slices.BinarySearch(v.at, int32(from)) //nolint:gosec // texts are at most MaxText long
	}
	for i := begin(t, s.from); i < len(t); {
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
	end, found := s.tokenAt(v, i)
	if !found {
		end, found = s.account(v, i)
	}
	if !found {
		end, found = s.sixth(v, i)
	}
	if !found {
		end, found = s.word(v, i)
	}
	if found {
		return end
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
