package sse

import (
	"bytes"
	"strconv"
)

// Frame is one event as sent on the wire: an HTTP chunk that holds the event's lines. It is shared between streams and
// immutable. Build one with Begin, the Append functions and Seal.
type Frame []byte

// prefix leaves room in front of a frame for the chunk's size line.
const prefix = 10 // 8 hex digits, CRLF

// Begin returns a buffer for one frame with room for size bytes of text.
func Begin(size int) []byte {
	return make([]byte, prefix, prefix+size+2)
}

// AppendID adds the event's id.
func AppendID(b []byte, id uint64) []byte {
	b = append(b, "id: "...)
	b = strconv.AppendUint(b, id, 10)
	return append(b, '\n')
}

// AppendEvent adds the event's name, which must be a single word.
func AppendEvent(b []byte, name string) []byte {
	b = append(b, "event: "...)
	b = append(b, name...)
	return append(b, '\n')
}

// AppendData adds the event's data and its end. Each line of data becomes a data line, as the format requires; a reader
// sees "\n" for any kind of line break.
func AppendData(b, data []byte) []byte {
	for {
		i := bytes.IndexAny(data, "\r\n")
		b = append(b, "data: "...)
		if i < 0 {
			b = append(b, data...)
			return append(b, '\n', '\n')
		}
		b = append(b, data[:i]...)
		b = append(b, '\n')
		if data[i] == '\r' && i+1 < len(data) && data[i+1] == '\n' {
			i++
		}
		data = data[i+1:]
	}
}

// Comment returns a frame that readers skip. text must be one line.
func Comment(text string) Frame {
	b := Begin(len(text) + 4)
	b = append(b, ": "...)
	b = append(b, text...)
	return Seal(append(b, '\n', '\n'))
}

// Retry returns a frame that tells the reader how long to wait before it connects again.
func Retry(milliseconds int) Frame {
	b := append(Begin(24), "retry: "...)
	b = strconv.AppendInt(b, int64(milliseconds), 10)
	return Seal(append(b, '\n', '\n'))
}

// Seal turns the buffer of Begin into a frame. The buffer must not be used afterwards.
func Seal(b []byte) Frame {
	const digits = "0123456789abcdef"
	size := len(b) - prefix
	b = append(b, '\r', '\n')
	at := prefix - 2
	b[at], b[at+1] = '\r', '\n'
	for {
		at--
		b[at] = digits[size&15]
		size >>= 4
		if size == 0 {
			return b[at:]
		}
	}
}

// Join concatenates frames.
func Join(frames ...Frame) Frame {
	var all Frame
	for _, f := range frames {
		all = append(all, f...)
	}
	return all
}

// Unchunked returns the text of frames without the chunked encoding, for HTTP/1.0.
func Unchunked(f Frame) Frame {
	text := make(Frame, 0, len(f))
	for {
		line, rest, found := bytes.Cut(f, []byte("\r\n"))
		size, err := strconv.ParseUint(string(line), 16, 31)
		if !found || err != nil || size == 0 || int(size)+2 > len(rest) {
			return text
		}
		text = append(text, rest[:size]...)
		f = rest[size+2:]
	}
}

// lastChunk ends the response.
const lastChunk = "0\r\n\r\n"

// responseHead renders status line and headers; extra holds complete header lines.
func responseHead(extra []byte, plain bool) []byte {
	const status = "HTTP/1.1 200 OK\r\n"
	const headers = "Content-Type: text/event-stream\r\n" +
		"Cache-Control: no-cache\r\n" +
		"X-Accel-Buffering: no\r\n"
	framing := "Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n"
	if plain {
		framing = "Connection: close\r\n\r\n"
	}
	b := make([]byte, 0, len(status)+len(extra)+len(headers)+len(framing))
	b = append(b, status...)
	b = append(b, extra...)
	b = append(b, headers...)
	return append(b, framing...)
}
