package inference

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// endMark is the last event of a stream.
const endMark = "[DONE]"

// events reads the data of an event stream.
type events struct {
	body   io.ReadCloser
	reader *bufio.Reader
	line   []byte
	data   []byte
	most   int   // bytes of one event
	left   int64 // bytes of the rest of the stream
	idle   func() (stop func() bool)
	got    bool // something came
	// document is the beginning of a body that is no event stream.
	document []byte
}

func newEvents(body io.ReadCloser, most int, all int64) *events {
	e := &events{body: body, most: most, left: all}
	const window = 16 << 10
	e.reader = bufio.NewReaderSize(e, window)
	return e
}

// Read implements io.Reader below the buffer. The time in which the provider is waited for is limited, that in which our own
// caller takes what came is not.
func (e *events) Read(p []byte) (int, error) {
	if e.idle != nil {
		stop := e.idle()
		defer stop()
	}
	n, err := e.body.Read(p)
	e.got = e.got || n > 0
	if e.left -= int64(n); e.left < 0 {
		return 0, errSize
	}
	return n, err
}

// more says that the next event is there already, and whole: what waits for it waits for nothing.
func (e *events) more() bool {
	held, _ := e.reader.Peek(e.reader.Buffered()) // no more than there is
	at := bytes.Index(held, []byte("data:"))
	return at >= 0 && (bytes.Contains(held[at:], []byte("\n\n")) || bytes.Contains(held[at:], []byte("\r\n\r\n")))
}

// next returns the data of the next event, valid until the next call; io.EOF at the end of the stream.
func (e *events) next() ([]byte, error) {
	e.data = e.data[:0]
	for {
		line, err := e.nextLine()
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		ended := err != nil
		if value, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			if len(e.data)+len(value) > e.most {
				return nil, errSize
			}
			if len(e.data) > 0 {
				e.data = append(e.data, '\n')
			}
			e.data = append(e.data, bytes.TrimPrefix(value, []byte(" "))...)
		} else if len(line) > 0 && line[0] == '{' && e.document == nil && len(line) < maxErrorBody {
			e.document = append([]byte(nil), line...)
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
func (e *events) nextLine() ([]byte, error) {
	e.line = e.line[:0]
	for {
		piece, err := e.reader.ReadSlice('\n')
		if err == nil && len(e.line) == 0 {
			return bytes.TrimRight(piece, "\r\n"), nil
		}
		if len(e.line)+len(piece) > e.most {
			return nil, errSize
		}
		e.line = append(e.line, piece...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimRight(e.line, "\r\n"), err
		}
	}
}

// close reads a stream to the end of its body, if that is near: the connection can serve again then. Whoever calls it limits the
// time.
func (e *events) close() {
	const rest = 4 << 10
	e.idle = nil
	if e.reader.Buffered() == 0 && e.left > 0 {
		e.left = rest
		_, _ = io.CopyN(io.Discard, e, rest) // only the connection's fate depends on it
	}
	_ = e.body.Close() // as above
}
