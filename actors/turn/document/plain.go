package document

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// readPlain reads text. UTF-16 is recognised by its byte order mark; of text in an unknown encoding the readable part
// is kept.
func readPlain(_ context.Context, in io.Reader, out *sink) error {
	buffered := bufio.NewReader(in)
	head, err := buffered.Peek(3)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("document: read: %w", err)
	}
	switch {
	case bytes.HasPrefix(head, []byte{0xEF, 0xBB, 0xBF}):
		_, _ = buffered.Discard(3)
	case bytes.HasPrefix(head, []byte{0xFF, 0xFE}):
		return readWide(buffered, binary.LittleEndian, out)
	case bytes.HasPrefix(head, []byte{0xFE, 0xFF}):
		return readWide(buffered, binary.BigEndian, out)
	}
	// A little more than the limit, to detect a longer text.
	raw, err := io.ReadAll(io.LimitReader(buffered, int64(min(out.limit, MaxInput))+utf8.UTFMax))
	if err != nil {
		return fmt.Errorf("document: read: %w", err)
	}
	return out.write(string(raw))
}

func readWide(in io.Reader, order binary.ByteOrder, out *sink) error {
	raw, err := io.ReadAll(io.LimitReader(in, 2*int64(min(out.limit, MaxInput/2))+8))
	if err != nil {
		return fmt.Errorf("document: read: %w", err)
	}
	units := make([]uint16, 0, len(raw)/2)
	for ; len(raw) >= 2; raw = raw[2:] {
		units = append(units, order.Uint16(raw))
	}
	return out.write(strings.TrimPrefix(string(utf16.Decode(units)), "\uFEFF"))
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
