// Package blob defines how a file's bytes are stored: cut into pieces of one size, each written by its own log entry
// into its own row, and a head row that records which pieces exist. No file is ever held in memory as a whole.
//
//	write    pieces, in any order, each as often as it takes     the head counts them
//	commit   with an append of the entity that owns it, or alone  all or nothing: refused while a piece is missing
//	remove   by the owner, with the owner, or by the sweep        what nobody commits is due an hour after its last piece
//
// rules.go defines what an entry does to a head, cut.go splits a stream into pieces and reads it back.
//
// Invariants:
//
//   - All pieces but the last are full, so an offset in the file determines its piece.
//   - A committed blob never changes: any replica may serve it, however far behind it is.
//   - The rules are pure: no clock and no I/O. Times come with the entries, from the proposer's clock.
//
// It does not interpret records, does not know the layout of rows (package keys) and does not write them (package fsm).
package blob

import (
	"iter"
	"math/bits"
	"time"
)

// Limits of a blob.
const (
	// ChunkSize is the size of all pieces but the last, in bytes.
	ChunkSize = 256 << 10
	// MaxChunks bounds the pieces: 4 GiB.
	MaxChunks = 1 << 14
	// MaxRecord bounds the owner's description, in bytes.
	MaxRecord = 64 << 10
	// Uncommitted is how long an uncommitted blob is kept after its last piece.
	Uncommitted = time.Hour
)

// Blob describes a blob, without its bytes.
type Blob struct {
	Chunks    uint32
	Size      int64
	Record    []byte // the owner's description
	Owner     string // the entity with which it is deleted; empty = none
	ExpiresAt int64  // Unix ms, 0 = never
	Committed bool   // otherwise it cannot be read yet
}

// Chunks returns the number of pieces of a blob of size bytes.
func Chunks(size int64) uint32 {
	return uint32((size + ChunkSize - 1) / ChunkSize)
}

// length is the size of a piece of a blob of size bytes.
func length(size int64, index uint32) int {
	return int(min(size-int64(index)*ChunkSize, ChunkSize))
}

// has reports whether a piece is in the set.
func has(set []byte, index uint32) bool {
	at := int(index / 8)
	return at < len(set) && set[at]&(1<<(index%8)) != 0
}

// add puts a piece into the set.
func add(set []byte, index uint32) []byte {
	for int(index/8) >= len(set) {
		set = append(set, 0)
	}
	set[index/8] |= 1 << (index % 8)
	return set
}

// count returns the size of the set.
func count(set []byte) (n uint32) {
	for _, b := range set {
		n += uint32(bits.OnesCount8(b))
	}
	return n
}

// members iterates over the pieces of the set.
func members(set []byte) iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for index := range uint32(len(set)) * 8 {
			if has(set, index) && !yield(index) {
				return
			}
		}
	}
}
