package aegis

import (
	"strings"
	"unicode/utf8"

	"parley/actors/core/dlp"
)

const (
	// before is how many bytes of what was given away are looked at again: words that say what a number is stand there.
	before = 192
	// briefly is how many bytes may be held back and still be looked at with every piece; of more, when an eighth was added.
	briefly = 256
)

// Cut is a part of a text that is taken out.
type Cut struct {
	Start, End int
	Mark       string // in its place
	Last       bool   // nothing follows it, and no mark: the text ends there
}

// Patterns say what is taken out of a text.
type Patterns interface {
	// Cuts are what is taken out of a text, by where they begin, those that end behind a byte at which nothing was open.
	Cuts(text string, from int) []Cut
	// Open is from where on a text may still become part of something, were more to follow, see dlp.Open.
	Open(text string) int
	// Passed says which part of the text that Cuts was last called with is over: what ends in it is looked at no more.
	Passed(from, to int)
}

// Stream takes secrets and personal data, or what other patterns find, out of a text that comes in pieces. Of what came it holds back
// only what may still become part of something. nil changes nothing.
type Stream struct {
	patterns Patterns
	before   string // what was given away last, as it came
	held     []byte
	looked   int // bytes that were held when they were last looked at
	over     *Cut
}

// NewStream begins a text.
func NewStream(patterns Patterns) *Stream { return &Stream{patterns: patterns} }

// Stream begins a text. nil = the shield takes nothing out.
func (s *Shield) Stream() *Stream {
	if !s.redacts() {
		return nil
	}
	return NewStream(data{&judgement{shield: s}})
}

// data is the patterns of a shield.
type data struct{ *judgement }

// Cuts implements Patterns.
func (d data) Cuts(text string, from int) []Cut {
	var cuts []Cut
	for _, f := range dlp.ScanAfter(text, from) {
		if d.redacts(f.Class) {
			cuts = append(cuts, Cut{Start: f.Start, End: f.End, Mark: mark(f.Kind)})
		}
	}
	return cuts
}

// Open implements Patterns.
func (data) Open(text string) int { return dlp.Open(text) }

// Passed implements Patterns.
func (data) Passed(int, int) {}

// redacts says whether anything is taken out of texts.
func (s *Shield) redacts() bool {
	return s.GetMode() == Enforce && (s.DLP.RedactSecrets || s.DLP.RedactPII)
}

// After says what stands before the text and was given away: what begins there is found, too, as far as it is in the text. It is called
// before the first piece.
func (s *Stream) After(text string) {
	s.before = tail(text)
}

// tail is the end of a text, as much of it as is looked at again.
func tail(text string) string {
	start := max(0, len(text)-before)
	for start < len(text) && !utf8.RuneStart(text[start]) {
		start++
	}
	return text[start:]
}

// HoldsBack says that nothing of what an agent says may be given away before all of it was judged: a model is asked once, about the whole
// text, since half a sentence has another meaning than all of it, and what was streamed cannot be taken back.
func (s *Shield) HoldsBack() bool { return s.GetMode() == Enforce && s.Judges(OutputPre) }

// Write takes a piece and returns what can be given away.
func (s *Stream) Write(piece string) string {
	if s == nil {
		return piece
	}
	if s.over != nil {
		return ""
	}
	s.held = append(s.held, piece...)
	if len(s.held) > briefly && len(s.held) < s.looked+s.looked/8 {
		return ""
	}
	s.looked = len(s.held)
	all := s.before + string(s.held)
	return s.release(all, len(s.before)+s.patterns.Open(all[len(s.before):]))
}

// Close ends the text and returns the rest of it.
func (s *Stream) Close() string {
	if s == nil {
		return ""
	}
	all := s.before + string(s.held)
	return s.release(all, len(all))
}

// Over says at which cut the text has ended, which is one that nothing follows.
func (s *Stream) Over() (Cut, bool) {
	if s == nil || s.over == nil {
		return Cut{}, false
	}
	return *s.over, true
}

// release gives away what is held up to a byte of all.
func (s *Stream) release(all string, end int) string {
	from := len(s.before)
	if end == from {
		return ""
	}
	last := from
	var clean strings.Builder
	for _, cut := range s.patterns.Cuts(all, from) {
		switch {
		case cut.End <= last || cut.Start >= end:
			continue
		case cut.End > end:
			end = max(last, cut.Start)
			continue
		}
		clean.WriteString(all[last:max(last, cut.Start)])
		if cut.Last {
			s.over, s.held = &cut, nil
			s.patterns.Passed(from, cut.End)
			return clean.String()
		}
		clean.WriteString(cut.Mark)
		last = cut.End
	}
	s.patterns.Passed(from, end)
	s.before, s.held = tail(all[:end]), append(s.held[:0], all[end:]...)
	s.looked = len(s.held)
	if last == from {
		return all[from:end]
	}
	clean.WriteString(all[last:end])
	return clean.String()
}

// mark stands for what was taken out.
func mark(kind dlp.Kind) string { return "[REDACTED:" + string(kind) + "]" }

// Clean returns a text without what the shield takes out, without a decision: of texts that were, or will be, judged elsewhere.
func (s *Shield) Clean(text string) string {
	if s == nil || !s.redacts() {
		return text
	}
	return (&judgement{shield: s}).text(text, "", "")
}

// CleanJSON does so with the texts and names of a JSON value. What is no JSON is cleaned as a text, which leaves it none.
func (s *Shield) CleanJSON(raw []byte) []byte {
	if s == nil || !s.redacts() || len(raw) == 0 {
		return raw
	}
	value, err := decode(raw)
	if err != nil {
		return []byte(s.Clean(string(raw)))
	}
	j := &judgement{shield: s, call: &Call{}}
	value = j.value(value, "", "")
	if len(j.mutations) == 0 {
		return raw
	}
	return encode(value)
}
