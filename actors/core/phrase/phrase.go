// Package phrase finds phrases in texts: whole words, whatever their case, and whatever stands between them that is no word. It is pure.
package phrase

import (
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// token is a word of a text, in lower case, and where it stands.
type token struct {
	word       string
	start, end int
}

func inWord(c rune) bool { return unicode.IsLetter(c) || unicode.IsDigit(c) || c == '\'' }

// tokens are the words of a text.
func tokens(text string) []token {
	var all []token
	for at := 0; at < len(text); {
		c, size := utf8.DecodeRuneInString(text[at:])
		if !inWord(c) {
			at += size
			continue
		}
		start := at
		for at < len(text) {
			if c, size = utf8.DecodeRuneInString(text[at:]); !inWord(c) {
				break
			}
			at += size
		}
		word := strings.TrimLeft(text[start:at], "'")
		start = at - len(word)
		if word = strings.TrimRight(word, "'"); word != "" {
			all = append(all, token{strings.ToLower(word), start, start + len(word)})
		}
	}
	return all
}

// Words is how many words a text has.
func Words(text string) int { return len(tokens(text)) }

// Set is the phrases that are looked for, each with what it is a sign of. The zero value has none.
type Set[S any] struct {
	signs   map[string][]S // by words in lower case, parted by one space
	sorted  []string       // their keys
	longest int            // words of one
}

// Add adds a phrase, as somebody wrote it.
func (p *Set[S]) Add(text string, sign S) {
	words := tokens(text)
	plain := make([]string, 0, len(words))
	for _, word := range words {
		plain = append(plain, word.word)
	}
	key := strings.Join(plain, " ")
	if p.signs == nil {
		p.signs = map[string][]S{}
	}
	p.signs[key] = append(p.signs[key], sign)
	p.longest = max(p.longest, len(words))
}

// Ready is called when all are there. From then on a set is only read.
func (p *Set[S]) Ready() {
	p.sorted = slices.Sorted(maps.Keys(p.signs))
}

// Empty says that there is nothing to look for.
func (p *Set[S]) Empty() bool { return p.longest == 0 }

// Each calls back for each phrase and sign.
func (p *Set[S]) Each(do func(phrase string, sign S)) {
	for phrase, signs := range p.signs {
		for _, sign := range signs {
			do(phrase, sign)
		}
	}
}

// Find calls back for each phrase in a text, at bytes from start to before end. Its time grows with the text only.
func (p *Set[S]) Find(text string, found func(start, end int, phrase string, sign S)) {
	if p.longest == 0 {
		return
	}
	words := tokens(text)
	for i := range words {
		phrase := ""
		for k := i; k < len(words) && k < i+p.longest; k++ {
			if k > i {
				phrase += " "
			}
			phrase += words[k].word
			for _, sign := range p.signs[phrase] {
				found(words[i].start, words[k].end, phrase, sign)
			}
		}
	}
}

// Open is from where on a text may still become a phrase, were more to follow.
func (p *Set[S]) Open(text string) int {
	if p.longest == 0 {
		return len(text)
	}
	// A phrase is of at most so many bytes; what is between its words may be longer, and is then no longer held back.
	const longest = 1024
	from := max(0, len(text)-longest)
	for from < len(text) && !utf8.RuneStart(text[from]) {
		from++
	}
	words := tokens(text[from:])
	for i := max(0, len(words)-p.longest); i < len(words); i++ {
		if i == 0 && from > 0 { // it may have begun before
			continue
		}
		var so strings.Builder
		for k := i; k < len(words); k++ {
			if k > i {
				so.WriteByte(' ')
			}
			so.WriteString(words[k].word)
		}
		if p.begins(so.String(), from+words[len(words)-1].end == len(text)) {
			return from + words[i].start
		}
	}
	return len(text)
}

// begins says whether a phrase begins with words, the last of which may go on where more says so.
func (p *Set[S]) begins(words string, more bool) bool {
	if !more {
		words += " "
	}
	at, _ := slices.BinarySearch(p.sorted, words)
	return at < len(p.sorted) && strings.HasPrefix(p.sorted[at], words)
}
