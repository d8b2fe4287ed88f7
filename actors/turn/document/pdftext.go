package document

import (
	"math"
	"strings"

	"github.com/ledongthuc/pdf"
)

// Widths, in thousandths of the font size. A PDF places glyphs; words and lines follow from the gaps between them.
const (
	wordGap   = 180 // a gap inside a line that is a space
	meanGlyph = 500 // if the font does not specify it
)

// script reads the text of one page as it is drawn.
type script struct {
	paper   *paper
	faces   pdf.Value        // the page's fonts
	written string           // how those are written, once one was chosen
	fonts   map[string]*font // those that were chosen, by name
	font    *font
	size    float64
	leading float64
	scale   float64 // of the text matrix, along the line

	lineX, lineY float64 // where the line of text begins
	x            float64 // position of the next glyph on it
	drawn        bool
	lastX, lastY float64 // where the last string was drawn
	end          float64 // and where it ended
}

// drawing is a panic value that ends the library's loop over a page, which has no other way to end.
type drawing struct{ err error }

// operate executes one operator with its operands (ISO 32000-1, 9.4).
func (s *script) operate(stack *pdf.Stack, operator string) {
	args := make([]pdf.Value, stack.Len())
	for index := len(args) - 1; index >= 0; index-- {
		args[index] = stack.Pop()
	}
	number := func(index int) float64 {
		if index < len(args) {
			return args[index].Float64()
		}
		return 0
	}
	switch operator {
	case "BT":
		s.place(0, 0, 1)
	case "Tf":
		if len(args) == 2 {
			s.choose(args[0].Name(), number(1))
		}
	case "TL":
		s.leading = number(0)
	case "TD":
		s.leading = -number(1)
		s.move(number(0), number(1))
	case "Td":
		s.move(number(0), number(1))
	case "T*":
		s.move(0, -s.leading)
	case "Tm":
		s.place(number(4), number(5), math.Hypot(number(0), number(1)))
	case "'", "\"":
		s.move(0, -s.leading)
		fallthrough
	case "Tj":
		if len(args) > 0 {
			s.show(args[len(args)-1].RawString())
		}
	case "TJ":
		if len(args) > 0 {
			s.showAll(args[0])
		}
	}
}

// choose sets the font.
func (s *script) choose(name string, size float64) {
	if s.fonts[name] == nil {
		s.fonts[name] = s.find(name)
	}
	s.font, s.size = s.fonts[name], size
}

// find returns a font of the page, read once for all pages whose fonts are written alike.
func (s *script) find(name string) *font {
	if s.written == "" {
		s.written = s.faces.String()
		s.spend(int64(len(s.written)))
	}
	key := fontKey{s.written, name}
	if s.paper.fonts[key] == nil {
		read, err := s.paper.font(s.faces.Key(name))
		if err != nil {
			panic(drawing{err}) //nolint:forbidigo // draw recovers it; the library's loop has no other end
		}
		s.paper.fonts[key] = read
	}
	return s.paper.fonts[key]
}

// spend charges work.
func (s *script) spend(work int64) {
	if err := s.paper.work.spend(work); err != nil {
		panic(drawing{err}) //nolint:forbidigo // draw recovers it; the library's loop has no other end
	}
}

// move begins a line relative to the last one.
func (s *script) move(x, y float64) { s.place(s.lineX+x*s.scale, s.lineY+y*s.scale, s.scale) }

// place begins a line, which may be visually the same one.
func (s *script) place(x, y, scale float64) { s.lineX, s.lineY, s.scale, s.x = x, y, scale, x }

func (s *script) showAll(parts pdf.Value) {
	for index := range parts.Len() {
		part := parts.Index(index)
		if part.Kind() == pdf.String {
			s.show(part.RawString())
			continue
		}
		s.x -= part.Float64() / 1000 * s.size * s.scale
	}
}

// show writes a string, preceded by a space or line break if its distance from the last one suggests that.
func (s *script) show(raw string) {
	if s.font == nil || raw == "" {
		return
	}
	em := math.Abs(s.size * s.scale)
	switch {
	case !s.drawn:
	case math.Abs(s.lineY-s.lastY) > em/4:
		s.write("\n")
	case s.x-s.end > em*wordGap/1000, s.x <= s.lastX:
		s.space()
	}
	s.lastX, s.lastY, s.drawn = s.x, s.lineY, true
	text, err := s.font.decode(raw, s.paper.work)
	if err != nil {
		panic(drawing{err}) //nolint:forbidigo // draw recovers it; the library's loop has no other end
	}
	s.write(text)
	width := 0.0
	for index := range len(raw) {
		width += s.font.widths[raw[index]]
	}
	if width == 0 {
		width = meanGlyph * float64(len([]rune(text)))
	}
	s.x += width / 1000 * s.size * s.scale
	s.end = s.x
}

// space writes a space between words, once.
func (s *script) space() {
	written := s.paper.out.built.String()
	if written != "" && !strings.HasSuffix(written, " ") && !strings.HasSuffix(written, "\n") {
		s.write(" ")
	}
}

func (s *script) write(text string) {
	if err := s.paper.out.write(text); err != nil {
		panic(drawing{err}) //nolint:forbidigo // draw recovers it; the library's loop has no other end
	}
}
