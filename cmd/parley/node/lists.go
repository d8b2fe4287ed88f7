package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"parley/actors/conversation"
	"parley/actors/machine"
	"parley/cluster/shard"
	"parley/httpedge/endpoint"
	"parley/persistence"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/nodepb"
)

// rows is where lists of conversations are read: this node's store, or the owners of all shards.
type rows interface {
	// counts sums each counter over all shards.
	counts(ctx context.Context, names ...string) ([]int64, error)
	// page reads a page of a list, merged over all shards.
	page(ctx context.Context, query persistence.ListQuery) ([]persistence.ListRow, error)
	// heads returns the states of the rows, without those that are gone.
	heads(ctx context.Context, page []persistence.ListRow) ([]*conversationpb.State, error)
}

// listConversations lists one user's conversations.
func listConversations(ctx context.Context, from rows, query endpoint.ListQuery) (*endpoint.ListPage, error) {
	list := conversation.List{
		TenantID: query.TenantID, ProjectID: query.ProjectID, UserID: query.UserID, AgentID: query.AgentID,
		Order: conversation.ByCreated,
	}
	if query.ByUpdated {
		list.Order = conversation.ByUpdated
	}
	pinnedList := list
	pinnedList.Pinned = true
	counts, err := from.counts(ctx, pinnedList.CountName(), list.CountName())
	if err != nil {
		return nil, err
	}
	page := &endpoint.ListPage{Total: int(counts[0] + counts[1])}
	if query.Offset >= page.Total {
		return page, nil // and no offset is too large to count with
	}
	found, err := listRows(ctx, from, query, lists{pinned: pinnedList.Name(), others: list.Name(), pins: int(counts[0])})
	if err != nil {
		return nil, err
	}
	page.Conversations, err = from.heads(ctx, found)
	return page, err
}

// lists are the two that make one user's list, and how long the one of the pinned is.
type lists struct {
	pinned, others string
	pins           int
}

// listRows reads a page of the two lists: the pinned one first, or both as one.
func listRows(ctx context.Context, from rows, query endpoint.ListQuery, of lists) ([]persistence.ListRow, error) {
	read := func(name string, offset, limit int) ([]persistence.ListRow, error) {
		if limit <= 0 {
			return nil, nil
		}
		return from.page(ctx, persistence.ListQuery{List: name, Descending: !query.Ascending, Offset: offset, Limit: limit})
	}
	if of.pins == 0 {
		return read(of.others, query.Offset, query.Limit)
	}
	if query.PinnedFirst {
		first, err := read(of.pinned, query.Offset, query.Limit)
		if err != nil {
			return nil, err
		}
		rest, err := read(of.others, max(query.Offset-of.pins, 0), query.Limit-len(first))
		return append(first, rest...), err
	}
	first, err := read(of.pinned, 0, query.Offset+query.Limit)
	if err != nil {
		return nil, err
	}
	rest, err := read(of.others, 0, query.Offset+query.Limit)
	if err != nil {
		return nil, err
	}
	return cut(merge(append(first, rest...), !query.Ascending), query.Offset, query.Limit), nil
}

// merge sorts rows of several sorted lists into one.
func merge(all []persistence.ListRow, descending bool) []persistence.ListRow {
	slices.SortStableFunc(all, func(x, y persistence.ListRow) int {
		order := cmp.Or(cmp.Compare(x.Score, y.Score), cmp.Compare(x.Member, y.Member))
		if descending {
			return -order
		}
		return order
	})
	return all
}

func cut(all []persistence.ListRow, offset, limit int) []persistence.ListRow {
	return all[min(offset, len(all)):min(offset+limit, len(all))]
}

// localRows reads lists in this node's store.
type localRows struct{ store *persistence.Store }

func (l localRows) counts(ctx context.Context, names ...string) ([]int64, error) {
	sums := make([]int64, len(names))
	for i, name := range names {
		var err error
		if sums[i], err = l.store.Count(ctx, name); err != nil {
			return nil, readFault("count conversations", err)
		}
	}
	return sums, nil
}

func (l localRows) page(ctx context.Context, query persistence.ListQuery) ([]persistence.ListRow, error) {
	found, err := l.store.List(ctx, query)
	if err != nil {
		return nil, readFault("list conversations", err)
	}
	return found, nil
}

func (l localRows) heads(ctx context.Context, page []persistence.ListRow) ([]*conversationpb.State, error) {
	states := make([]*conversationpb.State, 0, len(page))
	for _, row := range page {
		head, found, err := l.store.Head(ctx, row.Group, row.Member)
		if err != nil {
			return nil, readFault("read head", err)
		}
		if !found {
			continue // deleted since the list was read
		}
		state, err := decodeState(head.Value)
		if err != nil {
			return nil, err
		}
		states = append(states, state)
	}
	return states, nil
}

// scatteredRows reads lists at the owners of all shards.
type scatteredRows struct{ route }

func (s scatteredRows) ask(ctx context.Context, query *nodepb.ListQuery) ([]*nodepb.ListReply, error) {
	all := make([]shard.ID, s.shards.Count())
	for i := range all {
		all[i] = shard.ID(i + 1)
	}
	parts, err := s.router.ReadAll(ctx, all, func(of []shard.ID) proto.Message {
		part := &nodepb.ListQuery{
			List: query.GetList(), Descending: query.GetDescending(), Limit: query.GetLimit(), Counters: query.GetCounters(),
			Shards: make([]uint32, len(of)),
		}
		for i, in := range of {
			part.Shards[i] = uint32(in)
		}
		return part
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

func (s scatteredRows) counts(ctx context.Context, names ...string) ([]int64, error) {
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

func (s scatteredRows) page(ctx context.Context, query persistence.ListQuery) ([]persistence.ListRow, error) {
	replies, err := s.ask(ctx, &nodepb.ListQuery{
		List: query.List, Descending: query.Descending, Limit: uint32(query.Offset + query.Limit),
	})
	if err != nil {
		return nil, err
	}
	var all []persistence.ListRow
	for _, reply := range replies {
		for _, row := range reply.GetRows() {
			all = append(all, persistence.ListRow{Group: row.GetShard(), Score: row.GetScore(), Member: row.GetMember()})
		}
	}
	return cut(merge(all, query.Descending), query.Offset, query.Limit), nil
}

// headsAtOnce bounds the reads of one page that are under way.
const headsAtOnce = 16

func (s scatteredRows) heads(ctx context.Context, page []persistence.ListRow) ([]*conversationpb.State, error) {
	found := make([]*conversationpb.State, len(page))
	reads, ctx := errgroup.WithContext(ctx)
	reads.SetLimit(headsAtOnce)
	for i, row := range page {
		reads.Go(func() error {
			answer, _, err := s.router.Read(ctx, shard.ID(row.Group), &nodepb.StateQuery{Id: row.Member})
			var failure *machine.Failure
			switch {
			case errors.As(err, &failure) && failure.Code == failurepb.Code_NOT_FOUND:
				return nil // deleted since the list was read
			case err != nil:
				return err
			}
			reply, ok := answer.(*nodepb.StateReply)
			if !ok {
				return fmt.Errorf("a read was answered with a %T", answer)
			}
			found[i] = reply.GetState()
			return nil
		})
	}
	if err := reads.Wait(); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(found, func(state *conversationpb.State) bool { return state == nil }), nil
}
