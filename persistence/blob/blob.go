// Package blob says how a file's bytes are kept: cut into pieces of one size, each a row of its own behind an entry of
// its own, and one row, the head, that knows which pieces are there. Nobody holds a file whole in memory.
//
//	write    pieces, in any order, each as often as it takes     the head counts them
//	commit   with an append of the entity that owns it, or alone  all or nothing: refused while a piece is missing
//	remove   by the owner, with the owner, or by the sweep        what nobody commits is due an hour after its last piece
//
// rules.go holds what an entry does to a head, cut.go takes a stream apart and reads it back.
//
// Invariants:
//
//   - Pieces are full but for the last one, so a place in the file says which piece holds it.
//   - What is committed never changes: any replica may read it, however far behind it is.
//   - The rules are pure: no clock and no I/O. Times come with the entries, from the clock of who proposes.
//
// It does not know what a record says, nor where rows lie (package keys), and writes none (package fsm).
package blob

import (
	"iter"
	"math/bits"
	"time"
)

// Limits of a blob.
const (
	// ChunkSize is the size of a piece in bytes, but for the last one.
	ChunkSize = 256 << 10
	// MaxChunks bounds the pieces: 4 GiB.
	MaxChunks = 1 << 14
	// MaxRecord bounds the owner's description, in bytes.
	MaxRecord = 64 << 10
	// Uncommitted is how long what nobody commits is kept after its last piece.
	Uncommitted = time.Hour
)

// Blob is what a shard knows of a blob besides its bytes.
type Blob struct {
	Chunks    uint32
	Size      int64
	Record    []byte // the owner's description
	Owner     string // the entity with which it goes; empty = none
	ExpiresAt int64  // Unix ms, 0 = never
	Committed bool   // else it cannot be read yet
}

// Chunks is how many pieces so many bytes have.
func Chunks(size int64) uint32 {
	return uint32((size + ChunkSize - 1) / ChunkSize)
}

// length is the size of a piece of a blob of so many bytes.
func length(size int64, index uint32) int {
	return int(min(size-int64(index)*ChunkSize, ChunkSize))
}

// has says whether a piece is in the set.
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

// count is the size of the set.
func count(set []byte) (n uint32) {
	for _, b := range set {
		n += uint32(bits.OnesCount8(b))
	}
	return n
}

// members are the pieces of the set.
func members(set []byte) iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for index := range uint32(len(set)) * 8 {
			if has(set, index) && !yield(index) {
				return
			}
		}
	}
}
