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
