package endpoint

import (
	"context"

	"parley/proto/conversationpb"
	"parley/proto/runpb"
)

// Sessions lists conversations as the Client API knows them: whoever's they are, by project.
type Sessions interface {
	// Sessions returns a page, newest created first.
	Sessions(ctx context.Context, query SessionQuery) (*SessionPage, error)
}

// SessionQuery selects sessions of a project.
type SessionQuery struct {
	TenantID, ProjectID string
	Anybody             bool // of whomever; else those of UserID
	UserID              string
	AgentID             string         // empty = any
	Status              string         // a value of conversationpb.State.RuntimeStatus; empty = any
	After               *SessionCursor // behind this row; nil = from the newest on
	Limit               int
}

// SessionCursor names a row of the list: rows that are made while somebody pages never move another one.
type SessionCursor struct {
	CreatedAt int64 // Unix ms
	ID        string
}

// SessionPage is a page of sessions. Next is where the next one begins; nil = there is none.
type SessionPage struct {
	Sessions []*conversationpb.State
	Next     *SessionCursor
}

// Runs is what handlers need of background runs. A refusal is a *machine.Failure.
type Runs interface {
	// Ask routes a command to its run's owner and returns the reply.
	Ask(ctx context.Context, command *runpb.Command) (*runpb.Reply, error)
	// Run reads a run with its result, or a RUN_NOT_FOUND failure.
	Run(ctx context.Context, id string) (*runpb.Reply, error)
}
