// Package fsm is the state machine behind every shard's log: it compares and writes, and makes no other decisions.
//
// An entry is one logpb.Entry. Append is in append.go, Put (a directory record) in put.go, pieces of files and their
// commits in blob.go, Sums (and those of an Append) in sum.go, PackSums in pack.go; overlay.go holds what entries of one batch must see of
// each other. Package keys defines the rows.
//
// Invariants:
//
//   - Deterministic: a result and the rows depend only on the group's rows and the entries, so every replica agrees.
//     No clock, no randomness, no map order reaches the rows.
//   - All or nothing: an entry that is refused writes nothing; its result has the reason.
//   - An entry whose format this release does not know stops the store with an error that names the format: guessing
//     would make replicas differ.
//   - Rows without information are removed: a counter or a sum at zero, a deleted entity's rows.
//
// It does not interpret heads, events and items, commits nothing (the driver does, with the applied index in the same
// batch), and is called from one goroutine.
package fsm

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"google.golang.org/protobuf/proto"

	"parley/persistence/keys"
	"parley/persistence/replica"
	"parley/proto/logpb"
)

// Format is the entry format that this release writes; OldestFormat is the oldest that it applies. Format 2 has sums,
// which a release of format 1 would silently ignore; format 3 has guards, which older releases would not check.
const (
	Format       = 3
	OldestFormat = 1
)

// Directory is the group of the directory records, the only one that takes a Put. Its changes are reported to Records.
const Directory replica.GroupID = 0

// ErrFormat is wrapped by Apply's error for an entry of an unknown format.
var ErrFormat = errors.New("entry format is not known to this release")

// Records is called for every change of a directory record, in log order. The value is shared with the log: copy it.
type Records interface {
	Put(collection, key string, version uint64, value []byte)
	Delete(collection, key string, version uint64)
}

// Machine applies entries. Use New.
type Machine struct {
	db      *pebble.DB
	records Records

	seen overlay
	key  []byte

	// OnPieces is called with the number of file bytes that an Apply wrote. Optional; set before the first Apply.
	OnPieces func(bytes int)
	pieces   int
}

// New returns a machine over the rows in db.
func New(db *pebble.DB, records Records) *Machine {
	return &Machine{db: db, records: records, seen: newOverlay()}
}

// Span is the range of a group's rows.
func (m *Machine) Span(group replica.GroupID) (start, end []byte) {
	return keys.Span(uint32(group))
}

// Apply writes the effects of the entries into batch and returns a *logpb.Result for each.
func (m *Machine) Apply(batch *pebble.Batch, group replica.GroupID, entries []replica.Entry) ([]any, error) {
	defer m.seen.reset()
	m.pieces = 0
	slab := make([]logpb.Result, len(entries))
	results := make([]any, len(entries))
	for i := range entries {
		results[i] = &slab[i]
		if err := m.apply(batch, group, &entries[i], &slab[i]); err != nil {
			return nil, fmt.Errorf("apply entry %d of group %d: %w", entries[i].Index, group, err)
		}
	}
	if err := errors.Join(m.writeCounts(batch, group), m.writeSums(batch, uint32(group)), m.writeBlobs(batch, uint32(group))); err != nil {
		return nil, err
	}
	if m.pieces > 0 && m.OnPieces != nil {
		m.OnPieces(m.pieces)
	}
	return results, nil
}

func (m *Machine) apply(batch *pebble.Batch, group replica.GroupID, e *replica.Entry, result *logpb.Result) error {
	var entry logpb.Entry
	if err := proto.Unmarshal(e.Data, &entry); err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	if entry.GetVersion() < OldestFormat || entry.GetVersion() > Format {
		return fmt.Errorf("%w: it has format %d, known are %d to %d; run the release that wrote it, or a later one",
			ErrFormat, entry.GetVersion(), OldestFormat, Format)
	}
	switch body := entry.GetBody().(type) {
	case *logpb.Entry_Append:
		return m.append(batch, uint32(group), body.Append, result)
	case *logpb.Entry_Put:
		return m.put(batch, group, e.Index, body.Put, result)
	case *logpb.Entry_Chunk:
		return m.chunk(batch, uint32(group), body.Chunk, result)
	case *logpb.Entry_Blob:
		return m.changeAlone(batch, uint32(group), body.Blob, result)
	case *logpb.Entry_Sums:
		return m.sumsAlone(uint32(group), body.Sums, result)
	case *logpb.Entry_Trim:
		return m.trimSums(batch, uint32(group), body.Trim, result)
	case *logpb.Entry_Pack:
		return m.packSums(batch, uint32(group), body.Pack, result)
	default:
		return fmt.Errorf("%w: format %d, unknown body", ErrFormat, entry.GetVersion())
	}
}

// Encode returns the entry of an append.
func Encode(a *logpb.Append) ([]byte, error) {
	return encode(&logpb.Entry{Version: Format, Body: &logpb.Entry_Append{Append: a}})
}

// EncodePut returns the entry of a put.
func EncodePut(p *logpb.Put) ([]byte, error) {
	return encode(&logpb.Entry{Version: Format, Body: &logpb.Entry_Put{Put: p}})
}

// EncodeChunk returns the entry that writes a piece of a blob.
func EncodeChunk(c *logpb.BlobChunk) ([]byte, error) {
	return encode(&logpb.Entry{Version: Format, Body: &logpb.Entry_Chunk{Chunk: c}})
}

// EncodeBlob returns the entry that commits or removes a blob.
func EncodeBlob(c *logpb.BlobChange) ([]byte, error) {
	return encode(&logpb.Entry{Version: Format, Body: &logpb.Entry_Blob{Blob: c}})
}

// EncodeSums returns the entry that adds to rows of numbers.
func EncodeSums(sums []*logpb.Sum) ([]byte, error) {
	return encode(&logpb.Entry{Version: Format, Body: &logpb.Entry_Sums{Sums: &logpb.Sums{Sums: sums}}})
}

// EncodeTrim returns the entry that removes old rows of numbers.
func EncodeTrim(t *logpb.TrimSums) ([]byte, error) {
	return encode(&logpb.Entry{Version: Format, Body: &logpb.Entry_Trim{Trim: t}})
}

// EncodePack returns the entry that moves rows of numbers into a pack. A release that does not know packs stops at it.
func EncodePack(p *logpb.PackSums) ([]byte, error) {
	return encode(&logpb.Entry{Version: Format, Body: &logpb.Entry_Pack{Pack: p}})
}

func encode(e *logpb.Entry) ([]byte, error) {
	data, err := proto.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("encode entry: %w", err)
	}
	return data, nil
}
