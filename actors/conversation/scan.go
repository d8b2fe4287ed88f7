package conversation

import (
	"context"

	"parley/actors/kit"
	"parley/proto/conversationpb"
)

// listConversations lists one user's conversations.
func listConversations(ctx context.Context, from kit.Lists, query *conversationpb.ConversationsQuery) (*conversationpb.ConversationsReply, error) {
	list := List{
		TenantID: query.GetTenantId(), ProjectID: query.GetProjectId(), UserID: query.GetUserId(), AgentID: query.GetAgentId(),
		Order: ByCreated,
	}
	if query.GetByUpdated() {
		list.Order = ByUpdated
	}
	pinnedList := list
	pinnedList.Pinned = true
	counts, err := from.Counts(ctx, pinnedList.CountName(), list.CountName())
	if err != nil {
		return nil, err
	}
	page := &conversationpb.ConversationsReply{Total: counts[0] + counts[1]}
	if query.GetOffset() >= page.GetTotal() {
		return page, nil // and no offset is too large to count with
	}
	found, err := listRows(ctx, from, query, lists{pinned: pinnedList.Name(), others: list.Name(), pins: int(counts[0])})
	if err != nil {
		return nil, err
	}
	page.Conversations, err = kit.States[conversationpb.State](ctx, from, found)
	return page, err
}

// lists are the two that make one user's list, and how long the one of the pinned is.
type lists struct {
	pinned, others string
	pins           int
}

// listRows reads a page of the two lists: the pinned one first, or both as one.
func listRows(ctx context.Context, from kit.Lists, query *conversationpb.ConversationsQuery, of lists) ([]kit.Row, error) {
	start, size := int(query.GetOffset()), int(query.GetLimit())
	read := func(name string, offset, limit int) ([]kit.Row, error) {
		if limit <= 0 {
			return nil, nil
		}
		return from.Page(ctx, kit.ListQuery{List: name, Descending: !query.GetAscending(), Offset: offset, Limit: limit})
	}
	if of.pins == 0 {
		return read(of.others, start, size)
	}
	if query.GetPinnedFirst() {
		first, err := read(of.pinned, start, size)
		if err != nil {
			return nil, err
		}
		rest, err := read(of.others, max(start-of.pins, 0), size-len(first))
		return append(first, rest...), err
	}
	first, err := read(of.pinned, 0, start+size)
	if err != nil {
		return nil, err
	}
	rest, err := read(of.others, 0, start+size)
	if err != nil {
		return nil, err
	}
	return kit.Cut(kit.Merge(append(first, rest...), !query.GetAscending()), start, size), nil
}
