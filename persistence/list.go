package persistence

import (
	"context"
	"fmt"

	"parley/persistence/index"
	"parley/persistence/replica"
)

// ListQuery selects a page of a list.
type ListQuery = index.Query

// ListCursor names a row of a list.
type ListCursor = index.Cursor

// ListRow is a row of a list.
type ListRow = index.Row

// List reads a page of a list, merged over all conversation shards.
func (s *Store) List(ctx context.Context, q ListQuery) ([]ListRow, error) {
	if err := s.beginAll(ctx); err != nil {
		return nil, err
	}
	defer s.end()
	rows, err := index.List(s.db, s.shards, q)
	if err != nil {
		return nil, readError("list", err)
	}
	return rows, nil
}

// ListShard reads a page of one shard's part of a list.
func (s *Store) ListShard(ctx context.Context, group uint32, q ListQuery) ([]ListRow, error) {
	if err := s.begin(ctx, group); err != nil {
		return nil, err
	}
	defer s.end()
	rows, err := index.List(s.db, index.Shards{First: group, Last: group}, q)
	if err != nil {
		return nil, readError("list", err)
	}
	return rows, nil
}

// Count sums counters, each over all conversation shards.
func (s *Store) Count(ctx context.Context, names ...string) (int64, error) {
	if err := s.beginAll(ctx); err != nil {
		return 0, err
	}
	defer s.end()
	n, err := index.Count(s.db, s.shards, names...)
	if err != nil {
		return 0, readError("counter", err)
	}
	return n, nil
}

// beginAll is begin for all conversation shards.
func (s *Store) beginAll(ctx context.Context) error {
	if !s.uses.enter() {
		return ErrStopped
	}
	for g := s.shards.First; g <= s.shards.Last; g++ {
		if err := s.driver.ReadBarrier(ctx, replica.GroupID(g)); err != nil {
			s.uses.leave()
			return fmt.Errorf("read shard %d: %w", g, err)
		}
	}
	return nil
}
