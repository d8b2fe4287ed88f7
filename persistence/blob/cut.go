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

// Window is how many pieces of one stream are written to the log at the same time.
const Window = 2

// ErrTooLong is the error for a stream with more bytes than Limits.Bytes.
var ErrTooLong = errors.New("blob is longer than it may be")

// Kept describes a stream that has been stored.
type Kept struct {
	Size   int64
	Chunks uint32
	SHA256 []byte
	Head   []byte // the first bytes, at most Limits.Head
}

// Limits of a stream.
type Limits struct {
	Bytes int64 // upper limit of the stream's length; the format's own limit applies, too
	Head  int   // how many of the first bytes to return, at most ChunkSize
}

// Cutter cuts streams into pieces. It reuses the memory of pieces. The zero value is ready to use.
type Cutter struct{ buffers sync.Pool }

// piece is a buffer for one piece.
type piece [ChunkSize]byte

func (c *Cutter) buffer() *piece {
	if p, ok := c.buffers.Get().(*piece); ok {
		return p
	}
	return new(piece)
}

// Cut reads r to its end and passes each piece to put, up to Window at the same time from several goroutines; put must
// not keep the data. It returns when all puts have returned. Errors: ErrTooLong, and those of r and of put, wrapped.
// Pieces that have been put are not removed.
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
					return err // its slot stays occupied: no more pieces are put
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

// stream is a stream that is being read.
type stream struct {
	from   io.Reader
	limits Limits
	sum    hash.Hash
	kept   Kept
	ended  bool
}

// next reads the next piece. n is 0 at the end.
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

// ErrDamaged is the error for a piece of the wrong length.
var ErrDamaged = errors.New("piece of a blob is damaged")

// Range is a part of a blob.
type Range struct {
	Size   int64 // of the whole blob
	Offset int64
	Length int64 // negative = to the end; a range beyond the end is shortened
}

// NewReader reads a part of a committed blob, piece by piece, into one buffer. get returns a piece, in buf if it fits.
// The reader is for one goroutine.
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
	rest          []byte // of the current piece, from at on
	err           error
}

// Read implements io.Reader.
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
