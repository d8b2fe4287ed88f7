// Package backup is the format of a shard's copy: a stream that can be verified by itself.
//
//	magic     "prlybak1"
//	frames    length uint32, crc32c uint32, payload
//	payloads  a header (JSON), rows (key length uvarint, key, value length uvarint, value, ...), a footer (JSON)
//
// Numbers are big-endian. A checksum covers the frame's number and its payload, whose first byte is its kind, so a
// frame that is damaged, missing, duplicated or moved is detected. The footer counts the rows, and nothing follows it.
//
// Invariants: rows are in the order of their keys; whatever [Read] passes to its caller has been checked, but only its
// return says that the stream is complete; a stream of another format is refused by its number.
//
// It does not interpret the rows, and neither compresses nor encrypts: whoever transports a stream may.
package backup

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"time"
)

// Format is the format that this release writes, and the only one it reads.
const Format = 1

const (
	magic      = "prlybak1"
	frameBytes = 256 << 10 // a frame is closed once it is this long
	maxFrame   = 64 << 20  // above the largest row
	bufferSize = 64 << 10

	kindHeader byte = 'h'
	kindRows   byte = 'r'
	kindFooter byte = 'f'
)

// ErrDamaged is wrapped by Read's error for a stream that is not what Writer wrote.
var ErrDamaged = errors.New("backup is damaged")

// ErrFormat is wrapped by Read's error for a stream of another format.
var ErrFormat = errors.New("backup format is not known to this release")

// Header describes what a stream is a copy of.
type Header struct {
	Format    int       `json:"format"`
	ClusterID string    `json:"cluster_id"`
	Shards    int       `json:"shards"` // conversation shards of the cluster
	Group     uint32    `json:"group"`
	Index     uint64    `json:"index"` // position in the group's log that the rows are the result of
	Term      uint64    `json:"term"`
	Taken     time.Time `json:"taken"`
}

// Info describes the contents of a complete stream.
type Info struct {
	Group uint32 `json:"group"`
	Index uint64 `json:"index"`
	Term  uint64 `json:"term"`
	Rows  uint64 `json:"rows"`
	Bytes uint64 `json:"bytes"` // of keys and values
}

// footer counts the rows and bytes of the stream.
type footer struct {
	Rows  uint64 `json:"rows"`
	Bytes uint64 `json:"bytes"`
}

// Writer writes a stream. Use NewWriter.
type Writer struct {
	w     *bufio.Writer
	info  Info
	frame []byte
	n     uint32
}

// NewWriter begins a stream.
func NewWriter(w io.Writer, h Header) (*Writer, error) {
	h.Format = Format
	out := &Writer{w: bufio.NewWriterSize(w, bufferSize), info: Info{Group: h.Group, Index: h.Index, Term: h.Term}}
	if _, err := out.w.WriteString(magic); err != nil {
		return nil, fmt.Errorf("write backup: %w", err)
	}
	return out, out.json(kindHeader, h)
}

// Row writes a row. Keys must be in ascending order.
func (w *Writer) Row(key, value []byte) error {
	if len(w.frame) == 0 {
		w.frame = append(w.frame, kindRows)
	}
	w.frame = binary.AppendUvarint(w.frame, uint64(len(key)))
	w.frame = append(w.frame, key...)
	w.frame = binary.AppendUvarint(w.frame, uint64(len(value)))
	w.frame = append(w.frame, value...)
	w.info.Rows++
	w.info.Bytes += uint64(len(key) + len(value))
	if len(w.frame) < frameBytes {
		return nil
	}
	return w.flush()
}

// Close ends the stream and describes its contents. A stream that was not closed counts as damaged.
func (w *Writer) Close() (Info, error) {
	if len(w.frame) > 0 {
		if err := w.flush(); err != nil {
			return Info{}, err
		}
	}
	if err := w.json(kindFooter, footer{Rows: w.info.Rows, Bytes: w.info.Bytes}); err != nil {
		return Info{}, err
	}
	if err := w.w.Flush(); err != nil {
		return Info{}, fmt.Errorf("write backup: %w", err)
	}
	return w.info, nil
}

func (w *Writer) json(kind byte, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write backup: %w", err)
	}
	w.frame = append(append(w.frame[:0], kind), text...)
	return w.flush()
}

func (w *Writer) flush() error {
	if len(w.frame) > maxFrame {
		return fmt.Errorf("write backup: frame of %d bytes", len(w.frame))
	}
	var head [8]byte
	binary.BigEndian.PutUint32(head[:4], uint32(len(w.frame)))
	binary.BigEndian.PutUint32(head[4:], checksum(w.n, w.frame))
	if _, err := w.w.Write(head[:]); err != nil {
		return fmt.Errorf("write backup: %w", err)
	}
	if _, err := w.w.Write(w.frame); err != nil {
		return fmt.Errorf("write backup: %w", err)
	}
	w.n++
	w.frame = w.frame[:0]
	return nil
}

func checksum(n uint32, payload []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	return crc32.Update(crc32.Checksum(binary.BigEndian.AppendUint32(nil, n), table), table, payload)
}

// Read reads a stream to its end. It passes the header to begin and each row to row, which must copy what it keeps; an
// error of either ends the reading. The stream is complete only once Read returns nil. Either function may be nil.
func Read(r io.Reader, begin func(Header) error, row func(key, value []byte) error) (Info, error) {
	in := &reader{r: bufio.NewReaderSize(r, bufferSize), row: row}
	if err := in.begin(begin); err != nil {
		return Info{}, err
	}
	for {
		kind, payload, err := in.next()
		if err != nil {
			return Info{}, err
		}
		switch kind {
		case kindRows:
			if err := in.rows(payload); err != nil {
				return Info{}, err
			}
		case kindFooter:
			return in.info, in.end(payload)
		default:
			return Info{}, damaged("frame %d is of kind %q", in.n-1, kind)
		}
	}
}

// Verify reads a stream and checks it.
func Verify(r io.Reader) (Header, Info, error) {
	var h Header
	info, err := Read(r, func(header Header) error { h = header; return nil }, nil)
	return h, info, err
}

// reader reads a stream.
type reader struct {
	r     *bufio.Reader
	row   func(key, value []byte) error
	info  Info
	frame []byte
	last  []byte // key of the row before
	n     uint32
}

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrDamaged, fmt.Sprintf(format, args...))
}

// cut turns the end of the stream into ErrDamaged; other read errors it returns as they are.
func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return damaged("it is cut off")
	}
	return fmt.Errorf("read backup: %w", err)
}

func (r *reader) begin(begin func(Header) error) error {
	var found [len(magic)]byte
	if _, err := io.ReadFull(r.r, found[:]); err != nil {
		return cut(err)
	}
	if string(found[:]) != magic {
		return damaged("it is not a backup of a shard")
	}
	kind, payload, err := r.next()
	if err != nil {
		return err
	}
	var h Header
	if kind != kindHeader {
		return damaged("no header")
	}
	if err := json.Unmarshal(payload, &h); err != nil {
		return damaged("header: %v", err)
	}
	if h.Format != Format {
		return fmt.Errorf("%w: it has format %d, known is %d; use the release that wrote it, or a later one", ErrFormat, h.Format, Format)
	}
	r.info = Info{Group: h.Group, Index: h.Index, Term: h.Term}
	if begin == nil {
		return nil
	}
	return begin(h)
}

// next reads a frame. The next call reuses its memory.
func (r *reader) next() (kind byte, payload []byte, err error) {
	var head [8]byte
	if _, err := io.ReadFull(r.r, head[:]); err != nil {
		return 0, nil, cut(err)
	}
	size := binary.BigEndian.Uint32(head[:4])
	if size == 0 || size > maxFrame {
		return 0, nil, damaged("frame %d has %d bytes", r.n, size)
	}
	r.frame = slices.Grow(r.frame[:0], int(size))[:size]
	if _, err := io.ReadFull(r.r, r.frame); err != nil {
		return 0, nil, cut(err)
	}
	if checksum(r.n, r.frame) != binary.BigEndian.Uint32(head[4:]) {
		return 0, nil, damaged("checksum of frame %d does not match", r.n)
	}
	r.n++
	return r.frame[0], r.frame[1:], nil
}

func (r *reader) rows(frame []byte) error {
	for len(frame) > 0 {
		key, rest, ok := field(frame)
		if !ok {
			return damaged("key in frame %d", r.n-1)
		}
		value, rest, ok := field(rest)
		if !ok {
			return damaged("value in frame %d", r.n-1)
		}
		if r.info.Rows > 0 && bytes.Compare(r.last, key) >= 0 {
			return damaged("keys in frame %d are not in order", r.n-1)
		}
		r.last = append(r.last[:0], key...)
		r.info.Rows++
		r.info.Bytes += uint64(len(key) + len(value))
		if r.row != nil {
			if err := r.row(key, value); err != nil {
				return err
			}
		}
		frame = rest
	}
	return nil
}

func field(b []byte) (field, rest []byte, ok bool) {
	n, used := binary.Uvarint(b)
	if used <= 0 || n > uint64(len(b)-used) {
		return nil, nil, false
	}
	return b[used : used+int(n)], b[used+int(n):], true
}

// end checks the footer and that nothing follows.
func (r *reader) end(payload []byte) error {
	var f footer
	if err := json.Unmarshal(payload, &f); err != nil {
		return damaged("footer: %v", err)
	}
	if f.Rows != r.info.Rows || f.Bytes != r.info.Bytes {
		return damaged("it holds %d rows of %d bytes, its end says %d of %d", r.info.Rows, r.info.Bytes, f.Rows, f.Bytes)
	}
	switch _, err := r.r.ReadByte(); {
	case err == nil:
		return damaged("something follows its end")
	case !errors.Is(err, io.EOF):
		return fmt.Errorf("read backup: %w", err)
	}
	return nil
}
