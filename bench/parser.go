package bench

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// Limits of a stream, beyond which the client gives up.
const (
	maxHead = 64 << 10
	maxLine = 8 << 20
)

// frame is one SSE frame. Its slices are valid only during the callback.
type frame struct {
	event, id, data []byte
}

// parser parses one HTTP/1.1 response with an event stream, from pieces of any size. Of a response other than 200 it
// keeps the body, for the error code.
type parser struct {
	state   parserState
	line    []byte // unfinished line of head, chunk size or stream
	status  int
	chunked bool
	left    int64 // bytes left in the chunk or body; -1 = until the end
	body    []byte
	event   []byte
	id      []byte
	data    []byte
	hasData bool
	ended   bool
	closing bool // the server will close the connection
}

type parserState int

const (
	readStatus parserState = iota
	readHeader
	readChunkSize
	readChunk
	readChunkEnd
	readTrailer
	readBody
)

var errMalformed = errors.New("malformed answer")

// feed parses the next bytes and calls onFrame for each complete frame, onComment for each comment line.
func (p *parser) feed(in []byte, onFrame func(frame), onComment func([]byte)) error {
	for len(in) > 0 && !p.ended {
		if p.state == readChunk || p.state == readBody {
			n := len(in)
			if p.left >= 0 {
				n = int(min(int64(n), p.left))
				p.left -= int64(n)
			}
			if err := p.payload(in[:n], onFrame, onComment); err != nil {
				return err
			}
			in = in[n:]
			if p.left == 0 {
				p.blockEnd()
			}
			continue
		}
		end := bytes.IndexByte(in, '\n')
		if end < 0 {
			p.line = append(p.line, in...)
			if len(p.line) > maxHead {
				return fmt.Errorf("%w: line too long", errMalformed)
			}
			return nil
		}
		p.line = append(p.line, in[:end]...)
		in = in[end+1:]
		line := bytes.TrimSuffix(p.line, []byte("\r"))
		p.line = p.line[:0]
		if err := p.head(line); err != nil {
			return err
		}
	}
	return nil
}

func (p *parser) blockEnd() {
	if p.state == readChunk {
		p.state = readChunkEnd
		return
	}
	p.ended = true
}

func (p *parser) head(line []byte) error {
	switch p.state {
	case readStatus:
		if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.")) {
			return fmt.Errorf("%w: status line", errMalformed)
		}
		status, err := strconv.Atoi(string(line[9:12]))
		if err != nil {
			return fmt.Errorf("%w: status", errMalformed)
		}
		p.status, p.left, p.state = status, -1, readHeader
	case readHeader:
		return p.header(line)
	case readChunkSize:
		size, _, _ := bytes.Cut(line, []byte(";"))
		n, err := strconv.ParseInt(string(bytes.TrimSpace(size)), 16, 62)
		if err != nil || n < 0 {
			return fmt.Errorf("%w: chunk size", errMalformed)
		}
		p.left, p.state = n, readChunk
		if n == 0 {
			p.state = readTrailer
		}
	case readChunkEnd:
		if len(line) != 0 {
			return fmt.Errorf("%w: chunk end", errMalformed)
		}
		p.state = readChunkSize
	case readTrailer:
		p.ended = len(line) == 0
	case readChunk, readBody:
	}
	return nil
}

func (p *parser) header(line []byte) error {
	if len(line) == 0 {
		switch {
		case p.chunked:
			p.state = readChunkSize
		case p.left == 0:
			p.ended = true
		default:
			p.state = readBody
		}
		return nil
	}
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimSpace(value)
	switch {
	case bytes.EqualFold(name, []byte("Connection")):
		p.closing = bytes.EqualFold(value, []byte("close"))
	case bytes.EqualFold(name, []byte("Transfer-Encoding")):
		p.chunked = bytes.EqualFold(value, []byte("chunked"))
	case bytes.EqualFold(name, []byte("Content-Length")):
		n, err := strconv.ParseInt(string(value), 10, 62)
		if err != nil || n < 0 {
			return fmt.Errorf("%w: content length", errMalformed)
		}
		p.left = n
	}
	return nil
}

func (p *parser) payload(in []byte, onFrame func(frame), onComment func([]byte)) error {
	if p.status != 200 {
		if len(p.body) < maxHead {
			p.body = append(p.body, in...)
		}
		return nil
	}
	for {
		end := bytes.IndexByte(in, '\n')
		if end < 0 {
			p.line = append(p.line, in...)
			if len(p.line) > maxLine {
				return fmt.Errorf("%w: stream line too long", errMalformed)
			}
			return nil
		}
		line := in[:end]
		if len(p.line) > 0 {
			p.line = append(p.line, line...)
			line = p.line
		}
		p.streamLine(bytes.TrimSuffix(line, []byte("\r")), onFrame, onComment)
		p.line = p.line[:0]
		in = in[end+1:]
	}
}

func (p *parser) streamLine(line []byte, onFrame func(frame), onComment func([]byte)) {
	if len(line) == 0 {
		if p.hasData {
			onFrame(frame{event: p.event, id: p.id, data: p.data})
		}
		p.event, p.id, p.data, p.hasData = p.event[:0], p.id[:0], p.data[:0], false
		return
	}
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "":
		onComment(value)
	case "event":
		p.event = append(p.event[:0], value...)
	case "id":
		p.id = append(p.id[:0], value...)
	case "data":
		if p.hasData {
			p.data = append(p.data, '\n')
		}
		p.data = append(p.data, value...)
		p.hasData = true
	}
}
