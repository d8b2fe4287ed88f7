package dlp

import (
	"encoding/base64"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"parley/actors/core/letters"
)

// fold returns a text in which what looks like ASCII is ASCII; changed = it is another text.
func fold(text string) (v view, changed bool) {
	if letters.ASCII(text) {
		return view{}, false
	}
	out := make([]byte, 0, len(text))
	at := make([]int32, 0, len(text)+1)
	put := func(from int, piece string) {
		for i := range len(piece) {
			out, at = append(out, piece[i]), append(at, int32(from)) //nolint:gosec // texts are at most MaxText long
		}
	}
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r < utf8.RuneSelf:
			put(i, text[i:i+1])
		case unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Mn, r): // invisible, or a mark upon the letter before
			changed = true
		default:
			piece := like(r, text[i:i+size])
			changed = changed || piece != text[i:i+size]
			put(i, piece)
		}
		i += size
	}
	return view{string(out), append(at, int32(len(text)))}, changed //nolint:gosec // see above
}

// like returns what a character looks like.
func like(r rune, as string) string {
	if same := twin(r); same != 0 {
		return string(rune(same))
	}
	switch {
	case unicode.IsSpace(r):
		return " "
	case unicode.Is(unicode.Pd, r):
		return "-"
	}
	folded := norm.NFKD.String(as)
	switch first, size := utf8.DecodeRuneInString(folded); {
	case first < utf8.RuneSelf: // a letter, without its marks
		return folded[:size]
	case unicode.Is(unicode.Nd, first):
		return string('0' + digitOf(first))
	}
	return as
}

// twin returns the ASCII letter that a letter of another script cannot be told from by eye (Unicode TS 39, "confusables"), 0 for none.
func twin(r rune) byte {
	const (
		others = "аеорсухіјѕһԁԛԝѵАВЕКМНОРСТУХІЈЅԌԚԜΑΒΕΖΗΙΚΜΝΟΡΤΥΧαονρτυικкոսհօ"
		ascii  = "aeopcyxijshdqwvABEKMHOPCTYXIJSGQWABEZHIKMNOPTYXaovptuikknuho"
	)
	at := 0
	for _, other := range others {
		if other == r {
			return ascii[at]
		}
		at++
	}
	return 0
}

// digitOf is the value of a decimal digit of any script: they stand in blocks of ten.
func digitOf(r rune) rune {
	first := r
	for first > 0 && unicode.Is(unicode.Nd, first-1) && r-first < 9 {
		first--
	}
	return (r - first) % 10
}

// join returns a text in which characters that stand apart by one blank stand together: "s k _ l i v e". changed = there are some.
func join(text string) (v view, changed bool) {
	const least = 8 // characters in a row
	if !alternates(text) {
		return view{}, false
	}
	var out []byte
	var at []int32
	last := 0
	copyTo := func(end int) {
		for ; last < end; last++ {
			out, at = append(out, text[last]), append(at, int32(last)) //nolint:gosec // texts are at most MaxText long
		}
	}
	for i := 0; i+1 < len(text); {
		n := apart(text[i:])
		if n < least {
			i++
			for i < len(text) && !isBlank(text[i-1]) {
				i++
			}
			continue
		}
		copyTo(i)
		for k := range n {
			out, at = append(out, text[i+2*k]), append(at, int32(i+2*k)) //nolint:gosec // see above
		}
		i += 2*n - 1
		last, changed = i, true
	}
	if !changed {
		return view{}, false
	}
	copyTo(len(text))
	return view{string(out), append(at, int32(len(text)))}, true //nolint:gosec // see above
}

// alternates says whether characters and blanks may take turns: eight characters in a row and the blanks between them are 15 bytes, so that
// seven of these begin where it looks.
func alternates(text string) bool {
	for at := 0; at+6 < len(text); at += 8 {
		n := 1
		for n < 7 && isBlank(text[at+n]) != isBlank(text[at+n-1]) {
			n++
		}
		if n == 7 {
			return true
		}
	}
	return false
}

// apart counts the characters that a text begins with, each with one blank behind.
func apart(text string) int {
	n := 0
	for i := 0; i < len(text) && !isBlank(text[i]); i += 2 {
		n++
		if i+1 == len(text) || !isBlank(text[i+1]) {
			if i+1 < len(text) { // the next is a word: this is its first character
				n--
			}
			break
		}
	}
	return n
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// decode reads what looks like base64.
func (s *scanner) decode(text string, start int) {
	const (
		least   = 16
		deepest = 2
	)
	if s.depth >= deepest {
		return
	}
	for start < len(text) {
		end := start
		for end < len(text) && isBase64(text[end]) {
			end++
		}
		if end-start >= least {
			s.decoded(text[start:end], start)
		}
		start = end + 1
	}
}

// decoded scans one run. What is found in it is the whole run: a part of it means nothing.
func (s *scanner) decoded(run string, start int) {
	plain, is := plainOf(run)
	if !is {
		return
	}
	inner := scanner{depth: s.depth + 1}
	inner.view(asItIs(plain), 0)
	inner.decode(plain, 0)
	for _, f := range inner.found {
		s.found = append(s.found, Finding{Kind: f.Kind, Class: f.Class, Start: start, End: start + len(run)})
	}
}

// plainOf is the text that a run is base64 of, false when it is none of any.
func plainOf(run string) (plain string, is bool) {
	run = strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(run, "="))
	if len(run)%4 == 1 {
		run = run[:len(run)-1]
	}
	raw, err := base64.RawStdEncoding.DecodeString(run)
	return string(raw), err == nil && isText(raw)
}

// isText says whether bytes are a text: UTF-8 without control characters.
func isText(raw []byte) bool {
	for _, r := range string(raw) {
		if r == utf8.RuneError || r < ' ' && r != '\n' && r != '\t' && r != '\r' {
			return false
		}
	}
	return true
}
