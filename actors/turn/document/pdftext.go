package document

import (
	"fmt"
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
	page    pdf.Page
	fonts   map[string]*pdf.Font
	decode  pdf.TextEncoding
	font    *pdf.Font
	size    float64
	leading float64
	scale   float64 // of the text matrix, along the line

	lineX, lineY float64 // where the line of text begins
	x            float64 // position of the next glyph on it
	drawn        bool
	lastX, lastY float64 // where the last string was drawn
	end          float64 // and where it ended

	out *sink
}

// drawing is a panic value that ends the library's loop over a page, which has no other way to end.
type drawing struct{ err error }

// run reads a page.
func (s *script) run(reader *pdf.Reader, number int) (err error) {
	defer func() {
		switch panicked := recover().(type) {
		case nil:
		case drawing:
			err = panicked.err
		default:
			err = fmt.Errorf("%w: %v", ErrUnreadable, panicked)
		}
	}()
	s.page = reader.Page(number)
	contents := s.page.V.Key("Contents")
	if contents.IsNull() {
		return nil
	}
	pdf.Interpret(contents, s.operate)
	return nil
}

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
		font := s.page.Font(name)
		s.fonts[name] = &font
	}
	s.font, s.size = s.fonts[name], size
	s.decode = s.font.Encoder()
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
	if s.decode == nil || raw == "" {
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
	text := s.decode.Decode(raw)
	s.write(text)
	width := 0.0
	for index := range len(raw) {
		width += s.font.Width(int(raw[index]))
	}
	if width == 0 {
		width = meanGlyph * float64(len([]rune(text)))
	}
	s.x += width / 1000 * s.size * s.scale
	s.end = s.x
}

// space writes a space between words, once.
func (s *script) space() {
	written := s.out.built.String()
	if written != "" && !strings.HasSuffix(written, " ") && !strings.HasSuffix(written, "\n") {
		s.write(" ")
	}
}

func (s *script) write(text string) {
	if err := s.out.write(text); err != nil {
		panic(drawing{err}) //nolint:forbidigo // run recovers it; the library's loop has no other end
	}
}
