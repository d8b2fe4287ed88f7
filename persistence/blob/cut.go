package blob

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"sync"

	"golang.org/x/sync/errgroup"
)

// Window is how many pieces of one stream are on their way to the log at once.
const Window = 2

// ErrTooLong is returned of a stream with more bytes than it may have.
var ErrTooLong = errors.New("blob is longer than it may be")

// Kept says what became of a stream.
type Kept struct {
	Size   int64
	Chunks uint32
	SHA256 []byte
	Head   []byte // the first bytes, as many as were asked for
}

// Limits of a stream.
type Limits struct {
	Bytes int64 // at most; what there can be at most when that is less
	Head  int   // so many of the first bytes are given back, at most ChunkSize
}

// Cutter takes streams apart. It keeps the memory of some pieces for the next stream. The zero value is ready.
type Cutter struct{ buffers sync.Pool }

// piece is the memory of one.
type piece [ChunkSize]byte

func (c *Cutter) buffer() *piece {
	if p, ok := c.buffers.Get().(*piece); ok {
		return p
	}
	return new(piece)
}

// Cut reads r to its end and gives each piece to put, Window at once, from several goroutines; put must not keep the
// data. It returns once all puts have. Errors: ErrTooLong, those of r and of put, wrapped; the pieces that were put stay
// where they are.
func (c *Cutter) Cut(ctx context.Context, r io.Reader, limits Limits, put func(ctx context.Context, index uint32, data []byte) error) (Kept, error) {
	limits.Bytes = min(limits.Bytes, MaxChunks*ChunkSize)
	puts, ctx := errgroup.WithContext(ctx)
	free := make(chan struct{}, Window)
	s := stream{from: r, limits: limits, sum: sha256.New()}
	read := func() error {
		for !s.ended {
			select {
			case free <- struct{}{}:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			buf := c.buffer()
			index, n, err := s.next(buf)
			if err != nil || n == 0 {
				return err
			}
			puts.Go(func() error {
				if err := put(ctx, index, buf[:n]); err != nil {
					return err // its place stays taken: nothing more is to be put
				}
				c.buffers.Put(buf)
				<-free
				return nil
			})
		}
		return nil
	}
	failed := read()
	if err := puts.Wait(); err != nil {
		return Kept{}, fmt.Errorf("put piece: %w", err)
	}
	if failed != nil {
		return Kept{}, failed
	}
	s.kept.SHA256 = s.sum.Sum(nil)
	return s.kept, nil
}

// stream is a stream as far as it is read.
type stream struct {
	from   io.Reader
	limits Limits
	sum    hash.Hash
	kept   Kept
	ended  bool
}

// next reads the next piece. Nothing read is the end.
func (s *stream) next(buf *piece) (index uint32, n int, err error) {
	n, err = io.ReadFull(s.from, buf[:])
	s.ended = errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	if err != nil && !s.ended {
		return 0, 0, fmt.Errorf("read: %w", err)
	}
	if s.kept.Size += int64(n); s.kept.Size > s.limits.Bytes {
		return 0, 0, fmt.Errorf("%w: at most %d bytes", ErrTooLong, s.limits.Bytes)
	}
	index = s.kept.Chunks
	if n == 0 {
		return index, 0, nil
	}
	if index == 0 {
		s.kept.Head = append([]byte(nil), buf[:min(n, s.limits.Head)]...)
	}
	s.kept.Chunks++
	s.sum.Write(buf[:n])
	return index, n, nil
}

// ErrDamaged is returned of a piece that has not the length that it should have.
var ErrDamaged = errors.New("piece of a blob is damaged")

// Range is a part of a blob.
type Range struct {
	Size   int64 // of the whole
	Offset int64
	Length int64 // below 0 = to the end; what lies behind the end is left out
}

// NewReader reads a part of a committed blob, a piece at a time, each in the memory of the one before. get returns a
// piece, in buf if that has room. The reader is for one goroutine.
func NewReader(part Range, get func(index uint32, buf []byte) ([]byte, error)) io.Reader {
	at := max(part.Offset, 0)
	end := part.Size
	if part.Length >= 0 && part.Length < end-at {
		end = at + part.Length
	}
	return &reader{size: part.Size, at: at, end: end, get: get}
}

type reader struct {
	size, at, end int64
	get           func(index uint32, buf []byte) ([]byte, error)
	buf           []byte
	rest          []byte // of the piece at hand, from at on
	err           error
}

// Read reads.
func (r *reader) Read(p []byte) (int, error) {
	switch {
	case r.err != nil:
		return 0, r.err
	case r.at >= r.end:
		return 0, io.EOF
	case len(p) == 0:
		return 0, nil
	case len(r.rest) == 0:
		if r.err = r.fetch(); r.err != nil {
			return 0, r.err
		}
	}
	n := copy(p, r.rest[:min(int64(len(r.rest)), r.end-r.at)])
	r.rest = r.rest[n:]
	r.at += int64(n)
	return n, nil
}

func (r *reader) fetch() error {
	index := uint32(r.at / ChunkSize)
	data, err := r.get(index, r.buf)
	if err != nil {
		return fmt.Errorf("read piece %d: %w", index, err)
	}
	if len(data) != length(r.size, index) {
		return fmt.Errorf("%w: piece %d has %d bytes, not %d", ErrDamaged, index, len(data), length(r.size, index))
	}
	r.buf, r.rest = data, data[r.at%ChunkSize:]
	return nil
}
