package tool

import (
	"context"
	"log/slog"
	"time"

	"parley/actors/stranger"
	"parley/actors/turn/model"
	"parley/actors/turn/runtimecontext"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
)

// Set is the tools that an agent may call. Immutable, and safe for concurrent use.
type Set interface {
	// Definitions are the tools as described to the model, sorted by name. Read-only.
	Definitions() []model.Tool
	Find(name string) (*Tool, bool)
}

// Kind says who produces a tool's result.
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
	OfCaller    bool                // it came with the request
	Policy      *agentpb.ToolPolicy // never nil; read-only

	origin  string // who it is, however its name had to be changed
	renamed bool   // its name is not the one that it has there

	approval *approval
	run      func(ctx context.Context, call *Call) (string, error)
	timeout  time.Duration
	limit    int // bytes of a result
	answers  *stranger.Budget
	logger   *slog.Logger
}

// Judgement is what a call needs before it has a result.
type Judgement struct {
	Args    []byte // JSON object, compact
	Need    conversationpb.Need
	Details []byte // JSON object for the pending action, nil if there is nothing to add
	// ActionTimeout is how long the person, or the caller's side, has. 0 = the default.
	ActionTimeout time.Duration
}

// Call is one run of a tool.
type Call struct {
	ID             string // tool call id, as the model gave it
	IdempotencyKey string // the same for every attempt of this call
	ConversationID string
	RunID          string
	UserID         string
	Args           []byte // JSON object, as judged or as a person approved it
	// Context is the turn's runtime context, for tools whose policy permits it; nil = none.
	Context *runtimecontext.Context

	limit      int // how many bytes of the result are used
	idempotent bool
	images     []model.Image // of the result
}
