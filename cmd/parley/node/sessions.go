package node

import (
	"context"

	"parley/actors/conversation"
	"parley/httpedge/endpoint"
	"parley/persistence"
	"parley/proto/conversationpb"
)

// sessions are conversations as the edge's endpoint.Sessions lists them.
type sessions struct{ route }

// Sessions returns a page of a project's sessions, the newest first.
func (s *sessions) Sessions(ctx context.Context, query endpoint.SessionQuery) (*endpoint.SessionPage, error) {
	return listed(ctx, s.route, func(ctx context.Context, from rows) (*endpoint.SessionPage, error) {
		return listSessions(ctx, from, query)
	})
}

const (
	// maxSessionPage bounds a page.
	maxSessionPage = 1000
	// sessionRounds bounds how often a list that holds more than what is asked for is read on; each round reads twice as
	// much as the one before, up to maxSessionPage. What comes then is a short page, and where to go on.
	sessionRounds = 5
)

// listSessions reads the narrowest list that holds what is asked for, and picks out of it by the heads.
func listSessions(ctx context.Context, from rows, query endpoint.SessionQuery) (*endpoint.SessionPage, error) {
	query.Limit = min(query.Limit, maxSessionPage)
	if query.Limit <= 0 {
		return &endpoint.SessionPage{}, nil
	}
	list, all := sessionList(query)
	read := persistence.ListQuery{List: list.Name(), Descending: true}
	if query.After != nil {
		read.After = &persistence.ListCursor{Score: query.After.CreatedAt, Member: query.After.ID}
	}
	size := query.Limit
	if !all { // most of what such a list holds is what is asked for: nearly all sessions are idle
		size = min(size+size/8+8, maxSessionPage)
	}
	page := &endpoint.SessionPage{}
	for range sessionRounds {
		read.Limit = size + 1 // one more tells whether there are more
		found, err := from.page(ctx, read)
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
		if len(page.Sessions) == query.Limit {
			return page, nil
		}
		read.After = &persistence.ListCursor{Score: page.Next.CreatedAt, Member: page.Next.ID}
		size = min(2*size, maxSessionPage)
	}
	return page, nil
}

// pick adds what is asked for to a page until that is full, moves its end on, and says how many rows it has taken.
func pick(ctx context.Context, from rows, query endpoint.SessionQuery, found []persistence.ListRow, page *endpoint.SessionPage) (taken int, err error) {
	heads, err := from.heads(ctx, found)
	if err != nil {
		return 0, err
	}
	for i := 0; i < len(found) && len(page.Sessions) < query.Limit; i++ {
		taken++
		page.Next = &endpoint.SessionCursor{CreatedAt: found[i].Score, ID: found[i].Member}
		if heads[i] == nil {
			continue // deleted since the list was read
		}
		state, err := decodeState(heads[i])
		if err != nil {
			return taken, err
		}
		if selected(query, state) {
			page.Sessions = append(page.Sessions, state)
		}
	}
	return taken, nil
}

// sessionList is the list to read; all says that it holds nothing else. Most sessions are idle, which has no list: few
// are in one of the others.
func sessionList(query endpoint.SessionQuery) (list conversation.SessionList, all bool) {
	list = conversation.SessionList{TenantID: query.TenantID, ProjectID: query.ProjectID}
	listedStatus := query.Status != "" && query.Status != conversationpb.RuntimeIdle
	switch {
	case listedStatus:
		list.Status = query.Status
		return list, query.Anybody && query.AgentID == ""
	case !query.Anybody:
		list.ByUser, list.UserID = true, query.UserID
		return list, query.AgentID == "" && query.Status == ""
	default:
		list.AgentID = query.AgentID
		return list, query.Status == ""
	}
}

// selected says whether a session is what was asked for: its status may have changed since the list was read.
func selected(query endpoint.SessionQuery, state *conversationpb.State) bool {
	return state.GetTenantId() == query.TenantID && state.GetProjectId() == query.ProjectID &&
		(query.Anybody || state.GetUserId() == query.UserID) &&
		(query.AgentID == "" || state.GetAgentId() == query.AgentID) &&
		(query.Status == "" || state.RuntimeStatus() == query.Status)
}
