package document

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
	"golang.org/x/net/html/charset"
)

// readPlain reads text of a content type.
func readPlain(contentType string, in io.Reader, out *sink) error {
	const sniffed = 1024
	buffered := bufio.NewReaderSize(in, sniffed)
	head, err := buffered.Peek(sniffed)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("document: read: %w", err)
	}
	text := io.Reader(buffered)
	encoding, _, known := charset.DetermineEncoding(head, contentType)
	if known {
		text = encoding.NewDecoder().Reader(io.LimitReader(buffered, MaxInput))
	}
	// A little more than the limit, to detect a longer text.
	raw, err := io.ReadAll(io.LimitReader(text, int64(min(out.limit, MaxInput))+2*utf8.UTFMax))
	if err != nil {
		return fmt.Errorf("document: read: %w", err)
	}
	if !known {
		raw = toUTF8(raw, "")
	}
	return out.write(strings.TrimPrefix(string(raw), "\uFEFF"))
}

// toUTF8 decodes text whose encoding its byte order mark or its content type says. Else it is UTF-8, maybe damaged, or guessed as
// browsers do.
func toUTF8(raw []byte, contentType string) []byte {
	encoding, name, known := charset.DetermineEncoding(raw, contentType)
	if !known && (name == "utf-8" || mostlyUTF8(raw)) {
		return raw
	}
	decoded, err := encoding.NewDecoder().Bytes(raw)
	if err != nil {
		return raw
	}
	return bytes.TrimPrefix(decoded, []byte("\uFEFF"))
}

// mostlyUTF8 says that no more bytes are no UTF-8 than there are characters of it beside ASCII.
func mostlyUTF8(raw []byte) bool {
	balance := 0
	for len(raw) > 0 {
		r, size := utf8.DecodeRune(raw)
		switch {
		case size > 1:
			balance++
		case r == utf8.RuneError:
			balance--
		}
		raw = raw[size:]
	}
	return balance >= 0
}

// maxTag bounds one tag, comment or run of text of an HTML document.
const maxTag = 1 << 20

// readHTML keeps the text that a browser would show, roughly in lines.
func readHTML(raw []byte, out *sink, work *budget) error {
	tokens := html.NewTokenizer(bytes.NewReader(raw))
	tokens.SetMaxBuf(maxTag)
	hidden := 0 // depth in invisible elements
	for {
		kind := tokens.Next()
		if err := work.spend(int64(1 + len(tokens.Raw()))); err != nil {
			return err
		}
		switch kind {
		case html.ErrorToken:
			if err := tokens.Err(); !errors.Is(err, io.EOF) {
				return fmt.Errorf("%w: %w", ErrUnreadable, err)
			}
			return nil
		case html.StartTagToken, html.SelfClosingTagToken:
			name, _ := tokens.TagName()
			if err := out.tag(atom.Lookup(name), &hidden, 1); err != nil {
				return err
			}
		case html.EndTagToken:
			name, _ := tokens.TagName()
			if err := out.tag(atom.Lookup(name), &hidden, -1); err != nil {
				return err
			}
		case html.TextToken:
			if hidden > 0 {
				continue
			}
			if err := out.words(string(tokens.Text())); err != nil {
				return err
			}
		case html.CommentToken, html.DoctypeToken:
		}
	}
}

// tag counts invisible elements, and ends the line at block elements.
func (s *sink) tag(name atom.Atom, hidden *int, step int) error {
	switch name {
	case atom.Script, atom.Style, atom.Template, atom.Noscript, atom.Iframe, atom.Object, atom.Svg:
		*hidden = max(*hidden+step, 0)
	case atom.Td, atom.Th:
		if step > 0 && *hidden == 0 {
			return s.write("\t")
		}
	case atom.Address, atom.Article, atom.Aside, atom.Blockquote, atom.Br, atom.Dd, atom.Div, atom.Dl, atom.Dt, atom.Figure,
		atom.Footer, atom.Form, atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6, atom.Header, atom.Hr, atom.Li, atom.Main,
		atom.Nav, atom.Ol, atom.P, atom.Pre, atom.Section, atom.Table, atom.Title, atom.Tr, atom.Ul:
		if *hidden == 0 && s.built.Len() > 0 && !strings.HasSuffix(s.built.String(), "\n") {
			return s.write("\n")
		}
	default:
	}
	return nil
}

// words writes text with runs of white space collapsed.
func (s *sink) words(text string) error {
	words := strings.Join(strings.Fields(text), " ")
	if words == "" {
		return nil
	}
	written := s.built.String()
	if first, _ := utf8.DecodeRuneInString(text); written != "" && strings.ContainsRune(" \t\r\n", first) &&
		!strings.HasSuffix(written, "\n") && !strings.HasSuffix(written, " ") && !strings.HasSuffix(written, "\t") {
		words = " " + words
	}
	if last, _ := utf8.DecodeLastRuneInString(text); strings.ContainsRune(" \t\r\n", last) {
		words += " "
	}
	return s.write(words)
}
