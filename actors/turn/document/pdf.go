package document

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/ledongthuc/pdf"
)

// Limits of a PDF.
const (
	maxPages   = 5000 // that are read
	maxTree    = 256  // depth of the tree of its pages; balanced ones have a handful of levels
	maxFilters = 4    // of one stream
	maxStreams = 2048 // of one page: they are open together, with 44 KB each
)

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

// paper is a PDF that is read. The library follows every reference again each time, forever if it leads back: the way
// through the pages is this package's, and what the library does on it is charged.
type paper struct {
	work    *budget
	out     *sink
	seen    map[string]bool   // inner nodes of the tree of pages, as they are written
	fonts   map[fontKey]*font // of all pages
	pages   int
	problem error // of the last part that could not be read
}

// pages writes the text of all pages. It skips what cannot be read, unless that is everything.
func pages(raw []byte, out *sink, work *budget) (err error) {
	p := &paper{work: work, out: out, seen: make(map[string]bool), fonts: make(map[fontKey]*font)}
	defer func() { err = p.fault(err, recover()) }()
	raw = usual(raw)
	reader, err := pdf.NewReader(&source{bytes.NewReader(raw), work}, int64(len(raw)))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	if err := p.walk(reader.Trailer().Key("Root").Key("Pages"), pdf.Value{}, maxTree); err != nil {
		return err
	}
	if strings.TrimSpace(out.built.String()) == "" {
		return p.problem // nil for a document of pictures
	}
	return nil
}

// fault is the error of a part of the document, given what reading it returned or panicked with.
func (p *paper) fault(err error, panicked any) error {
	if drawn, ends := panicked.(drawing); ends {
		return drawn.err
	}
	switch {
	case p.work.spent():
		return errSpent
	case panicked != nil:
		return fmt.Errorf("%w: %v", ErrUnreadable, panicked)
	}
	return err
}

// walk reads the pages below a node of their tree, and skips those that cannot be read. The error is one that ends the
// document.
func (p *paper) walk(node, inherited pdf.Value, depth int) error {
	err := p.node(node, inherited, depth)
	if errors.Is(err, errFull) || errors.Is(err, errSpent) {
		return err
	}
	if err != nil {
		p.problem = err
	}
	return nil
}

// node reads a page, or all below a node. Two nodes that are written alike have the same below them: the second is a
// mistake, or the way back into the first.
func (p *paper) node(node, inherited pdf.Value, depth int) (err error) {
	defer func() { err = p.fault(err, recover()) }()
	if own := node.Key("Resources"); !own.IsNull() {
		inherited = own
	}
	kids := node.Key("Kids")
	if kind := node.Key("Type").Name(); kind == "Page" || kids.Kind() != pdf.Array {
		if kind != "Page" {
			return nil
		}
		return p.page(node, inherited)
	}
	written := node.String()
	if err := p.work.spend(int64(len(written))); err != nil {
		return err
	}
	switch {
	case p.seen[written]:
		return fmt.Errorf("%w: its pages hold themselves", ErrUnreadable)
	case depth == 0:
		return fmt.Errorf("%w: the tree of its pages is more than %d deep", ErrUnreadable, maxTree)
	}
	p.seen[written] = true
	for index := range kids.Len() {
		if err := p.kid(kids, index, inherited, depth-1); err != nil {
			return err
		}
	}
	return nil
}

// kid walks through one of a node's kids. One that is not there does not hide the others.
func (p *paper) kid(kids pdf.Value, index int, inherited pdf.Value, depth int) error {
	var kid pdf.Value
	problem := func() (err error) {
		defer func() { err = p.fault(err, recover()) }()
		kid = kids.Index(index)
		return nil
	}()
	if problem == nil {
		return p.walk(kid, inherited, depth)
	}
	if errors.Is(problem, errSpent) {
		return problem
	}
	p.problem = problem
	return nil
}

// page reads one page.
func (p *paper) page(page, resources pdf.Value) error {
	if p.pages++; p.pages > maxPages {
		return fmt.Errorf("%w: it has more than %d pages", errSpent, maxPages)
	}
	err := p.draw(page, resources)
	if errors.Is(err, errFull) || errors.Is(err, errSpent) {
		return err
	}
	if err != nil {
		p.problem = err
	}
	return p.out.write("\n\n")
}

func (p *paper) draw(page, resources pdf.Value) (err error) {
	defer func() { err = p.fault(err, recover()) }()
	contents := page.Key("Contents")
	if contents.IsNull() {
		return nil
	}
	if err := p.measureAll(contents); err != nil {
		return err
	}
	drawn := &script{paper: p, faces: resources.Key("Font"), fonts: make(map[string]*font), scale: 1}
	pdf.Interpret(contents, drawn.operate)
	return nil
}

// measureAll charges what a page is drawn with, a stream or several.
func (p *paper) measureAll(contents pdf.Value) error {
	if contents.Kind() != pdf.Array {
		_, err := p.measure(contents)
		return err
	}
	if contents.Len() > maxStreams {
		return fmt.Errorf("%w: one of its pages has more than %d streams", ErrUnreadable, maxStreams)
	}
	for index := range contents.Len() {
		if _, err := p.measure(contents.Index(index)); err != nil {
			return err
		}
	}
	return nil
}

// measure unpacks a stream, charges its size, and returns it. The library then unpacks it once more, which is cheap beside
// what it does with it, but gives no way to count.
func (p *paper) measure(stream pdf.Value) (int64, error) {
	filters := stream.Key("Filter")
	for index := range filters.Len() {
		// What a filter unpacks for the next one is not counted.
		if index == maxFilters || index < filters.Len()-1 && filters.Index(index).Name() == "FlateDecode" {
			return 0, fmt.Errorf("%w: one of its streams is packed several times", ErrUnreadable)
		}
	}
	if err := p.work.spend(openWork); err != nil {
		return 0, err
	}
	size, err := io.Copy(tally{p.work, byteOfPage}, stream.Reader())
	if err != nil && !p.work.spent() {
		err = nil // the beginning can be read
	}
	return size, err
}
