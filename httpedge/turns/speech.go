package turns

import "strings"

// Speech finds in what is told of a run the text that a stream has not sent yet, for the client that began or resumed the run.
//
// The pieces that it returns, put together, are what the run says from here on. Text that was not streamed (missed while the
// owner moved, or skipped for a slow client) comes before what follows it. A recovered run says its text again: as far as it
// repeats what was sent nothing is returned, and from there on it goes on. Only when it says something else than what was
// already sent, which cannot be taken back, nothing more is returned: the stored answer is then what counts.
//
// The zero value is ready for a run that begins.
type Speech struct {
	prior string // what a resumed run had said before
	joins bool   // the run goes on in the middle of a sentence

	said, heard         int             // bytes sent; bytes of the present saying, at most said of them compared
	saidHash, heardHash sum             // of those bytes
	diverged            bool            // the present saying differs from what was sent
	told                strings.Builder // text of the run's journalled steps, as far as this stream goes back
}

// Resume makes it the speech of a run that goes on after what it had said. joins says that it does so in the middle of a
// sentence.
func (s *Speech) Resume(prior string, joins bool) { s.prior, s.joins = prior, joins }

// Step is told the text of a model call that asked for tools, all of which is said before the calls.
func (s *Speech) Step(text string) string {
	const separator = "\n\n" // between the texts of two model calls
	if text != "" {
		if s.told.Len()+len(s.prior) > 0 && !s.joins {
			s.told.WriteString(separator)
		}
		s.told.WriteString(text)
		s.joins = false
	}
	return s.rest(s.told.String())
}

// Rest is told the run's whole answer.
func (s *Speech) Rest(content string) string { return s.rest(strings.TrimPrefix(content, s.prior)) }

// Again is told that the run's text begins again, with this.
func (s *Speech) Again(text []byte) string {
	s.heard, s.heardHash, s.diverged = 0, 0, false
	return s.hear(text)
}

// Hear is told the run's text, of which what stands from offset on is new. Parts of it may have been sent with a step.
func (s *Speech) Hear(text []byte, offset int) string {
	from := max(offset, s.heard)
	if from > len(text) {
		return ""
	}
	return s.hear(text[from:])
}

// hear takes the next piece of the present saying and returns what is new of it.
func (s *Speech) hear(text []byte) string {
	if s.diverged {
		return ""
	}
	if again := min(len(text), s.said-s.heard); again > 0 {
		s.heardHash = add(s.heardHash, text[:again])
		s.heard += again
		text = text[again:]
		s.diverged = s.heard == s.said && s.heardHash != s.saidHash
	}
	if len(text) == 0 || s.diverged {
		return ""
	}
	s.saidHash = add(s.saidHash, text)
	s.heardHash = s.saidHash
	s.said += len(text)
	s.heard = s.said
	return string(text)
}

// rest is what of a text was not sent, if what was sent is its beginning.
func (s *Speech) rest(content string) string {
	if len(content) <= s.said || add(0, content[:s.said]) != s.saidHash {
		return ""
	}
	rest := content[s.said:]
	s.saidHash = add(s.saidHash, rest)
	s.said = len(content)
	s.heard, s.heardHash = s.said, s.saidHash
	return rest
}

// sum is FNV-1a, 64 bit, less its seed, so that zero is the sum of nothing: it compares a text with one that is not kept.
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
