package sse

import (
	"context"
	"net"

	"parley/actors/core/follow"
	"parley/actors/machine"
	"parley/proto/conversationpb"
)

// Upstream is what the hub needs of the conversations. A conversation that does not exist answers with a
// *machine.Failure of code NOT_FOUND.
type Upstream interface {
	// Follow subscribes to a conversation: a snapshot, then changes right after it, in order, once each. ctx ends
	// with the subscription, not before.
	Follow(ctx context.Context, conversationID string, sink follow.Sink) (snapshot *conversationpb.Snapshot, cancel func(), err error)
	// Events returns a page of the log after a seq, and the newest seq of the whole log.
	Events(ctx context.Context, conversationID string, after uint64, limit int) (events []*conversationpb.Event, last uint64, err error)
}

// Run is the active run of a conversation and what it has said so far.
type Run struct {
	ID          string
	UserMessage *conversationpb.Message
	Text        []byte // valid during the call only
}

// Parting is why the server ends a stream that has not said everything.
type Parting int

// Partings.
const (
	Stopping     Parting = iota // the node stops: another one, or the same one later, goes on
	Deleted                     // the conversation is gone
	Lost                        // the conversation cannot be reached
	Unauthorized                // the client's token is good no more
	Forbidden                   // the client's token does not give as much any more
)

// View renders what a stream says. Its methods are called one at a time, in the order of the stream, and must not
// block. A nil frame says nothing.
type View interface {
	// Event renders a durable event. done ends the stream after the frame.
	Event(event *conversationpb.Event) (frame Frame, done bool)
	// Snapshot renders the text of the active run as a whole. It replaces what was said of the run before.
	Snapshot(run Run) Frame
	// Delta renders the text from offset on. Everything before has been said.
	Delta(run Run, offset int) Frame
	// Parting renders the last words.
	Parting(why Parting) Frame
}

// Handover is a connection that has left HTTP.
type Handover struct {
	// Conn is the connection, without deadlines. Nil means that it died on the way.
	Conn net.Conn
	// Head holds complete header lines for the response.
	Head []byte
	// Release is called once the stream is over.
	Release func()
	// Reuse, when set, takes the connection back to HTTP after a clean end. It must not block. Without it the connection is
	// closed, under a client that may just be asking for something else on it.
	Reuse func(net.Conn)
	// Still, when set, is asked with every ping: a failure, AUTH_REQUIRED or what else refuses the client now, ends the
	// stream. It must neither block nor allocate; streams of one token share it.
	Still func() *machine.Failure
	// Plain has the response without chunks: the client speaks HTTP/1.0.
	Plain bool
}

// Options say what a stream follows.
type Options struct {
	// After is the seq of the last event that the client has.
	After uint64
	// Opening is sent right after the response's head.
	Opening Frame
	View    View
	// InOrder leaves the opening snapshot out: the running text is said once the events that came before have been
	// told, so that what the run did between two pieces of text stands between them.
	InOrder bool
	// Shared says that View is a comparable value without state: what is rendered once serves all streams whose
	// views are equal.
	Shared bool
	// Lean keeps nothing of the connection but its descriptor, which is a kilobyte less while the stream is open and some
	// system calls more when it ends: for streams that hardly ever do so but with their clients.
	Lean bool
}
