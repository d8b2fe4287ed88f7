package persistence

import (
	"context"

	"parley/persistence/index"
)

// ListQuery selects a page of a list.
type ListQuery = index.Query

// ListCursor names a row of a list.
type ListCursor = index.Cursor

// ListRow is a row of a list.
type ListRow = index.Row

// List reads a page of a list, merged over all conversation shards. This node must lead all of them; ListShards reads
// some.
func (s *Store) List(ctx context.Context, q ListQuery) ([]ListRow, error) {
	return s.ListShards(ctx, s.groups, q)
}

// ListShard reads a page of one shard's part of a list.
func (s *Store) ListShard(ctx context.Context, group uint32, q ListQuery) ([]ListRow, error) {
	return s.ListShards(ctx, []uint32{group}, q)
}

// ListShards reads a page of a list, merged over the given shards, which must be distinct.
func (s *Store) ListShards(ctx context.Context, groups []uint32, q ListQuery) ([]ListRow, error) {
	r, err := s.begin(ctx, groups...)
	if err != nil {
		return nil, err
	}
	rows, err := index.List(r.from, groups, q)
	if err != nil {
		return nil, r.end(readError("list", err))
	}
	return rows, r.end(nil)
}

// Count sums counters, each over all conversation shards.
func (s *Store) Count(ctx context.Context, names ...string) (int64, error) {
	return s.CountShards(ctx, s.groups, names...)
}

// CountShards sums counters, each over the given shards, which must be distinct.
func (s *Store) CountShards(ctx context.Context, groups []uint32, names ...string) (int64, error) {
	r, err := s.begin(ctx, groups...)
	if err != nil {
		return 0, err
	}
	n, err := index.Count(r.from, groups, names...)
	if err != nil {
		return 0, r.end(readError("counter", err))
	}
	return n, r.end(nil)
}
