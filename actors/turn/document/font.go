package document

import (
	"strings"

	"github.com/ledongthuc/pdf"
)

// Limits of what is kept of a font's decoded strings.
const (
	maxGlyphs = 1 << 14 // strings
	maxGlyph  = 16      // bytes of each: most texts are placed a few glyphs at a time
)

// tableWork is how many bytes of a font's table of characters are worth a unit of work, for each byte that is decoded: the
// library searches the table from its beginning.
const tableWork = 32

// fontKey is a font by how the fonts of its page are written, and its name among them.
type fontKey struct{ fonts, name string }

// font is what drawing needs to know of a font.
type font struct {
	encoding pdf.TextEncoding
	bytewise bool  // each byte is a character
	cost     int64 // of decoding a byte
	widths   [256]float64
	glyphs   map[string]string // strings that are decoded already
}

// font reads a font.
func (p *paper) font(value pdf.Value) (*font, error) {
	face := pdf.Font{V: value}
	read := &font{cost: 1, glyphs: make(map[string]string)}
	if table := value.Key("ToUnicode"); table.Kind() == pdf.Stream {
		size, err := p.measure(table)
		if err != nil {
			return nil, err
		}
		read.cost += size / tableWork
	}
	if encoding := value.Key("Encoding"); encoding.Kind() == pdf.Dict {
		read.bytewise, read.cost = true, int64(1+encoding.Key("Differences").Len())
	}
	read.encoding = face.Encoder()
	widths, first, last := value.Key("Widths"), face.FirstChar(), face.LastChar()
	for code := max(first, 0); code <= min(last, len(read.widths)-1); code++ {
		read.widths[code] = widths.Index(code - first).Float64()
	}
	return read, nil
}

// decode returns a string's text.
func (f *font) decode(raw string, work *budget) (string, error) {
	if !f.bytewise {
		return f.glyph(raw, work)
	}
	var text strings.Builder
	for index := range len(raw) {
		glyph, err := f.glyph(raw[index:index+1], work)
		if err != nil {
			return "", err
		}
		text.WriteString(glyph)
	}
	return text.String(), nil
}

func (f *font) glyph(raw string, work *budget) (string, error) {
	if text, known := f.glyphs[raw]; known {
		return text, nil
	}
	if err := work.spend(int64(len(raw)) * f.cost); err != nil {
		return "", err
	}
	text := f.encoding.Decode(raw)
	if len(raw) <= maxGlyph && len(f.glyphs) < maxGlyphs {
		f.glyphs[raw] = text
	}
	return text, nil
}
