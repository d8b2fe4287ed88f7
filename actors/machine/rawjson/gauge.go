package rawjson

import "errors"

// ErrTooComplex says that a text nests deeper, or has more values, than it may.
var ErrTooComplex = errors.New("JSON nests too deep, or has too many values")

// Gauge follows JSON as it comes and says when it is more than a decoder should be given: decoded, a value of two bytes takes
// from forty to more than a thousand, and not every decoder bounds its stack. It looks at brackets, commas and strings only,
// and is right of what is JSON; of what is not it may be wrong, where the decoder fails.
type Gauge struct {
	// MaxDepth bounds how deep arrays and objects nest, MaxValues how many values there are.
	MaxDepth, MaxValues int
	// Events says that the text is an event stream: an empty line ends a JSON text. CR says that a CR alone ends a line, too: not
	// every reader knows that.
	Events, CR bool

	depth, values  int
	before         int // values of the texts that have ended
	quoted, escape bool
	line           int  // bytes of it
	last           byte // of them
}

// Take looks at the next piece of the text. After an error it must not be used any more.
func (g *Gauge) Take(piece []byte) error {
	for _, c := range piece {
		switch {
		case c == '\n' || c == '\r':
			g.endLine(c)
		case g.escape:
			g.escape = false
		case g.quoted:
			g.quoted, g.escape = c != '"', c == '\\'
		default:
			g.look(c)
		}
		g.last = c
		if g.line++; c == '\n' || c == '\r' && g.CR {
			g.line = 0
		}
		if g.depth > g.MaxDepth || g.values > g.MaxValues {
			return ErrTooComplex
		}
	}
	return nil
}

func (g *Gauge) look(c byte) {
	switch c {
	case '"':
		g.quoted = true
	case '[', '{':
		g.depth++
		g.values++
	case ']', '}':
		g.depth = max(g.depth-1, 0)
	case ',':
		g.values++
	}
}

// endLine: no string goes over the end of a line, so what is no JSON, say a comment of an event stream, cannot hide any.
func (g *Gauge) endLine(c byte) {
	g.quoted, g.escape = false, false
	empty := g.line == 0 && (c == '\n' || g.CR)
	if g.last == '\r' && c == '\n' { // both end one line
		empty = g.line == 1 && !g.CR
	}
	if g.Events && empty {
		g.before += g.values
		g.depth, g.values = 0, 0
	}
}

// Values is how many values were seen so far, over all the texts of an event stream.
func (g *Gauge) Values() int { return g.before + g.values }

// Text is how many of them are in the text that has not ended yet.
func (g *Gauge) Text() int { return g.values }

// Modest says whether a text nests no deeper, and has no more values, than it may.
func Modest(raw []byte, depth, values int) bool {
	gauge := Gauge{MaxDepth: depth, MaxValues: values}
	return gauge.Take(raw) == nil
}
