package persistence

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"parley/persistence/replica"
)

type staleKey struct{}

// WithStale allows reads under the context to be served from this node's replica even if it does not lead the shard.
// They see one consistent moment, which may lag behind the leader. Such a read is refused (ErrNotLeader) only when this
// node has no complete replica.
func WithStale(ctx context.Context) context.Context {
	return context.WithValue(ctx, staleKey{}, true)
}

func isStale(ctx context.Context) bool { return ctx.Value(staleKey{}) != nil }

// Confirm returns nil once local reads of a shard include everything acknowledged before the call, which means that
// this node led the shard at some point after the call. With one voter it costs next to nothing, otherwise a round trip
// to a majority.
func (s *Store) Confirm(ctx context.Context, group uint32) error {
	if err := s.driver.ReadBarrier(ctx, replica.GroupID(group)); err != nil {
		return fmt.Errorf("read shard %d: %w", group, s.elsewhere(err, group))
	}
	return nil
}

// reading is a read in progress. It keeps the database open until its end.
type reading struct {
	store    *Store
	from     pebble.Reader
	snapshot *pebble.Snapshot // of a stale read
}

// begin ensures that a read of the groups sees everything acknowledged, or for a stale read that it sees a complete
// state.
func (s *Store) begin(ctx context.Context, groups ...uint32) (reading, error) {
	r := reading{store: s, from: s.db}
	if !s.uses.enter() {
		return reading{}, ErrStopped
	}
	if isStale(ctx) {
		// A snapshot from another node replaces rows in several steps. The database snapshot shows whether that was in
		// progress when it was taken.
		r.snapshot = s.db.NewSnapshot()
		r.from = r.snapshot
		for _, group := range groups {
			if err := s.whole(r.snapshot, group); err != nil {
				return reading{}, r.end(err)
			}
		}
		return r, nil
	}
	if err := s.barriers(ctx, groups); err != nil {
		return reading{}, r.end(err)
	}
	return r, nil
}

func (s *Store) barriers(ctx context.Context, groups []uint32) error {
	if len(groups) == 1 {
		return s.Confirm(ctx, groups[0])
	}
	ids := make([]replica.GroupID, len(groups))
	for i, group := range groups {
		ids[i] = replica.GroupID(group)
	}
	if err := s.driver.ReadBarriers(ctx, ids); err != nil {
		return fmt.Errorf("read shards: %w", s.elsewhere(err, groups...))
	}
	return nil
}

// whole refuses a shard without a complete state here.
func (s *Store) whole(r pebble.Reader, group uint32) error {
	at, err := s.driver.Position(r, replica.GroupID(group))
	switch {
	case err != nil:
		return readError("shard", err)
	case at.Index == 0:
		leader, _, _ := s.driver.Leader(replica.GroupID(group))
		return fmt.Errorf("read shard %d: %w", group, &NotLeaderError{Group: replica.GroupID(group), Leader: leader})
	}
	return nil
}

// elsewhere turns ErrUnknownGroup into ErrNotLeader for a group that exists but has no replica on this node.
func (s *Store) elsewhere(err error, groups ...uint32) error {
	if !errors.Is(err, ErrUnknownGroup) {
		return err
	}
	missing := slices.IndexFunc(groups, func(group uint32) bool { return !s.Hosts(group) })
	if missing < 0 || groups[missing] > uint32(s.identity.Shards) {
		return err
	}
	return &NotLeaderError{Group: replica.GroupID(groups[missing])}
}

// end releases what the read holds and returns err, joined with any error from releasing it.
func (r *reading) end(err error) error {
	if r.snapshot != nil {
		err = errors.Join(err, r.snapshot.Close())
	}
	r.store.uses.leave()
	return err
}

func (r *reading) get(key []byte, what string, visit func([]byte) error) (found bool, err error) {
	value, closer, err := r.from.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, readError(what, err)
	}
	return true, errors.Join(visit(value), closer.Close())
}
