package conversation

import (
	"parley/actors/machine"
	"parley/proto/conversationpb"
	"parley/proto/logpb"
)

// SessionList names a sorted list of a project's conversations, whoever's they are, as the Client API lists sessions.
// Members are conversation ids, scores those of createdScore, values are empty: a row of a page is the head.
// Those of tasks are in none.
//
// At most one of status, user and agent narrows a list: of several it is the first of these, and whoever reads it looks at
// the heads for the others. The idle ones have no list of their own, so that a turn moves a conversation into and out of
// one list only.
type SessionList struct {
	TenantID, ProjectID string
	Status              string // a value of conversationpb.State.RuntimeStatus but idle; empty = any
	ByUser              bool   // those of UserID, which is empty where they have no owner
	UserID              string
	AgentID             string // empty = of any agent
}

// Name is the list's name in storage.
func (l SessionList) Name() string {
	project := machine.ListPart(l.TenantID) + "/" + machine.ListPart(l.ProjectID)
	switch {
	case l.Status != "":
		return "session/s/" + project + "/" + machine.ListPart(l.Status)
	case l.ByUser:
		return "session/u/" + project + "/" + machine.ListPart(l.UserID)
	case l.AgentID != "":
		return "session/g/" + project + "/" + machine.ListPart(l.AgentID)
	}
	return "session/a/" + project
}

// projectSessions puts the conversation into the lists of its project, agent and user when it is made and takes it out when
// it goes; and moves it between those of the statuses.
func projectSessions(was, is *conversationpb.State, into *logpb.Append) {
	old, now := sessionStatus(was), sessionStatus(is)
	if old != now {
		sessionPlace(was, SessionList{Status: old}, true, into)
		sessionPlace(is, SessionList{Status: now}, false, into)
	}
	if was != nil && is != nil {
		return
	}
	for _, one := range []struct {
		state *conversationpb.State
		gone  bool
	}{{was, true}, {is, false}} {
		if !one.state.IsSession() {
			continue
		}
		sessionRow(one.state, SessionList{}, one.gone, into)
		sessionRow(one.state, SessionList{AgentID: one.state.GetAgentId()}, one.gone, into)
		sessionRow(one.state, SessionList{ByUser: true, UserID: one.state.GetUserId()}, one.gone, into)
	}
}

// sessionStatus is the status by which the conversation is listed, "" = by none.
func sessionStatus(s *conversationpb.State) string {
	if status := s.RuntimeStatus(); s.IsSession() && status != conversationpb.RuntimeIdle {
		return status
	}
	return ""
}

// sessionPlace is sessionRow for a list of a status, which may be none.
func sessionPlace(s *conversationpb.State, list SessionList, gone bool, into *logpb.Append) {
	if list.Status != "" {
		sessionRow(s, list, gone, into)
	}
}

func sessionRow(s *conversationpb.State, list SessionList, gone bool, into *logpb.Append) {
	list.TenantID, list.ProjectID = s.GetTenantId(), s.GetProjectId()
	into.Listings = append(into.Listings, &logpb.Listing{
		List: list.Name(), Score: createdScore(s), Member: s.GetId(), Delete: gone,
	})
}
