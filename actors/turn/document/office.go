package document

import (
	"archive/zip"
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Limits of an archive.
const (
	maxUnpacked   = 32 << 20  // bytes of all parts that are read, together, of the largest archives
	leastUnpacked = 4 << 20   // of the smallest
	unpackedRatio = 100       // and for each byte that they have
	maxDirectory  = 4 << 20   // bytes of the list of its parts
	maxParts      = 20_000    // a workbook has some for each sheet and each drawing
	maxStrings    = 16 << 20  // bytes of a spreadsheet's shared texts
	maxToken      = 256 << 10 // bytes of one tag, comment or run of text
	maxAttributes = 512       // of one element; the first of a document names some forty namespaces
	maxTokens     = 8 << 20   // of all parts that are read
	maxDepth      = 512       // of elements; tables within tables take a dozen for each
)

// archive is the zipped XML of an office document.
type archive struct {
	parts  map[string]*zip.File
	left   int64 // bytes that may still be unpacked
	work   *budget
	tokens int // that may still be read
	texts  int // bytes that shared texts may have
}

func openArchive(raw []byte, work *budget) (*archive, error) {
	if !smallDirectory(raw) {
		return nil, fmt.Errorf("%w: it has too many parts", ErrUnreadable)
	}
	reader, err := zip.NewReader(&source{bytes.NewReader(raw), work}, int64(len(raw)))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	if len(reader.File) > maxParts {
		return nil, fmt.Errorf("%w: it has more than %d parts", ErrUnreadable, maxParts)
	}
	opened := &archive{
		parts: make(map[string]*zip.File, len(reader.File)), left: min(leastUnpacked+unpackedRatio*int64(len(raw)), maxUnpacked),
		work: work, tokens: maxTokens, texts: maxStrings,
	}
	for _, file := range reader.File {
		opened.parts[strings.TrimPrefix(path.Clean("/"+file.Name), "/")] = file
	}
	return opened, nil
}

// smallDirectory checks the size of the archive's directory, which the zip package holds in memory at several times its
// size. It must use the same end record as that package: the last one that fits.
func smallDirectory(raw []byte) bool {
	const length, size, offset, unknown = 22, 12, 16, 0xFFFFFFFF
	tail := raw[max(len(raw)-length-0xFFFF, 0):]
	const mark = "PK\x05\x06"
	at := bytes.LastIndex(tail[:max(len(tail)-length+len(mark), 0)], []byte(mark))
	if at < 0 {
		return true // not an archive: the zip package will report that
	}
	declared, start := binary.LittleEndian.Uint32(tail[at+size:]), binary.LittleEndian.Uint32(tail[at+offset:])
	return declared != unknown && start != unknown && declared <= maxDirectory && int64(len(raw))-int64(start) <= maxDirectory
}

// part is one part of an archive as the XML decoder reads it, byte by byte: nothing is read ahead, so that the bytes of
// a token can be counted. The decoder holds a whole token in memory before it returns it; an attribute of two bytes,
// without a value, takes 48.
type part struct {
	in      *bufio.Reader
	archive *archive
	token   int // bytes of the token that is being read
}

// ReadByte implements io.ByteReader.
func (p *part) ReadByte() (byte, error) {
	if p.token++; p.token > maxToken {
		return 0, fmt.Errorf("%w: one of its elements is longer than %d bytes", ErrUnreadable, maxToken)
	}
	if p.archive.left--; p.archive.left < 0 {
		return 0, fmt.Errorf("%w: it unpacks to too much", errSpent)
	}
	return p.in.ReadByte()
}

// Read implements io.Reader; the decoder uses ReadByte.
func (p *part) Read(buffer []byte) (int, error) {
	if len(buffer) == 0 {
		return 0, nil
	}
	one, err := p.ReadByte()
	if err != nil {
		return 0, err
	}
	buffer[0] = one
	return 1, nil
}

// walk visits the elements and texts of a part. A missing part is no error.
func (a *archive) walk(name string, visit func(xml.Token) error) error {
	file := a.parts[name]
	if file == nil {
		return nil
	}
	if err := a.work.spend(openWork); err != nil {
		return err
	}
	unpacked, err := file.Open()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	defer func() { _ = unpacked.Close() }()
	read := &part{in: bufio.NewReader(unpacked), archive: a}
	decoder := xml.NewDecoder(read)
	decoder.Strict = false
	for depth := 0; ; {
		read.token = 0
		token, err := decoder.RawToken()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case a.work.spent():
			return errSpent
		case errors.Is(err, ErrUnreadable):
			return err
		case err != nil:
			return fmt.Errorf("%w: %w", ErrUnreadable, err)
		}
		if depth, err = a.bound(token, depth); err != nil {
			return err
		}
		if err := visit(token); err != nil {
			return err
		}
	}
}

// bound counts a token, and returns the element depth of the next one.
func (a *archive) bound(token xml.Token, depth int) (int, error) {
	if a.tokens--; a.tokens < 0 {
		return 0, fmt.Errorf("%w: it has more than %d elements and texts", ErrUnreadable, maxTokens)
	}
	switch token := token.(type) {
	case xml.StartElement:
		if len(token.Attr) > maxAttributes {
			return 0, fmt.Errorf("%w: one of its elements has more than %d attributes", ErrUnreadable, maxAttributes)
		}
		if depth++; depth > maxDepth {
			return 0, fmt.Errorf("%w: its elements are more than %d deep", ErrUnreadable, maxDepth)
		}
	case xml.EndElement:
		depth = max(depth-1, 0)
	}
	return depth, nil
}

// runs writes the text of word processors and slides: both have runs (t), paragraphs (p), tabs and breaks.
func (a *archive) runs(name string, out *sink) error {
	inRun := false
	return a.walk(name, func(token xml.Token) error {
		switch token := token.(type) {
		case xml.StartElement:
			switch token.Name.Local {
			case "t":
				inRun = true
			case "tab":
				return out.write("\t")
			case "br", "cr":
				return out.write("\n")
			}
		case xml.EndElement:
			switch token.Name.Local {
			case "t":
				inRun = false
			case "p":
				return out.write("\n")
			case "tc":
				return out.write("\t")
			}
		case xml.CharData:
			if inRun {
				return out.write(string(token))
			}
		}
		return nil
	})
}

func readWords(raw []byte, out *sink, work *budget) error {
	opened, err := openArchive(raw, work)
	if err != nil {
		return err
	}
	if opened.parts["word/document.xml"] == nil {
		return fmt.Errorf("%w: it holds no text", ErrUnreadable)
	}
	for _, name := range append([]string{"word/document.xml"}, opened.numbered("word/", "footnotes", "endnotes")...) {
		if err := opened.runs(name, out); err != nil {
			return err
		}
	}
	return nil
}

func readSlides(raw []byte, out *sink, work *budget) error {
	opened, err := openArchive(raw, work)
	if err != nil {
		return err
	}
	for index, name := range opened.numbered("ppt/slides/", "slide") {
		if err := out.write(fmt.Sprintf("\n[slide %d]\n", index+1)); err != nil {
			return err
		}
		if err := opened.runs(name, out); err != nil {
			return err
		}
	}
	return nil
}

// numbered lists the parts of a folder that have one of the names, followed by a number or not, in the order of the number.
func (a *archive) numbered(folder string, stems ...string) []string {
	number := make(map[string]int)
	for name := range a.parts {
		rest, inside := strings.CutPrefix(name, folder)
		for _, stem := range stems {
			digits, found := strings.CutPrefix(strings.TrimSuffix(rest, ".xml"), stem)
			at, err := strconv.Atoi(digits)
			if inside && found && strings.HasSuffix(rest, ".xml") && (digits == "" || err == nil) {
				number[name] = at
			}
		}
	}
	names := make([]string, 0, len(number))
	for name := range number {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		if number[a] != number[b] {
			return number[a] - number[b]
		}
		return strings.Compare(a, b)
	})
	return names
}

func readSheets(raw []byte, out *sink, work *budget) error {
	opened, err := openArchive(raw, work)
	if err != nil {
		return err
	}
	texts, err := opened.sharedTexts()
	if err != nil {
		return err
	}
	for index, name := range opened.numbered("xl/worksheets/", "sheet") {
		if err := out.write(fmt.Sprintf("\n[sheet %d]\n", index+1)); err != nil {
			return err
		}
		if err := opened.sheet(name, texts, out); err != nil {
			return err
		}
	}
	return nil
}

// sharedTexts reads the texts that cells refer to by number.
func (a *archive) sharedTexts() ([]string, error) {
	var (
		texts []string
		one   strings.Builder
		inRun bool
		total int
	)
	err := a.walk("xl/sharedStrings.xml", func(token xml.Token) error {
		switch token := token.(type) {
		case xml.StartElement:
			inRun = inRun || token.Name.Local == "t"
		case xml.EndElement:
			switch token.Name.Local {
			case "t":
				inRun = false
			case "si":
				texts = append(texts, one.String())
				total += one.Len() + 16 // a text's own size in memory
				one.Reset()
			}
		case xml.CharData:
			if inRun {
				one.Write(token)
			}
		}
		if total+one.Len() > a.texts {
			return fmt.Errorf("%w: too many texts", ErrUnreadable)
		}
		return nil
	})
	return texts, err
}

// sheet writes one sheet: rows as lines, cells between tabs.
func (a *archive) sheet(name string, texts []string, out *sink) error {
	var (
		cell    strings.Builder
		shared  bool
		inValue bool
		first   bool
	)
	return a.walk(name, func(token xml.Token) error {
		switch token := token.(type) {
		case xml.StartElement:
			switch token.Name.Local {
			case "row":
				first = true
			case "c":
				shared = attribute(token, "t") == "s"
				cell.Reset()
			case "v", "t":
				inValue = true
			}
		case xml.CharData:
			if inValue && cell.Len()+len(token) <= maxTag {
				cell.Write(token)
			}
		case xml.EndElement:
			switch token.Name.Local {
			case "v", "t":
				inValue = false
			case "c":
				text := cell.String()
				if index, err := strconv.Atoi(text); shared && err == nil && index >= 0 && index < len(texts) {
					text = texts[index]
				}
				if !first {
					text = "\t" + text
				}
				first = false
				return out.write(text)
			case "row":
				return out.write("\n")
			}
		}
		return nil
	})
}

func attribute(element xml.StartElement, name string) string {
	for _, one := range element.Attr {
		if one.Name.Local == name {
			return one.Value
		}
	}
	return ""
}
