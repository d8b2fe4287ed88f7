package document

import (
	"bytes"
	"fmt"
)

// Work, in units of about ten nanoseconds: a byte that is looked at is one, and what costs more is charged as more.
const (
	leastWork   = 64 << 20 // that every document may cost
	workPerByte = 64       // beside it, for each byte of the document
	mostWork    = 1500 << 20

	readWork   = 64 // of a read, beside half a unit for each of its bytes
	openWork   = 8 << 10
	byteOfPage = 4 // of a byte of a page's instructions
)

// errSpent is returned for a document that takes more work than one of its size may.
var errSpent = fmt.Errorf("%w: it takes more work than a document of its size should", ErrUnreadable)

// budget is the work that a document may still cost. What refers to one part many times, or to itself, packs any amount of
// work into a few bytes.
type budget struct{ left int64 }

func newBudget(size int) *budget {
	return &budget{left: min(leastWork+workPerByte*int64(size), mostWork)}
}

// spend takes work off the budget. Once it is spent, it stays so.
func (b *budget) spend(work int64) error {
	if work > b.left {
		b.left = -1
	}
	if b.left < 0 {
		return errSpent
	}
	b.left -= work
	return nil
}

// spent reports whether more was asked for than there was: libraries do not hand on the error.
func (b *budget) spent() bool { return b.left < 0 }

// source is a document's bytes, each read of which is work: whatever follows a reference reads.
type source struct {
	raw  *bytes.Reader
	work *budget
}

// ReadAt implements io.ReaderAt.
func (s *source) ReadAt(buffer []byte, offset int64) (int, error) {
	n, err := s.raw.ReadAt(buffer, offset)
	if spent := s.work.spend(readWork + int64(n)/2); spent != nil {
		return 0, spent
	}
	return n, err
}

// tally is a writer that keeps nothing, and charges what it is given.
type tally struct {
	work   *budget
	factor int64
}

// Write implements io.Writer.
func (t tally) Write(written []byte) (int, error) {
	if err := t.work.spend(int64(len(written)) * t.factor); err != nil {
		return 0, err
	}
	return len(written), nil
}
