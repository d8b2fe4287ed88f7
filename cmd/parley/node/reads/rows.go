package reads

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"parley/actors/kit"
	"parley/cluster/shard"
	"parley/persistence"
	"parley/proto/nodepb"
)

// localRows implements kit.Lists over this node's store.
type localRows struct{ store *persistence.Store }

// Counts implements kit.Lists.
func (l localRows) Counts(ctx context.Context, names ...string) ([]int64, error) {
	sums := make([]int64, len(names))
	for i, name := range names {
		var err error
		if sums[i], err = l.store.Count(ctx, name); err != nil {
			return nil, readFault("count conversations", err)
		}
	}
	return sums, nil
}

// Page implements kit.Lists.
func (l localRows) Page(ctx context.Context, query kit.ListQuery) ([]kit.Row, error) {
	stored := persistence.ListQuery{List: query.List, Descending: query.Descending, Offset: query.Offset, Limit: query.Limit}
	if query.After != nil {
		stored.After = &persistence.ListCursor{Score: query.After.Score, Member: query.After.Member}
	}
	found, err := l.store.List(ctx, stored)
	if err != nil {
		return nil, readFault("list conversations", err)
	}
	rows := make([]kit.Row, len(found))
	for i, row := range found {
		rows[i] = kit.Row{Shard: row.Group, Score: row.Score, Member: row.Member}
	}
	return rows, nil
}

// Heads implements kit.Lists.
func (l localRows) Heads(ctx context.Context, page []kit.Row) ([][]byte, error) {
	heads := make([][]byte, 0, len(page))
	err := readHeads(ctx, l.store, storedEntities(page), func(head []byte) bool {
		heads = append(heads, head)
		return true
	})
	return heads, err
}

func storedEntities(page []kit.Row) []persistence.Entity {
	of := make([]persistence.Entity, len(page))
	for i, row := range page {
		of[i] = persistence.Entity{Group: row.Shard, ID: row.Member}
	}
	return of
}

// readHeads visits copies of the heads of entities in their order, nil for deleted ones.
func readHeads(ctx context.Context, store *persistence.Store, of []persistence.Entity, visit func(head []byte) (more bool)) error {
	err := store.Heads(ctx, of, func(_ int, head persistence.Head, found bool) bool {
		if !found {
			return visit(nil)
		}
		return visit(append(make([]byte, 0, len(head.Value)), head.Value...))
	})
	if err != nil {
		return readFault("read heads", err)
	}
	return nil
}

// scatteredRows implements kit.Lists over the owners of all shards.
type scatteredRows struct{ Route }

// NewScatteredRows returns the rows of all shards, each asked of its owner.
func NewScatteredRows(way Route) scatteredRows { return scatteredRows{way} }

// All returns the shards that hold entities.
func (r *Route) All() []shard.ID {
	all := make([]shard.ID, r.Shards.Count())
	for i := range all {
		all[i] = shard.ID(i + 1)
	}
	return all
}

func (s scatteredRows) ask(ctx context.Context, query *nodepb.ListQuery) ([]*nodepb.ListReply, error) {
	parts, err := s.Router.ReadAll(ctx, s.All(), func(of []shard.ID) proto.Message {
		return &nodepb.ListQuery{
			List: query.GetList(), Descending: query.GetDescending(), Limit: query.GetLimit(), Counters: query.GetCounters(),
			Behind: query.GetBehind(), AfterScore: query.GetAfterScore(), AfterMember: query.GetAfterMember(),
			Shards: numbers(of),
		}
	})
	if err != nil {
		return nil, err
	}
	replies := make([]*nodepb.ListReply, len(parts))
	for i, part := range parts {
		reply, ok := part.Answer.(*nodepb.ListReply)
		if !ok || len(reply.GetCounts()) != len(query.GetCounters()) {
			return nil, fmt.Errorf("node %s answered a list with a %T", part.Node, part.Answer)
		}
		replies[i] = reply
	}
	return replies, nil
}

func numbers(of []shard.ID) []uint32 {
	all := make([]uint32, len(of))
	for i, in := range of {
		all[i] = uint32(in)
	}
	return all
}

// Counts implements kit.Lists.
func (s scatteredRows) Counts(ctx context.Context, names ...string) ([]int64, error) {
	replies, err := s.ask(ctx, &nodepb.ListQuery{Counters: names})
	if err != nil {
		return nil, err
	}
	sums := make([]int64, len(names))
	for _, reply := range replies {
		for i, n := range reply.GetCounts() {
			sums[i] += n
		}
	}
	return sums, nil
}

// Page implements kit.Lists.
func (s scatteredRows) Page(ctx context.Context, query kit.ListQuery) ([]kit.Row, error) {
	part := &nodepb.ListQuery{List: query.List, Descending: query.Descending, Limit: uint32(query.Offset + query.Limit)}
	if query.After != nil {
		part.Behind, part.AfterScore, part.AfterMember = true, query.After.Score, query.After.Member
	}
	replies, err := s.ask(ctx, part)
	if err != nil {
		return nil, err
	}
	var all []kit.Row
	for _, reply := range replies {
		for _, row := range reply.GetRows() {
			all = append(all, kit.Row{Shard: row.GetShard(), Score: row.GetScore(), Member: row.GetMember()})
		}
	}
	return kit.Cut(kit.Merge(all, query.Descending), query.Offset, query.Limit), nil
}

// Heads implements kit.Lists. It asks each owner for its part, and again for what did not fit into the answer.
func (s scatteredRows) Heads(ctx context.Context, page []kit.Row) ([][]byte, error) {
	heads := make([][]byte, len(page))
	left := make([]int, 0, len(page)) // indexes into the page
	for i := range page {
		left = append(left, i)
	}
	for len(left) > 0 {
		asked := make(map[shard.ID][]int)
		for _, i := range left {
			asked[shard.ID(page[i].Shard)] = append(asked[shard.ID(page[i].Shard)], i)
		}
		parts, err := s.Router.ReadAll(ctx, slices.Sorted(maps.Keys(asked)), func(of []shard.ID) proto.Message {
			query := &nodepb.HeadsQuery{}
			for _, i := range places(asked, of) {
				query.Rows = append(query.Rows, &nodepb.ListRow{Shard: page[i].Shard, Member: page[i].Member})
			}
			return query
		})
		if err != nil {
			return nil, err
		}
		left = left[:0]
		for _, part := range parts {
			reply, ok := part.Answer.(*nodepb.HeadsReply)
			of := places(asked, part.Shards)
			if n := len(reply.GetHeads()); !ok || n == 0 || n > len(of) {
				return nil, fmt.Errorf("node %s answered %d heads with %d of a %T", part.Node, len(of), n, part.Answer)
			}
			for k, head := range reply.GetHeads() {
				heads[of[k]] = head
			}
			left = append(left, of[len(reply.GetHeads()):]...)
		}
	}
	for i, head := range heads {
		if len(head) == 0 {
			heads[i] = nil // deleted: nil is encoded as empty
		}
	}
	return heads, nil
}

func places(asked map[shard.ID][]int, of []shard.ID) (all []int) {
	for _, in := range of {
		all = append(all, asked[in]...)
	}
	return all
}

// headsBytes is the size after which an answer with heads is cut off.
const headsBytes = 8 << 20

// heads answers for the heads of a page that this node owns.
func (a *Answerer) heads(ctx context.Context, q *nodepb.HeadsQuery) (*nodepb.HeadsReply, error) {
	of := make([]persistence.Entity, len(q.GetRows()))
	for i, row := range q.GetRows() {
		of[i] = persistence.Entity{Group: row.GetShard(), ID: row.GetMember()}
	}
	reply := &nodepb.HeadsReply{}
	size := 0
	err := readHeads(ctx, a.local.store, of, func(head []byte) bool {
		reply.Heads = append(reply.Heads, head)
		size += len(head)
		return size < headsBytes
	})
	if err != nil {
		return nil, err
	}
	return reply, nil
}
