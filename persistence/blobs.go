package persistence

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/persistence/blob"
	"parley/persistence/fsm"
	"parley/persistence/keys"
	"parley/persistence/replica"
	"parley/proto/logpb"
)

// Blob describes a blob, without its bytes.
type Blob = blob.Blob

// Limits of a blob, see package blob.
const (
	ChunkSize = blob.ChunkSize
	MaxChunks = blob.MaxChunks
)

// PutChunk stores a piece of an uncommitted blob: ChunkSize bytes, or fewer for the last one. Pieces may come in any
// order, and repeating one changes nothing. A blob that is not committed within an hour of its last piece is removed.
// data must not change during the call. Errors: ErrBlobTaken, and those of every write.
func (s *Store) PutChunk(ctx context.Context, group uint32, id string, index uint32, data []byte) error {
	c := &logpb.BlobChunk{Id: id, Index: index, Data: data, At: s.opts.Now().UnixMilli()}
	if err := fsm.ValidateChunk(c); err != nil {
		return fmt.Errorf("put piece %d of %s: %w", index, id, err)
	}
	entry, err := fsm.EncodeChunk(c)
	if err = s.proposeBlob(ctx, group, entry, err); err != nil {
		return fmt.Errorf("put piece %d of %s: %w", index, id, err)
	}
	return nil
}

// CommitBlob makes a blob readable that belongs to no entity; of b it uses Chunks, Size, Record and ExpiresAt. A blob
// that belongs to an entity is committed by an append of that entity. Repeating a commit changes nothing. Errors:
// ErrIncomplete, ErrBlobTaken, and those of every write.
func (s *Store) CommitBlob(ctx context.Context, group uint32, id string, b Blob) error {
	return s.changeBlob(ctx, group, &logpb.BlobChange{
		Id: id, Chunks: b.Chunks, Size: b.Size, Record: b.Record, ExpiresAt: b.ExpiresAt, Owner: b.Owner,
	})
}

// DeleteBlob removes a blob that belongs to no entity or has not been committed. A missing blob is no error. Errors:
// ErrBlobTaken when it belongs to an entity, and those of every write.
func (s *Store) DeleteBlob(ctx context.Context, group uint32, id string) error {
	return s.changeBlob(ctx, group, &logpb.BlobChange{Id: id, Delete: true})
}

func (s *Store) changeBlob(ctx context.Context, group uint32, c *logpb.BlobChange) error {
	what := "commit"
	if c.GetDelete() {
		what = "delete"
	}
	if err := fsm.ValidateBlob(c); err != nil {
		return fmt.Errorf("%s blob %s: %w", what, c.GetId(), err)
	}
	entry, err := fsm.EncodeBlob(c)
	if err = s.proposeBlob(ctx, group, entry, err); err != nil {
		return fmt.Errorf("%s blob %s: %w", what, c.GetId(), err)
	}
	return nil
}

func (s *Store) proposeBlob(ctx context.Context, group uint32, entry []byte, encoded error) error {
	if encoded != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, encoded)
	}
	result, err := s.propose(ctx, replica.GroupID(group), entry)
	if err != nil {
		return err
	}
	switch result.GetOutcome() {
	case logpb.Outcome_APPLIED:
		return nil
	case logpb.Outcome_SEQ_MISMATCH:
		return ErrIncomplete
	case logpb.Outcome_EXISTS:
		return ErrBlobTaken
	default:
		return fmt.Errorf("%w: the log said %s", ErrInvalid, result.GetOutcome())
	}
}

// Blob returns the description of a blob. The caller may keep the record.
func (s *Store) Blob(ctx context.Context, group uint32, id string) (b Blob, found bool, err error) {
	r, err := s.begin(ctx, group)
	if err != nil {
		return Blob{}, false, err
	}
	var scratch [keyBytes]byte
	found, err = r.get(keys.AppendBlobHead(scratch[:0], group, id), "blob", func(value []byte) error {
		head := &logpb.BlobHead{}
		if damage := proto.Unmarshal(value, head); damage != nil {
			return fmt.Errorf("%w: %w", ErrCorrupt, damage)
		}
		b = blob.Of(head)
		return nil
	})
	return b, found, r.end(err)
}

// Chunk returns a piece of a blob, in buf if it fits. Committed pieces never change, so under WithStale any replica
// that has the piece can answer. Errors: ErrNoChunk.
func (s *Store) Chunk(ctx context.Context, group uint32, id string, index uint32, buf []byte) (data []byte, err error) {
	r, err := s.begin(ctx, group)
	if err != nil {
		return nil, err
	}
	var scratch [keyBytes]byte
	found, err := r.get(keys.AppendChunk(scratch[:0], group, id, index), "piece", func(value []byte) error {
		data = append(buf[:0], value...)
		return nil
	})
	if err == nil && !found {
		err = fmt.Errorf("piece %d of %s: %w", index, id, ErrNoChunk)
	}
	return data, r.end(err)
}

const (
	// sweepRows bounds the blobs that a sweep reads from a shard at a time.
	sweepRows = 100
	// sweepTimeout bounds their removal.
	sweepTimeout = 10 * time.Second
	// flushPieces is how many bytes of files are written before the write buffer is flushed: otherwise they would fill
	// it, and take that much memory.
	flushPieces = 4 << 20
)

// sweep removes expired blobs and old sums from, and packs sums in, the shards that this node leads, until ctx ends.
func (s *Store) sweep(ctx context.Context) {
	ticker := time.NewTicker(s.opts.SweepInterval)
	defer ticker.Stop()
	trimmed, packed := make(map[uint32]string), make(map[uint32]string)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for _, group := range s.groups {
			if node, _, known := s.Leader(group); !known || node != s.identity.NodeID {
				continue
			}
			err := errors.Join(s.sweepBlobs(ctx, group), s.sweepSums(ctx, group, trimmed, packed))
			if err != nil && ctx.Err() == nil && !errors.Is(err, ErrNotLeader) && s.condition.failure() == nil {
				s.logger.Warn("what is due was not done", slog.Uint64("shard", uint64(group)), slog.Any("err", err))
			}
		}
	}
}

// sweepBlobs removes all expired blobs from a shard that this node leads. A removal carries the time of the sweep, so a
// blob that was committed since the list was read stays.
func (s *Store) sweepBlobs(ctx context.Context, group uint32) error {
	now := s.opts.Now().UnixMilli()
	page := ListQuery{List: fsm.ListBlobsDue, Limit: sweepRows}
	for {
		rows, err := s.sweepPage(ctx, group, page, now)
		if err != nil || len(rows) < sweepRows || rows[len(rows)-1].Score > now {
			return err
		}
		last := rows[len(rows)-1]
		page.After = &ListCursor{Score: last.Score, Member: last.Member}
	}
}

// sweepPage removes the blobs of a page that have expired by now, and returns the page.
func (s *Store) sweepPage(ctx context.Context, group uint32, page ListQuery, now int64) ([]ListRow, error) {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	rows, err := s.ListShard(ctx, group, page)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		if row.Score > now {
			break
		}
		err := s.changeBlob(ctx, group, &logpb.BlobChange{Id: row.Member, Delete: true, ExpiresAt: now})
		if err != nil && !errors.Is(err, ErrIncomplete) {
			return nil, err
		}
	}
	return rows, nil
}

// pieceFlusher has the write buffer flushed when it holds many bytes of files.
type pieceFlusher struct {
	unflushed atomic.Int64  // bytes of files since the last flush
	flush     chan struct{} // signals that there are enough, at most once
	done      chan struct{} // closed when the flushing goroutine has ended; nil before Start
}

// piecesWritten counts the bytes of files that the logs wrote, and requests a flush of the write buffer. The logs call
// it; it does not block.
func (s *Store) piecesWritten(n int) {
	if s.opts.OnFileBytes != nil {
		s.opts.OnFileBytes(n)
	}
	if s.pieces.unflushed.Add(int64(n)) < flushPieces {
		return
	}
	s.pieces.unflushed.Store(0)
	select {
	case s.pieces.flush <- struct{}{}:
	default:
	}
}

// flushPiecesWritten flushes the write buffer on request, until ctx ends.
func (s *Store) flushPiecesWritten(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.pieces.flush:
		}
		if s.condition.failure() != nil {
			return
		}
		if _, err := s.db.AsyncFlush(); err != nil && s.condition.failure() == nil {
			s.logger.Warn("write buffer was not flushed", slog.Any("err", err))
		}
	}
}

// awaitFlusher waits for the flushing goroutine, for a bounded time: in a failed engine it may hang.
func (s *Store) awaitFlusher() {
	if s.pieces.done == nil {
		return
	}
	timeout := engineTimeout
	if s.condition.failure() != nil {
		timeout = flusherTimeout
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-s.pieces.done:
	case <-timer.C:
	}
}

// flusherTimeout is enough for a goroutine that does not hang.
const flusherTimeout = 100 * time.Millisecond
