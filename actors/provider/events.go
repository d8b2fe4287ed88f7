package provider

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// Events reads the data of a stream of server-sent events. Who reads the stream bounds it: see Limits.
type Events struct {
	reader *bufio.Reader
	line   []byte
	data   []byte
	// Document is the first line that could be that of a JSON object, nil if there was none: some providers answer with a document
	// in place of a stream.
	Document []byte
	// Any says that something came, be it no event.
	Any bool
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
	return at >= 0 && (bytes.Contains(held[at:], []byte("\n\n")) || bytes.Contains(held[at:], []byte("\r\n\r\n")))
}

// Next returns the data of the next event, valid until the next call; io.EOF at the end of the stream.
func (e *Events) Next() ([]byte, error) {
	e.data = e.data[:0]
	for {
		line, err := e.nextLine()
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		ended := err != nil
		e.Any = e.Any || len(line) > 0 || !ended
		if value, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			if len(e.data) > 0 {
				e.data = append(e.data, '\n')
			}
			e.data = append(e.data, bytes.TrimPrefix(value, []byte(" "))...)
		} else if len(line) > 0 && line[0] == '{' && e.Document == nil && len(line) < maxErrorBody {
			e.Document = append([]byte(nil), line...)
		}
		if (len(line) == 0 || ended) && len(e.data) > 0 {
			return bytes.TrimSpace(e.data), nil
		}
		if ended {
			return nil, io.EOF
		}
	}
}

// nextLine returns the next line without its end; io.EOF with the last one.
func (e *Events) nextLine() ([]byte, error) {
	e.line = e.line[:0]
	for {
		piece, err := e.reader.ReadSlice('\n')
		if err == nil && len(e.line) == 0 {
			return bytes.TrimRight(piece, "\r\n"), nil
		}
		e.line = append(e.line, piece...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimRight(e.line, "\r\n"), err
		}
	}
}
