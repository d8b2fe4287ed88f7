// Package export renders conversations as files: Markdown, HTML and, through a browser, PDF.
//
// A Format renders a conversation piece by piece: its head, its messages in order, its end. It is pure, and the content
// is not trusted. In HTML, answers are Markdown rendered as a small set of harmless elements, and everything else is
// text; the page has a policy (Policy) under which nothing runs or is loaded. Stream reads a conversation page by page
// and never holds more than one page.
//
// A Printer renders the HTML as PDF. Chromium is the only one: a separate browser process for each PDF, with JavaScript
// off, no network, a temporary directory and a time limit. Few run at once. A browser that hangs is replaced once, or ended when
// the PDF is whole.
package export

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"strings"

	"parley/actors/core/naming"
	"parley/proto/conversationpb"
)

// Options configure the rendering.
type Options struct {
	Locale *Locale // nil = English
	Tools  bool    // include tool calls with arguments and results
	Print  bool    // for paper: page breaks between messages, no colours that cost ink
}

func (o Options) locale() *Locale {
	if o.Locale == nil {
		return english()
	}
	return o.Locale
}

// Format appends the parts of an export. Head is called once at the beginning, End once at the end.
type Format interface {
	Head(dst []byte, conversation *conversationpb.State) []byte
	Message(dst []byte, message *conversationpb.Message) []byte
	End(dst []byte) []byte
}

// Pages returns the next messages of a conversation in order, none at its end.
type Pages func() ([]*conversationpb.Message, error)

// Stream renders a conversation while the result is being read.
func Stream(format Format, conversation *conversationpb.State, pages Pages) io.Reader {
	return &stream{format: format, pages: pages, ready: format.Head(nil, conversation)}
}

type stream struct {
	format Format
	pages  Pages
	ready  []byte // rendered and not yet read
	buffer []byte // the memory of ready
	err    error
}

// Read implements io.Reader.
func (s *stream) Read(p []byte) (int, error) {
	for len(s.ready) == 0 {
		if s.err != nil {
			return 0, s.err
		}
		messages, err := s.pages()
		s.buffer = s.buffer[:0]
		switch {
		case err != nil:
			s.err = err
		case len(messages) == 0:
			s.buffer = s.format.End(s.buffer)
			s.err = io.EOF
		}
		for _, message := range messages {
			s.buffer = s.format.Message(s.buffer, message)
		}
		s.ready = s.buffer
	}
	n := copy(p, s.ready)
	s.ready = s.ready[n:]
	return n, nil
}

// FileName returns a file name for the export of a conversation, with an ending such as "md".
func FileName(conversation *conversationpb.State, ending string) string {
	const longest = 80 // characters
	name := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7F || strings.ContainsRune(`/\:*?"<>|`, r) {
			return ' '
		}
		return r
	}, naming.Plain(conversation.GetTitle()))
	name = strings.Join(strings.Fields(name), " ")
	if runes := []rune(name); len(runes) > longest {
		name = strings.TrimSpace(string(runes[:longest]))
	}
	name = strings.Trim(name, ".")
	return cmp.Or(name, "conversation") + "." + ending
}

// title returns the title of a conversation, or the locale's word for one without a title.
func title(conversation *conversationpb.State, locale *Locale) string {
	return cmp.Or(strings.TrimSpace(naming.Plain(conversation.GetTitle())), locale.Conversation)
}

// speaker returns the author of a message.
func speaker(agentName string, message *conversationpb.Message, locale *Locale) string {
	if message.GetRole() == conversationpb.Role_USER {
		return cmp.Or(naming.Plain(message.GetName()), locale.User)
	}
	return cmp.Or(naming.Plain(message.GetName()), naming.Plain(agentName), locale.Assistant)
}

// remark says how a message ended, "" if it was completed normally.
func remark(message *conversationpb.Message, locale *Locale) string {
	if message.GetEdited() {
		return locale.Edited
	}
	return locale.Statuses[message.GetStatus()]
}

// pretty indents JSON. Text that is not JSON, or is nested so deeply that indenting would inflate it, is returned as it
// is.
func pretty(text string) string {
	const deepest = 32
	depth, most := 0, 0
	for i := range len(text) {
		switch text[i] {
		case '{', '[':
			depth++
			most = max(most, depth)
		case '}', ']':
			depth--
		}
	}
	var indented bytes.Buffer
	if most > deepest || json.Indent(&indented, []byte(text), "", "  ") != nil {
		return text
	}
	return indented.String()
}
