package conversation

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

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

const (
	// maxSessionPage bounds a page.
	maxSessionPage = 1000
	// sessionRounds bounds how often a list that holds more than what is asked for is read on; each round reads twice as
	// much as the one before, up to maxSessionPage. What comes then is a short page, and where to go on.
	sessionRounds = 5
)

// listSessions reads the narrowest list that holds what is asked for, and picks out of it by the heads.
func listSessions(ctx context.Context, from kit.Lists, query *conversationpb.SessionsQuery) (*conversationpb.SessionsReply, error) {
	limit := int(min(query.GetLimit(), maxSessionPage))
	if limit <= 0 {
		return &conversationpb.SessionsReply{}, nil
	}
	list, all := sessionList(query)
	read := kit.ListQuery{List: list.Name(), Descending: true}
	if after := query.GetAfter(); after != nil {
		read.After = &kit.Cursor{Score: after.GetCreatedAt(), Member: after.GetId()}
	}
	size := limit
	if !all { // most of what such a list holds is what is asked for: nearly all sessions are idle
		size = min(size+size/8+8, maxSessionPage)
	}
	page := &conversationpb.SessionsReply{}
	for range sessionRounds {
		read.Limit = size + 1 // one more tells whether there are more
		found, err := from.Page(ctx, read)
		if err != nil {
			return nil, err
		}
		more := len(found) > size
		found = found[:min(size, len(found))]
		taken, err := pick(ctx, from, query, found, page)
		if err != nil {
			return nil, err
		}
		if taken == len(found) && !more {
			page.Next = nil
			return page, nil
		}
		if len(page.GetSessions()) == limit {
			return page, nil
		}
		read.After = &kit.Cursor{Score: page.GetNext().GetCreatedAt(), Member: page.GetNext().GetId()}
		size = min(2*size, maxSessionPage)
	}
	return page, nil
}

// pick adds what is asked for to a page until that is full, moves its end on, and says how many rows it has taken.
func pick(ctx context.Context, from kit.Lists, query *conversationpb.SessionsQuery, found []kit.Row, page *conversationpb.SessionsReply) (taken int, err error) {
	heads, err := from.Heads(ctx, found)
	if err != nil {
		return 0, err
	}
	limit := int(min(query.GetLimit(), maxSessionPage))
	for i := 0; i < len(found) && len(page.GetSessions()) < limit; i++ {
		taken++
		page.Next = &conversationpb.SessionCursor{CreatedAt: found[i].Score, Id: found[i].Member}
		if heads[i] == nil {
			continue // deleted since the list was read
		}
		state := &conversationpb.State{}
		if err := proto.Unmarshal(heads[i], state); err != nil {
			return taken, fmt.Errorf("decode head: %w", err)
		}
		if selected(query, state) {
			page.Sessions = append(page.Sessions, state)
		}
	}
	return taken, nil
}

// sessionList is the list to read; all says that it holds nothing else. Most sessions are idle, which has no list: few
// are in one of the others.
func sessionList(query *conversationpb.SessionsQuery) (list SessionList, all bool) {
	list = SessionList{TenantID: query.GetTenantId(), ProjectID: query.GetProjectId()}
	listedStatus := query.GetStatus() != "" && query.GetStatus() != conversationpb.RuntimeIdle
	switch {
	case listedStatus:
		list.Status = query.GetStatus()
		return list, query.GetAnybody() && query.GetAgentId() == ""
	case !query.GetAnybody():
		list.ByUser, list.UserID = true, query.GetUserId()
		return list, query.GetAgentId() == "" && query.GetStatus() == ""
	default:
		list.AgentID = query.GetAgentId()
		return list, query.GetStatus() == ""
	}
}

// selected says whether a session is what was asked for: its status may have changed since the list was read.
func selected(query *conversationpb.SessionsQuery, state *conversationpb.State) bool {
	return state.GetTenantId() == query.GetTenantId() && state.GetProjectId() == query.GetProjectId() &&
		(query.GetAnybody() || state.GetUserId() == query.GetUserId()) &&
		(query.GetAgentId() == "" || state.GetAgentId() == query.GetAgentId()) &&
		(query.GetStatus() == "" || state.RuntimeStatus() == query.GetStatus())
}
