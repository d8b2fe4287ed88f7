package sse

import (
	"context"
	"net"

	"parley/actors/core/follow"
	"parley/actors/machine"
	"parley/proto/conversationpb"
)

// Upstream is the hub's source of conversations. For a conversation that does not exist it returns a *machine.Failure
// of code NOT_FOUND.
type Upstream interface {
	// Follow subscribes to a conversation: a snapshot, then all changes after it, in order, once each. ctx lives as
	// long as the subscription.
	Follow(ctx context.Context, conversationID string, sink follow.Sink) (snapshot *conversationpb.Snapshot, cancel func(), err error)
	// Events returns a page of the log after a seq, and the newest seq of the whole log.
	Events(ctx context.Context, conversationID string, after uint64, limit int) (events []*conversationpb.Event, last uint64, err error)
}

// Run is the active run of a conversation and its text so far.
type Run struct {
	ID          string
	UserMessage *conversationpb.Message
	Text        []byte // valid during the call only
}

// EndReason is why the server ends a stream early.
type EndReason int

// Reasons to end a stream early.
const (
	Stopping     EndReason = iota // the node stops: the client may continue at another node, or here later
	Deleted                       // the conversation was deleted
	Lost                          // the conversation cannot be reached
	Unauthorized                  // the client's token is no longer valid
	Forbidden                     // the client's token no longer grants access
)

// View renders the frames of a stream. Its methods are called one at a time, in the order of the stream, and must not
// block. A nil frame sends nothing.
type View interface {
	// Event renders a durable event. done ends the stream after the frame.
	Event(event *conversationpb.Event) (frame Frame, done bool)
	// Snapshot renders the whole text of the active run. It replaces the run's text that was sent before.
	Snapshot(run Run) Frame
	// Delta renders the text from offset on. Everything before has been sent.
	Delta(run Run, offset int) Frame
	// End renders the final frame.
	End(why EndReason) Frame
}

// Handover is a connection that has left HTTP.
type Handover struct {
	// Conn is the connection, without deadlines. Nil if it was lost meanwhile.
	Conn net.Conn
	// Head holds complete header lines for the response.
	Head []byte
	// Release is called once the stream is over.
	Release func()
	// Reuse, when set, returns the connection to HTTP after a clean end. It must not block. Without it the connection
	// is closed, even if the client is just sending its next request on it.
	Reuse func(net.Conn)
	// Still, when set, checks with every ping whether the client still has access: a failure (AUTH_REQUIRED or another)
	// ends the stream. It must neither block nor allocate; streams of one token share it.
	Still func() *machine.Failure
	// Plain sends the response without chunked encoding: the client speaks HTTP/1.0.
	Plain bool
}

// Options configure one stream.
type Options struct {
	// After is the seq of the last event that the client has.
	After uint64
	// Opening is sent right after the response's head.
	Opening Frame
	View    View
	// InOrder omits the opening snapshot: the running text is sent after the events that precede it, so that what the
	// run did between two pieces of text stands between them.
	InOrder bool
	// Shared means that View is a comparable value without state: a rendering is shared by all streams whose views are
	// equal.
	Shared bool
	// Lean keeps only the descriptor of the connection, which saves a kilobyte while the stream is open and costs some
	// system calls when the server ends it. It is for streams that mostly end because the client leaves.
	Lean bool
}
