package conversation

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	"parley/actors/kit"
	"parley/proto/conversationpb"
)

const (
	// maxSessionPage bounds a page.
	maxSessionPage = 1000
	// sessionRounds bounds how often a list that holds more than what is asked for is read on; each round reads twice as
	// much as the one before, up to maxSessionPage. What comes then is a short page, and where to go on.
	sessionRounds = 5
	// titleRounds and titleSize are those of a search by title, which no list narrows, and the rows of its first round: about 1,700 heads
	// for a page.
	titleRounds = 3
	titleSize   = 256
	// maxCounted bounds a count of the sessions of a project, maxCountedOwn one whose heads have to be read.
	maxCounted    = 1000
	maxCountedOwn = 200
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
	rounds := sessionRounds
	switch {
	case query.GetTitle() != "":
		size, rounds = titleSize, titleRounds
	case !all: // most of what such a list holds is what is asked for: nearly all sessions are idle
		size = min(size+size/8+8, maxSessionPage)
	}
	page := &conversationpb.SessionsReply{}
	for range rounds {
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
		return list, query.GetAnybody() && query.GetAgentId() == "" && !query.GetByUser() && query.GetTitle() == ""
	case !query.GetAnybody():
		list.ByUser, list.UserID = true, query.GetUserId()
	case query.GetByUser():
		list.ByUser, list.UserID = true, query.GetForUser()
	default:
		list.AgentID = query.GetAgentId()
	}
	return list, query.GetStatus() == "" && query.GetTitle() == "" && list.AgentID == query.GetAgentId()
}

// selected says whether a session is what was asked for: its status may have changed since the list was read.
func selected(query *conversationpb.SessionsQuery, state *conversationpb.State) bool {
	return state.GetTenantId() == query.GetTenantId() && state.GetProjectId() == query.GetProjectId() &&
		(query.GetAnybody() || state.GetUserId() == query.GetUserId()) &&
		(query.GetAgentId() == "" || state.GetAgentId() == query.GetAgentId()) &&
		(query.GetStatus() == "" || state.RuntimeStatus() == query.GetStatus()) &&
		(!query.GetByUser() || state.GetUserId() == query.GetForUser()) &&
		(query.GetTitle() == "" || strings.Contains(strings.ToLower(state.GetTitle()), strings.ToLower(query.GetTitle())))
}

// countSessions counts the rows of the lists of statuses, each up to a bound. Those of a user are picked out by their heads.
func countSessions(ctx context.Context, from kit.Lists, query *conversationpb.SessionCountsQuery) (*conversationpb.SessionCountsReply, error) {
	reply := &conversationpb.SessionCountsReply{}
	most := maxCounted
	if !query.GetAnybody() {
		most = maxCountedOwn
	}
	for _, status := range []string{conversationpb.RuntimeRunning, conversationpb.RuntimeRequiresAction, conversationpb.RuntimeBudgetPaused} {
		list := SessionList{TenantID: query.GetTenantId(), ProjectID: query.GetProjectId(), Status: status}
		found, err := from.Page(ctx, kit.ListQuery{List: list.Name(), Descending: true, Limit: most + 1})
		if err != nil {
			return nil, err
		}
		count := &conversationpb.SessionCount{Status: status, More: len(found) > most}
		found = found[:min(most, len(found))]
		count.Count = int64(len(found))
		if !query.GetAnybody() {
			states, err := kit.States[conversationpb.State](ctx, from, found)
			if err != nil {
				return nil, err
			}
			count.Count = 0
			for _, state := range states {
				if state.GetUserId() == query.GetUserId() && state.RuntimeStatus() == status {
					count.Count++
				}
			}
		}
		reply.Counts = append(reply.Counts, count)
	}
	return reply, nil
}
