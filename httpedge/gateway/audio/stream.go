package audio

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"strconv"

	"parley/actors/core/failure"
	"parley/proto/failurepb"
)

var (
	errNotJSON   = errors.New("not JSON")
	errNotBase64 = errors.New("not base64")
)

// maxDepth bounds the values of fields that are skipped.
const maxDepth = 32

// readJSON reads a JSON object whose recording is decoded as it comes.
func (r *received) readJSON(from *meter) error {
	s := &scanner{in: bufio.NewReader(from), meter: from}
	err := s.object(func(name string) error { return r.member(s, name) })
	if err == nil {
		err = s.end()
	}
	if errors.Is(err, errNotBase64) {
		return otherwise(err, invalid("audio.data", failure.SoundNotBase64))
	}
	if err != nil {
		return otherwise(err, failure.New(failurepb.Code_VALIDATION, failure.BodyNotAnObject))
	}
	return nil
}

// member takes a member of the body.
func (r *received) member(s *scanner, name string) error {
	if name == "audio" {
		if next, err := s.next(); err != nil || next != '{' {
			return s.skip(err)
		}
		return s.object(func(name string) error { return r.audioMember(s, name) })
	}
	raw, err := s.value()
	if err != nil || string(raw) == "null" || r.translate && (name == "language" || name == "timestamp_granularities") { // not used, whatever they are
		return err
	}
	switch name {
	case "timestamp_granularities":
		var several []string
		if json.Unmarshal(raw, &several) != nil {
			return wrongType(name, "an array of strings")
		}
		r.granularities = several
	case "stream":
		return r.text(name, string(raw))
	case "model", "language", "prompt", "response_format", "request_id", "temperature":
		text, ok := scalar(raw)
		if !ok || raw[0] != '"' && name != "temperature" {
			return wrongType(name, "a string")
		}
		return r.text(name, text)
	}
	return nil
}

// audioMember takes a member of what describes the recording.
func (r *received) audioMember(s *scanner, name string) error {
	if name == "data" {
		if next, err := s.next(); err != nil || next != '"' {
			return errors.Join(errNotBase64, err)
		}
		_, _ = s.in.Discard(1) // it is there
		s.meter.free = true
		err := r.keep(base64.NewDecoder(base64.RawStdEncoding, &alphabet{from: &textReader{in: s.in}}))
		s.meter.free = false
		var corrupt base64.CorruptInputError
		if errors.As(err, &corrupt) || errors.Is(err, io.ErrUnexpectedEOF) {
			return errNotBase64
		}
		return err
	}
	raw, err := s.value()
	if err != nil || string(raw) == "null" {
		return err
	}
	text, ok := scalar(raw)
	if ok = ok && raw[0] == '"'; !ok && (name == "fileName" || name == "contentType") {
		return wrongType("audio."+name, "a string")
	}
	switch name {
	case "fileName":
		r.fileName = text
	case "contentType":
		r.contentType = text
	}
	return nil
}

// scanner reads JSON piece by piece.
type scanner struct {
	in    *bufio.Reader
	meter *meter
}

// next is the next byte that is no space; it is not taken.
func (s *scanner) next() (byte, error) {
	for {
		c, err := s.in.ReadByte()
		if errors.Is(err, io.EOF) {
			return 0, errNotJSON
		}
		if err != nil || c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			_ = s.in.UnreadByte() // after an error nothing is read any more
			return c, err
		}
	}
}

// take takes the next byte that is no space, which must be one of these.
func (s *scanner) take(any string) (byte, error) {
	c, err := s.next()
	if err != nil {
		return 0, err
	}
	if bytes.IndexByte([]byte(any), c) < 0 {
		return 0, errNotJSON
	}
	_, _ = s.in.Discard(1) // it is there
	return c, nil
}

// end expects nothing more.
func (s *scanner) end() error {
	switch _, err := s.next(); {
	case errors.Is(err, errNotJSON):
		return nil
	case err != nil:
		return err
	}
	return errNotJSON
}

// object reads an object, whose values each reads.
func (s *scanner) object(each func(name string) error) error {
	if _, err := s.take("{"); err != nil {
		return err
	}
	if c, err := s.next(); err != nil || c == '}' {
		_, _ = s.in.Discard(1) // it is there, or nothing is
		return err
	}
	for range maxFields {
		if c, err := s.next(); err != nil || c != '"' {
			return errors.Join(errNotJSON, err)
		}
		raw, err := s.value()
		if err != nil {
			return err
		}
		var name string
		if json.Unmarshal(raw, &name) != nil {
			return errNotJSON
		}
		if _, err = s.take(":"); err == nil {
			err = each(name)
		}
		if err != nil {
			return err
		}
		if c, err := s.take(",}"); err != nil || c == '}' {
			return err
		}
	}
	return errNotJSON
}

// skip reads a value that says nothing.
func (s *scanner) skip(err error) error {
	if err == nil {
		_, err = s.value()
	}
	return err
}

// value reads a value of at most maxText bytes.
func (s *scanner) value() ([]byte, error) {
	var raw []byte
	depth, quoted, escaped := 0, false, false
	if _, err := s.next(); err != nil {
		return nil, err
	}
	for {
		c, err := s.in.ReadByte()
		switch {
		case errors.Is(err, io.EOF):
			return nil, errNotJSON
		case err != nil:
			return nil, err
		case len(raw) >= maxText:
			return nil, failure.New(failurepb.Code_VALIDATION, failure.BodyTooLarge).Param("most", maxText)
		}
		ends := false
		switch {
		case quoted:
			ends = c == '"' && !escaped && depth == 0
			quoted = c != '"' || escaped
			escaped = c == '\\' && !escaped
		case c == '"':
			quoted = true
		case c == '{' || c == '[':
			depth++
		case depth > 0 && (c == '}' || c == ']'):
			depth--
			ends = depth == 0
		case depth == 0 && bytes.IndexByte([]byte(",}] \t\r\n"), c) >= 0: // behind a number or a word
			_ = s.in.UnreadByte() // it was just read
			return checked(raw)
		}
		raw = append(raw, c)
		if ends {
			return checked(raw)
		}
		if depth > maxDepth {
			return nil, errNotJSON
		}
	}
}

func checked(raw []byte) ([]byte, error) {
	if !json.Valid(raw) {
		return nil, errNotJSON
	}
	return raw, nil
}

// textReader is what a JSON text says, without its quotation marks. The first one was read.
type textReader struct {
	in   *bufio.Reader
	done bool
}

// Read implements io.Reader.
func (t *textReader) Read(p []byte) (int, error) {
	if t.done || len(p) == 0 {
		return 0, io.EOF
	}
	if _, err := t.in.Peek(1); err != nil {
		if errors.Is(err, io.EOF) {
			err = errNotJSON
		}
		return 0, err
	}
	waiting, _ := t.in.Peek(t.in.Buffered()) // it is there
	n := 0
	for n < len(waiting) && n < len(p) && waiting[n] != '"' && waiting[n] != '\\' && waiting[n] >= ' ' {
		n++
	}
	if n > 0 {
		copy(p, waiting[:n])
		_, _ = t.in.Discard(n) // as above
		return n, nil
	}
	c, _ := t.in.ReadByte() // as above
	switch c {
	case '"':
		t.done = true
		return 0, io.EOF
	case '\\':
		var err error
		p[0], err = t.escaped()
		return 1, err
	}
	return 0, errNotJSON
}

// escaped is the character behind a backslash; 0xff for one beyond ASCII.
func (t *textReader) escaped() (byte, error) {
	c, err := t.in.ReadByte()
	if err != nil {
		return 0, errNotJSON
	}
	switch c {
	case '"', '\\', '/':
		return c, nil
	case 'b', 'f', 'n', 'r', 't':
		return map[byte]byte{'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}[c], nil
	case 'u':
		var digits [4]byte
		if _, err := io.ReadFull(t.in, digits[:]); err != nil {
			return 0, errNotJSON
		}
		code, err := strconv.ParseUint(string(digits[:]), 16, 16)
		if err != nil {
			return 0, errNotJSON
		}
		if code > 0x7f {
			return 0xff, nil
		}
		return byte(code), nil
	}
	return 0, errNotJSON
}

// alphabet makes plain base64 of its forms: either alphabet, with or without padding, in lines or not.
type alphabet struct {
	from   io.Reader
	padded int
}

// Read implements io.Reader.
func (a *alphabet) Read(p []byte) (int, error) {
	for {
		n, err := a.from.Read(p)
		out := p[:0]
		for _, c := range p[:n] {
			switch {
			case c == ' ' || c == '\t' || c == '\r' || c == '\n':
				continue
			case c == '=':
				if a.padded++; a.padded > 2 {
					return 0, errNotBase64
				}
				continue
			case a.padded > 0:
				return 0, errNotBase64
			case c == '-':
				c = '+'
			case c == '_':
				c = '/'
			}
			out = append(out, c)
		}
		if len(out) > 0 || err != nil {
			return len(out), err
		}
	}
}
