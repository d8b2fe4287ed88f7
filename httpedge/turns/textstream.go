package turns

import "strings"

// TextStream computes, from the events and live text of a run, the text that a stream has not sent yet. It serves the client
// that started or resumed the run.
//
// The pieces that it returns, concatenated, are the run's text from that point on. Text that was not streamed (missed while the
// owner moved, or skipped for a slow client) is returned before what follows it. A recovered run generates its text again: while
// the new text repeats what was sent, nothing is returned, and what goes beyond it is. If the new text differs from what was
// already sent, which cannot be taken back, nothing more is returned: the stored answer is then authoritative.
//
// The zero value is ready for a run that starts.
type TextStream struct {
	prior string // text of a resumed run before it was resumed
	joins bool   // the resumed text continues in the middle of a sentence

	sent, matched         int             // bytes sent; bytes of the current attempt compared with them, at most sent
	sentHash, matchedHash sum             // of those bytes
	diverged              bool            // the current attempt's text differs from what was sent
	steps                 strings.Builder // text of the run's journalled steps since this stream began
}

// Resume prepares the stream for a run that continues after prior. joins says that it does so in the middle of a sentence.
func (s *TextStream) Resume(prior string, joins bool) { s.prior, s.joins = prior, joins }

// Step consumes the text of a model call that asked for tools, which comes before the tool calls, and returns what is unsent of it.
func (s *TextStream) Step(text string) string {
	const separator = "\n\n" // between the texts of two model calls
	if text != "" {
		if s.steps.Len()+len(s.prior) > 0 && !s.joins {
			s.steps.WriteString(separator)
		}
		s.steps.WriteString(text)
		s.joins = false
	}
	return s.rest(s.steps.String())
}

// Finish consumes the run's whole answer and returns what is unsent of it.
func (s *TextStream) Finish(content string) string {
	return s.rest(strings.TrimPrefix(content, s.prior))
}

// Begins reports whether what was sent is the beginning of the run's whole answer.
func (s *TextStream) Begins(content string) bool {
	content = strings.TrimPrefix(content, s.prior)
	return len(content) >= s.sent && add(0, content[:s.sent]) == s.sentHash
}

// Restart consumes the first text of a new attempt and returns what is unsent of it.
func (s *TextStream) Restart(text []byte) string {
	s.matched, s.matchedHash, s.diverged = 0, 0, false
	return s.consume(text)
}

// Advance consumes the current attempt's text, of which the bytes from offset on are new. A step may have sent parts of it.
func (s *TextStream) Advance(text []byte, offset int) string {
	from := max(offset, s.matched)
	if from > len(text) {
		return ""
	}
	return s.consume(text[from:])
}

// consume takes the next chunk of the current attempt's text and returns only what the client has not received yet.
func (s *TextStream) consume(text []byte) string {
	if s.diverged {
		return ""
	}
	if repeated := min(len(text), s.sent-s.matched); repeated > 0 {
		s.matchedHash = add(s.matchedHash, text[:repeated])
		s.matched += repeated
		text = text[repeated:]
		s.diverged = s.matched == s.sent && s.matchedHash != s.sentHash
	}
	if len(text) == 0 || s.diverged {
		return ""
	}
	s.sentHash = add(s.sentHash, text)
	s.matchedHash = s.sentHash
	s.sent += len(text)
	s.matched = s.sent
	return string(text)
}

// rest is the part of a text that was not sent, provided that what was sent is a prefix of it.
func (s *TextStream) rest(content string) string {
	if len(content) <= s.sent || add(0, content[:s.sent]) != s.sentHash {
		return ""
	}
	rest := content[s.sent:]
	s.sentHash = add(s.sentHash, rest)
	s.sent = len(content)
	s.matched, s.matchedHash = s.sent, s.sentHash
	return rest
}

// sum is a 64-bit FNV-1a hash, XORed with its seed so that the hash of an empty text is zero. It compares a text with one that
// is not kept.
type sum uint64

const (
	sumSeed  sum = 14695981039346656037
	sumPrime sum = 1099511628211
)

func add[T string | []byte](to sum, text T) sum {
	to ^= sumSeed
	for i := range len(text) {
		to = (to ^ sum(text[i])) * sumPrime
	}
	return to ^ sumSeed
}
