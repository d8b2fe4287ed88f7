package tool

import (
	"context"
	"log/slog"
	"time"

	"parley/actors/turn/model"
	"parley/actors/turn/runtimecontext"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
)

// Set is what an agent may call. Safe for concurrent use; it never changes.
type Set interface {
	// Definitions are the tools as the model is told of them, sorted by name. They are only read.
	Definitions() []model.Tool
	Find(name string) (*Tool, bool)
}

// Kind says who brings a tool's result about.
type Kind int

// Kinds of tools.
const (
	Run    Kind = iota // this process runs it
	Ask                // a person answers its questions
	Client             // the caller's side runs it
)

// Tool is one tool of an agent. Safe for concurrent use.
type Tool struct {
	Name        string
	Description string
	Schema      []byte // JSON Schema object of the arguments, never empty
	Kind        Kind
	OfCaller    bool                // it came with the request for the turn
	Policy      *agentpb.ToolPolicy // never nil; only read

	approval *approval
	run      func(ctx context.Context, call *Call) (string, error)
	timeout  time.Duration
	limit    int // bytes of a result
	logger   *slog.Logger
}

// Judgement is what a call needs before it has a result.
type Judgement struct {
	Args    []byte // JSON object, compact
	Need    conversationpb.Need
	Details []byte // JSON object for the pending action, nil when there is nothing to tell
	// ActionTimeout is how long a person, or the caller's side, has. 0 = the default.
	ActionTimeout time.Duration
}

// Call is one run of a tool.
type Call struct {
	ID             string // tool call id, as the model gave it
	IdempotencyKey string // the same for every try of this call
	ConversationID string
	RunID          string
	UserID         string
	Args           []byte // JSON object, as judged or as a person approved it
	// Context is what the turn's caller hands to tools that let it pass; nil = nothing.
	Context *runtimecontext.Context

	limit      int // bytes of the result that are of use
	idempotent bool
}
