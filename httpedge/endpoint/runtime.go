package endpoint

import (
	"context"

	"parley/actors/core/follow"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
)

// Runtime is what handlers need of the conversations: commands, and live streams. A refusal is a *machine.Failure
// (errors.As); any other error is a fault and answers 500, or 503 when it says so.
type Runtime interface {
	// Ask routes a command to its conversation's owner and returns the reply.
	Ask(ctx context.Context, command *conversationpb.Command) (*conversationpb.Reply, error)
	// Follow subscribes to a conversation. Changes reach the sink in order and once each, starting right after the
	// snapshot; the calls never overlap and must not block. Cancel ends it; after Cancel returns the sink may still
	// hear a change that was under way.
	Follow(ctx context.Context, conversationID string, sink follow.Sink) (*Subscription, error)
}

// Subscription is a live follow.
type Subscription struct {
	Snapshot *conversationpb.Snapshot
	Cancel   func()
}

// Reader is what handlers need of storage: durable records, read on the owner.
type Reader interface {
	// State returns a conversation's head, or a NOT_FOUND failure.
	State(ctx context.Context, id string) (*conversationpb.State, error)
	// Messages returns a page of messages and the head of the same moment.
	Messages(ctx context.Context, query MessageQuery) (*MessagePage, error)
	// Message returns one message with the head of the same moment, or a NOT_FOUND failure.
	Message(ctx context.Context, conversationID, messageID string) (*MessageView, error)
	// Events returns a page of the event log.
	Events(ctx context.Context, query EventQuery) (*EventPage, error)
	// Conversations lists one user's conversations.
	Conversations(ctx context.Context, query ListQuery) (*ListPage, error)
}

// MessageQuery selects messages of a conversation. Before and After are message ids (at most one is set): a page of
// the messages older or newer than that one, nearest to it. With neither: the newest page, or, with Offset >= 0, the
// page at that offset in the asked order. The page is returned in the asked order.
type MessageQuery struct {
	ConversationID string
	Before, After  string
	Offset         int // -1 = not by offset
	Limit          int
	Descending     bool
}

// MessagePage is a page of messages with what lies around it.
type MessagePage struct {
	State                       *conversationpb.State
	Messages                    []*conversationpb.Message
	HasMoreBefore, HasMoreAfter bool // older, newer messages exist
}

// MessageView is a message that a command is about.
type MessageView struct {
	State     *conversationpb.State
	Message   *conversationpb.Message
	InReplyTo *conversationpb.Message // of an answer: the user message it answers, nil when that is gone
}

// EventQuery selects events with seq > After, of the given public types (none = all), oldest first.
type EventQuery struct {
	ConversationID string
	After          uint64
	Types          []string
	Limit          int
}

// EventPage is a page of the log.
type EventPage struct {
	Events  []*conversationpb.Event
	HasMore bool
	LastSeq uint64 // newest seq of the whole log
}

// ListQuery selects conversations of one user in one project.
type ListQuery struct {
	TenantID, ProjectID string
	UserID              string // empty = those without an owner
	AgentID             string // empty = any
	ByUpdated           bool   // order by update time, else by creation
	Ascending           bool
	PinnedFirst         bool
	Limit, Offset       int
}

// ListPage is a page of conversations.
type ListPage struct {
	Conversations []*conversationpb.State
	Total         int
}

// Agents is the registry of the agents that a project may run: those of the configuration, and those made over the Client
// API. The returned records are shared: do not change them.
type Agents interface {
	// Agent returns what a new turn of the agent runs: its published version, or its draft while none was published.
	Agent(projectID, id string) (*agentpb.Agent, bool)
	// Agents are the active ones of a project.
	Agents(projectID string) []*agentpb.Agent
}

// IDs mints ids.
type IDs interface {
	// NewID mints an id of a kind in any shard; NewIDFor one that routes like the given id.
	NewID(kind string) string
	NewIDFor(kind, like string) string
	// NewIDFrom makes an id of a kind out of a text: the same text makes the same id. The text must be as hard to guess as
	// an id has to be.
	NewIDFrom(kind, text string) string
	// NewIDFromFor is NewIDFrom for an id that routes like the given one.
	NewIDFromFor(kind, text, like string) string
}
