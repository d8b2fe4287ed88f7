// Package fsm is the state machine behind every shard's log: it compares and writes, and decides nothing else.
//
// An entry is one logpb.Entry. Append is in append.go, Put (a directory record) in put.go, pieces of files and their
// commits in blob.go, Sums (and those of an Append) in sum.go; what entries of one batch must see of each other is in overlay.go. The rows are those of package
// keys.
//
// Invariants:
//
//   - Deterministic: a result and the rows depend only on the group's rows and the entries, so every replica agrees.
//     No clock, no randomness, no map order reaches the rows.
//   - All or nothing: an entry that is refused writes nothing, and says why in its result.
//   - An entry whose format this release does not know stops the store with an error that names the format: guessing
//     would make replicas differ.
//   - Rows that no longer say anything go: a counter or a sum at zero, a deleted entity's rows.
//
// It does not know what heads, events and items mean, commits nothing (the driver does, with the applied index in the
// same batch), and is called from one goroutine.
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

// Format is the entry format that this release writes; OldestFormat is the oldest that it applies. Format 2 knows sums, which a
// release of format 1 would leave out of its rows without a word; format 3 knows guards, which older ones would not ask.
const (
	Format       = 3
	OldestFormat = 1
)

// Directory is the group whose records Records hears of, and the only one that takes a Put.
const Directory replica.GroupID = 0

// ErrFormat is wrapped by what Apply returns for an entry of another release.
var ErrFormat = errors.New("entry format is not known to this release")

// Records hears of every directory record that changed, in log order. The value is shared with the log: copy it.
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

	// OnPieces hears how many bytes of files an Apply wrote. Optional; set before the first Apply.
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

// Apply writes what the entries do into batch and returns a *logpb.Result for each.
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
	default:
		return fmt.Errorf("%w: format %d, unknown body", ErrFormat, entry.GetVersion())
	}
}

// Encode returns the entry that appends.
func Encode(a *logpb.Append) ([]byte, error) {
	return encode(&logpb.Entry{Version: Format, Body: &logpb.Entry_Append{Append: a}})
}

// EncodePut returns the entry that puts.
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

func encode(e *logpb.Entry) ([]byte, error) {
	data, err := proto.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("encode entry: %w", err)
	}
	return data, nil
}
