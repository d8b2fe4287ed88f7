package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"parley/actors/conversation"
	"parley/httpedge/endpoint"
	"parley/persistence"
	"parley/proto/conversationpb"
)

// rows is where lists are read: this node's store, or the owners of all shards.
type rows interface {
	// counts sums each counter over all shards.
	counts(ctx context.Context, names ...string) ([]int64, error)
	// page reads a page of a list, merged over all shards.
	page(ctx context.Context, query persistence.ListQuery) ([]persistence.ListRow, error)
	// heads returns the state of each row, serialized; nil for those that are gone.
	heads(ctx context.Context, page []persistence.ListRow) ([][]byte, error)
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
	page.Conversations, err = states[conversationpb.State](ctx, from, found)
	return page, err
}

// states reads the entities of a page, without those that are gone.
func states[S any, P interface {
	*S
	proto.Message
}](ctx context.Context, from rows, page []persistence.ListRow) ([]*S, error) {
	heads, err := from.heads(ctx, page)
	if err != nil {
		return nil, err
	}
	all := make([]*S, 0, len(heads))
	for _, head := range heads {
		if head == nil {
			continue // deleted since the list was read
		}
		state := P(new(S))
		if err := proto.Unmarshal(head, state); err != nil {
			return nil, fmt.Errorf("decode head: %w", err)
		}
		all = append(all, state)
	}
	return all, nil
}

// listed reads a list in this node's store while that holds it all, and at the owners of the shards otherwise.
func listed[P any](ctx context.Context, r route, list func(ctx context.Context, from rows) (P, error)) (P, error) {
	if endpoint.StaleAllowed(ctx) && r.holdsAll(r.store.Hosts) {
		endpoint.ServedStale(ctx)
		return list(persistence.WithStale(ctx), localRows{r.store})
	}
	if r.holdsAll(r.owns) {
		page, err := list(ctx, localRows{r.store})
		if !errors.Is(err, persistence.ErrNotLeader) {
			return page, err
		}
	}
	return list(ctx, scatteredRows{r})
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
