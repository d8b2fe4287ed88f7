package dlp

import "strings"

// Open returns from where on a text may still become part of something, were more to follow: what stands before is as it stays. It is
// for texts that come in pieces.
func Open(text string) int {
	first := asItIs(text).open()
	if folded, changed := fold(text); changed {
		first = min(first, folded.origin(folded.open()))
	}
	if joined, changed := join(text); changed {
		first = min(first, joined.origin(joined.open()))
	}
	return first
}

// origin is where a byte of the view stands in the original.
func (v view) origin(at int) int {
	if v.at == nil {
		return at
	}
	return int(v.at[at])
}

// open is the least of what the patterns may still take: a run without blanks, and what goes on behind a blank.
func (v view) open() int {
	t := v.text
	return min(runOf(t, len(t)), openApart(t), openNumber(t), openAccount(t), openSpelled(t), openKey(t))
}

// openApart is where the characters begin that stand apart from each other, up to the end.
func openApart(t string) int {
	p := len(t) - 1
	if p >= 0 && isBlank(t[p]) {
		p--
	}
	if p < 0 || isBlank(t[p]) || p > 0 && !isBlank(t[p-1]) {
		return len(t)
	}
	for p >= 2 && !isBlank(t[p-2]) && (p == 2 || isBlank(t[p-3])) {
		p -= 2
	}
	return p
}

// openNumber is where the groups of digits begin that may be one number with those to come.
func openNumber(t string) int {
	first, count := len(t), 0
	for at := len(t); count < longestNumber; {
		end := at
		for end > 0 && at-end < 2 && strings.IndexByte(" -./()", t[end-1]) >= 0 {
			end--
		}
		at = end
		for at > 0 && isDigit(t[at-1]) {
			at--
		}
		if at == end {
			break
		}
		first, count = at, count+end-at
	}
	if first < len(t) && first > 0 && (t[first-1] == '+' || t[first-1] == '(') {
		first--
	}
	return first
}

// openAccount is where an IBAN may begin that goes on.
func openAccount(t string) int {
	const most = 34
	first, count := len(t), 0
	for at := len(t); at > 0 && count < most; at-- {
		switch c := t[at-1]; {
		case isAlnum(c):
			count++
			if at+3 <= len(t) && (at == 1 || !isWord(t[at-2])) && isLetter(c) && isLetter(t[at]) && isDigit(t[at+1]) && isDigit(t[at+2]) {
				first = at - 1
			}
		case (c == ' ' || c == '-') && at > 1 && isAlnum(t[at-2]):
		default:
			return first
		}
	}
	return first
}

// openSpelled is where a mail address may begin that is spelled: "name (at) host (dot) ...".
func openSpelled(t string) int {
	const longest = 256
	from := max(0, len(t)-longest)
	for i := from; i+2 <= len(t); i++ {
		if t[i]|0x20 != 'a' || t[i+1]|0x20 != 't' || i > 0 && isWord(t[i-1]) || i+2 < len(t) && isWord(t[i+2]) {
			continue
		}
		words := strings.FieldsFunc(t[i+2:], func(r rune) bool { return strings.ContainsRune(" ()[]{}<>", r) })
		goesOn := true
		for k := 1; k < len(words); k += 2 {
			word := strings.ToLower(words[k])
			goesOn = goesOn && (strings.HasPrefix(word, "dot") || strings.HasPrefix("dot", word))
		}
		if !goesOn {
			continue
		}
		return spelledName(t[:i])
	}
	end := len(t) // of a name, if "at" comes
	for _, word := range []string{"at", "a"} {
		if cut := len(t) - len(word); cut > 0 && strings.EqualFold(t[cut:], word) && !isWord(t[cut-1]) {
			end = cut
			break
		}
	}
	return min(len(t), spelledName(t[:end]))
}

// spelledName is where the word begins that stands before blanks at the end.
func spelledName(t string) int {
	const longest = 64
	start := len(strings.TrimRight(t, " ([{<"))
	if start == len(t) {
		return len(t)
	}
	for end := start; start > 0 && end-start < longest && !isBlank(t[start-1]); {
		start--
	}
	return start
}

// openKey is where a private key begins that has not ended.
func openKey(t string) int {
	const begin, kind, last, longest = "-----BEGIN ", "PRIVATE KEY", "-----END ", 80
	for from := 0; ; {
		at := strings.Index(t[from:], begin)
		if at < 0 {
			return len(t)
		}
		at += from
		rest := t[at:]
		line, _, whole := strings.Cut(rest[:min(len(rest), longest)], "\n")
		from = at + len(begin)
		switch end := strings.Index(rest, last); {
		case !whole && len(rest) < longest:
			return at
		case !strings.Contains(line, kind):
		case end < 0, len(rest)-end-len(last) < 65 && !strings.Contains(rest[end+len(last):], "-----"):
			return at
		}
	}
}
