package provider

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"strings"
)

// endMark is what some protocols end a stream with.
const endMark = "[DONE]"

// Events reads the JSON of a stream of server-sent events: the one reader of the answers of all dialects. Who reads the stream bounds it:
// see Limits. A line ends with CR, LF or both.
type Events struct {
	reader *bufio.Reader
	line   []byte
	data   []byte
	cr     bool // the line before ended with CR: an LF that follows belongs to it
	begun  bool // the first line was read
	// Heard says that there was an event, Done that the end mark came.
	Heard, Done bool

	document []byte // what came outside of events and looks like JSON, over as many lines as there are
	text     []byte // the begin of what came and is no part of a stream, nor a document
}

// NewEvents reads a stream.
func NewEvents(stream io.Reader) *Events {
	const window = 16 << 10
	return &Events{reader: bufio.NewReaderSize(stream, window)}
}

// More says that the next event is there already, and whole: what waits for it waits for nothing.
func (e *Events) More() bool {
	held, _ := e.reader.Peek(e.reader.Buffered()) // no more than there is
	at := bytes.Index(held, []byte("data:"))
	if at < 0 {
		return false
	}
	for _, end := range []string{"\n\n", "\r\n\r\n", "\r\r"} {
		if bytes.Contains(held[at:], []byte(end)) {
			return true
		}
	}
	return false
}

// Next returns the JSON of the next event that has any, valid until the next call; io.EOF at the end of the stream. That JSON will be split
// and not decoded: neither depth nor number of its values takes memory.
func (e *Events) Next() ([]byte, error) {
	data, err := e.next()
	switch {
	case err != nil:
		return nil, err
	case string(data) == endMark:
		e.Done = true
		return nil, io.EOF
	case !json.Valid(data):
		_, more := e.reader.Peek(1)
		return nil, broken("an event", data, errors.Is(more, io.EOF))
	}
	e.Heard = true
	return data, nil
}

// Rest is the document that came in place of a stream, or behind it: some say there what went wrong. nil = none. An error says that what
// came is neither.
func (e *Events) Rest(secrets Redactor) ([]byte, error) {
	switch {
	case e.document != nil && !json.Valid(e.document):
		if e.Heard {
			return nil, nil
		}
		return nil, broken("the answer", e.document, true)
	case e.document == nil && len(e.text) > 0 && !e.Heard:
		said := Complaint(0, e.text, secrets)
		said.Class, said.InStream, said.Reason = Unreadable, false, ErrUnreadable
		said.Message = cmp.Or(said.Message, "what came is no stream of events")
		return nil, said
	}
	return e.document, nil
}

// broken is the failure of what is no JSON. What ends with the stream, and too early, was cut.
func broken(what string, data []byte, last bool) *Failure {
	wrong, _ := errors.AsType[*json.SyntaxError](json.Unmarshal(data, new(json.RawMessage)))
	if last && wrong != nil && wrong.Offset >= int64(len(data)) {
		return &Failure{Class: Cut, Reason: ErrCut}
	}
	return &Failure{Class: Unreadable, Message: what + " is no JSON", Reason: ErrUnreadable}
}

func (e *Events) next() ([]byte, error) {
	e.data = e.data[:0]
	for {
		line, err := e.nextLine()
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		ended := err != nil
		if !e.begun {
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
			e.begun = true
		}
		if value, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			if len(e.data) > 0 {
				e.data = append(e.data, '\n')
			}
			e.data = append(e.data, bytes.TrimPrefix(value, []byte(" "))...)
		} else if err := e.outside(line); err != nil {
			return nil, err
		}
		if len(line) == 0 || ended {
			if data := bytes.TrimSpace(e.data); len(data) > 0 {
				return data, nil
			}
			e.data = e.data[:0]
		}
		if ended {
			return nil, io.EOF
		}
	}
}

// outside takes a line that is no data: one of a document over several lines, within an event or instead of any.
func (e *Events) outside(line []byte) error {
	if len(line) == 0 || line[0] == ':' {
		return nil
	}
	switch {
	case len(e.data) > 0 && strings.IndexByte(" \t}]\"", line[0]) >= 0:
		e.data = append(append(e.data, '\n'), line...)
	case e.document != nil, line[0] == '{', line[0] == '[':
		const most = 4 << 20 // blank lines within it begin the count of an event anew
		if len(e.document)+len(line) > most {
			return ErrEventSize
		}
		e.document = append(append(e.document, line...), '\n')
	case !isField(line) && len(e.text) < maxErrorBody:
		e.text = append(append(e.text, line[:min(len(line), maxErrorBody)]...), '\n')
	}
	return nil
}

// isField says whether a line is one of a stream.
func isField(line []byte) bool {
	name, _, _ := bytes.Cut(line, []byte(":"))
	switch string(name) {
	case "event", "id", "retry", "data":
		return true
	}
	return false
}

// nextLine returns the next line without its end, valid until the next call; io.EOF with the last one.
func (e *Events) nextLine() ([]byte, error) {
	e.line = e.line[:0]
	for {
		held, err := e.reader.Peek(max(e.reader.Buffered(), 1))
		if len(held) == 0 {
			return e.line, err
		}
		if e.cr && held[0] == '\n' {
			held = held[1:]
			_, _ = e.reader.Discard(1) // it was peeked at
		}
		e.cr = false
		end := bytes.IndexByte(held, '\n')
		if end < 0 {
			end = len(held)
		}
		if cr := bytes.IndexByte(held[:end], '\r'); cr >= 0 {
			end, e.cr = cr, true
		}
		_, _ = e.reader.Discard(min(end+1, len(held)))
		if end < len(held) && len(e.line) == 0 {
			return held[:end], nil
		}
		e.line = append(e.line, held[:end]...)
		if end < len(held) {
			return e.line, nil
		}
	}
}
