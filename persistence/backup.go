package persistence

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"parley/persistence/backup"
	"parley/persistence/keys"
	"parley/persistence/replica"
)

// BackupInfo describes the contents of a copy of a shard.
type BackupInfo = backup.Info

// checkRows is how many rows are copied between two checks whether to go on.
const checkRows = 1024

// Backup writes a copy of a shard that this node leads: a consistent snapshot with everything acknowledged before the
// call. Writes to the shard go on meanwhile; what the snapshot needs stays on disk until the copy is complete. Under
// WithStale a replica that does not lead is copied as it is.
func (s *Store) Backup(ctx context.Context, group uint32, w io.Writer) (BackupInfo, error) {
	r, err := s.begin(ctx, group)
	if err != nil {
		return BackupInfo{}, err
	}
	if r.snapshot == nil {
		r.snapshot = s.db.NewSnapshot()
	}
	info, err := s.copyShard(ctx, r.snapshot, group, w)
	if err = r.end(err); err != nil {
		return BackupInfo{}, fmt.Errorf("back up shard %d: %w", group, err)
	}
	return info, nil
}

func (s *Store) copyShard(ctx context.Context, from *pebble.Snapshot, group uint32, w io.Writer) (_ BackupInfo, err error) {
	at, err := s.driver.Position(from, replica.GroupID(group))
	if err != nil {
		return BackupInfo{}, readError("position", err)
	}
	if at.Index == 0 {
		return BackupInfo{}, &NotLeaderError{Group: replica.GroupID(group)}
	}
	out, err := backup.NewWriter(w, backup.Header{
		ClusterID: s.identity.ClusterID, Shards: s.identity.Shards, Group: group, Index: at.Index, Term: at.Term, Taken: time.Now().UTC(),
	})
	if err != nil {
		return BackupInfo{}, err
	}
	start, end := keys.Span(group)
	iter, err := from.NewIter(&pebble.IterOptions{LowerBound: start, UpperBound: end})
	if err != nil {
		return BackupInfo{}, readError("shard", err)
	}
	defer func() { err = errors.Join(err, iter.Close()) }()
	rows := 0
	for valid := iter.First(); valid; valid = iter.Next() {
		value, err := iter.ValueAndErr()
		if err != nil {
			return BackupInfo{}, readError("shard", err)
		}
		if err := out.Row(iter.Key(), value); err != nil {
			return BackupInfo{}, err
		}
		if rows++; rows%checkRows != 0 {
			continue
		}
		if err := ctx.Err(); err != nil {
			return BackupInfo{}, err
		}
		if s.uses.closed.Load() { // Stop waits for this
			return BackupInfo{}, ErrStopped
		}
	}
	if err := iter.Error(); err != nil {
		return BackupInfo{}, readError("shard", err)
	}
	return out.Close()
}
