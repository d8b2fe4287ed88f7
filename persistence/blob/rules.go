package blob

import (
	"bytes"
	"errors"
	"fmt"
	"iter"

	"parley/proto/logpb"
)

// ErrLimit is wrapped by the errors of the Validate functions.
var ErrLimit = errors.New("blob breaks a limit")

// ValidateChunk checks a piece.
func ValidateChunk(c *logpb.BlobChunk) error {
	switch {
	case c.GetIndex() >= MaxChunks:
		return fmt.Errorf("%w: piece %d, at most %d", ErrLimit, c.GetIndex(), MaxChunks)
	case len(c.GetData()) == 0 || len(c.GetData()) > ChunkSize:
		return fmt.Errorf("%w: piece of %d bytes, 1 to %d", ErrLimit, len(c.GetData()), ChunkSize)
	}
	return nil
}

// ValidateChange checks a commit or removal.
func ValidateChange(c *logpb.BlobChange) error {
	switch {
	case c.GetDelete():
		return nil
	case c.GetChunks() > MaxChunks || c.GetSize() < 0 || c.GetSize() > MaxChunks*ChunkSize || c.GetChunks() != Chunks(c.GetSize()):
		return fmt.Errorf("%w: %d bytes in %d pieces", ErrLimit, c.GetSize(), c.GetChunks())
	case len(c.GetRecord()) > MaxRecord:
		return fmt.Errorf("%w: record of %d bytes", ErrLimit, len(c.GetRecord()))
	case c.GetExpiresAt() < 0:
		return fmt.Errorf("%w: it expires at %d", ErrLimit, c.GetExpiresAt())
	}
	return nil
}

// Put records a piece in a head (an empty one for a new blob) and reports whether its bytes are to be stored: repeating
// a piece changes nothing.
func Put(h *logpb.BlobHead, c *logpb.BlobChunk) (outcome logpb.Outcome, store bool) {
	index := c.GetIndex()
	switch {
	case h.GetCommitted() && index < h.GetChunks():
		return logpb.Outcome_APPLIED, false
	case h.GetCommitted():
		return logpb.Outcome_EXISTS, false
	case has(h.GetPieces(), index):
		return logpb.Outcome_APPLIED, false
	}
	if len(c.GetData()) < ChunkSize {
		if h.GetShort() != 0 {
			return logpb.Outcome_SEQ_MISMATCH, false // only one piece is the last
		}
		h.Short = index + 1
	}
	h.Pieces = add(h.GetPieces(), index)
	h.Size += int64(len(c.GetData()))
	h.Due = max(h.GetDue(), c.GetAt()+Uncommitted.Milliseconds())
	return logpb.Outcome_APPLIED, true
}

// Commit makes a blob readable. Repeating a commit changes nothing.
func Commit(h *logpb.BlobHead, c *logpb.BlobChange, owner string) logpb.Outcome {
	if h.GetCommitted() {
		same := h.GetOwner() == owner && h.GetChunks() == c.GetChunks() && h.GetSize() == c.GetSize() && bytes.Equal(h.GetRecord(), c.GetRecord())
		if !same {
			return logpb.Outcome_EXISTS
		}
		return logpb.Outcome_APPLIED
	}
	n := c.GetChunks()
	whole := count(h.GetPieces()) == n && (n == 0 || has(h.GetPieces(), n-1)) && h.GetSize() == c.GetSize()
	for index := range members(h.GetPieces()) {
		whole = whole && index < n
	}
	if !whole || h.GetShort() != 0 && h.GetShort() != n {
		return logpb.Outcome_SEQ_MISMATCH
	}
	h.Committed, h.Chunks, h.Record, h.Owner = true, n, c.GetRecord(), owner
	h.Pieces, h.Short, h.Due = nil, 0, 0
	if owner == "" {
		h.Due = c.GetExpiresAt()
	}
	return logpb.Outcome_APPLIED
}

// Removable reports whether a change may remove a blob. A blob that belongs to an entity is removed by that entity
// only, and a removal with a time only applies to a blob that has expired by then. A missing blob may be removed.
func Removable(h *logpb.BlobHead, c *logpb.BlobChange, owner string) logpb.Outcome {
	switch {
	case h.GetOwner() != "" && h.GetOwner() != owner:
		return logpb.Outcome_EXISTS
	case c.GetExpiresAt() != 0 && h != nil && (h.GetDue() == 0 || h.GetDue() > c.GetExpiresAt()):
		return logpb.Outcome_SEQ_MISMATCH
	}
	return logpb.Outcome_APPLIED
}

// Stored iterates over the pieces that have a row.
func Stored(h *logpb.BlobHead) iter.Seq[uint32] {
	if !h.GetCommitted() {
		return members(h.GetPieces())
	}
	return func(yield func(uint32) bool) {
		for index := range h.GetChunks() {
			if !yield(index) {
				return
			}
		}
	}
}

// Of returns the description in a head.
func Of(h *logpb.BlobHead) Blob {
	b := Blob{
		Chunks: h.GetChunks(), Size: h.GetSize(), Record: h.GetRecord(), Owner: h.GetOwner(), Committed: h.GetCommitted(),
	}
	if b.Committed {
		b.ExpiresAt = h.GetDue()
	}
	return b
}
