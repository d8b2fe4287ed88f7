package document

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/ledongthuc/pdf"
)

// maxPages bounds the pages that are read. A large document takes some 100 MB of memory.
const maxPages = 5000

// usual adjusts a PDF for the library, which is strict about the first and the last line.
func usual(raw []byte) []byte {
	const header = "%PDF-1.7\n"
	if len(raw) > len(header) && bytes.HasPrefix(raw, []byte("%PDF-")) {
		copy(raw, header)
	}
	if end := bytes.LastIndex(raw, []byte("%%EOF")); end >= 0 {
		raw = raw[:end+len("%%EOF")]
	}
	return raw
}

// pages writes the text of all pages. It skips what cannot be read, unless that is everything.
func pages(raw []byte, out *sink) (err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("%w: %v", ErrUnreadable, panicked)
		}
	}()
	raw = usual(raw)
	reader, err := pdf.NewReader(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	var problem error
	for number := range min(reader.NumPage(), maxPages) {
		drawn := &script{fonts: make(map[string]*pdf.Font), scale: 1, out: out}
		err := drawn.run(reader, number+1)
		if errors.Is(err, errFull) {
			return err
		}
		if err != nil {
			problem = err
		}
		if err := out.write("\n\n"); err != nil {
			return err
		}
	}
	if strings.TrimSpace(out.built.String()) == "" {
		return problem // nil for a document of pictures
	}
	return nil
}
