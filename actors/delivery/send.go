package delivery

import (
	"context"

	"google.golang.org/protobuf/proto"

	"parley/actors/kit"
	"parley/proto/deliverypb"
)

// TimeFormat is how the bodies of callbacks write times.
const TimeFormat = "2006-01-02T15:04:05.000Z"

// Message is what an attempt posts.
type Message struct {
	Body   []byte            // JSON
	Secret string            // signs the body; empty = not signed
	Header map[string]string // besides what every callback has
}

// Attempt is one attempt of a delivery: where it goes, how its message is made, and the owner's command that reports it. The functions
// are called when there is room for the attempt.
type Attempt struct {
	Delivery *deliverypb.Delivery // as it is tried now
	URL      string
	Tenant   string // who has asked for it; the node's room is shared by tenant first, then by target
	Compose  func() (Message, error)
	Report   func(*deliverypb.Report) proto.Message
	Do       Do // makes the attempt instead of a post to URL, which then only names its target; nil = it is posted
}

// Do makes an attempt. It returns what came of it, and the outcome as it is counted.
type Do func(ctx context.Context) (report *deliverypb.Report, outcome string)

// Sender makes the attempts of one kind of entities.
type Sender interface {
	// Send has an attempt made as soon as there is room, and reported to its owner.
	Send(owner kit.Ref, attempt Attempt)
	// Release says that this node does not own a shard under epochs up to this one; for kit.Entity.OnRelease.
	Release(shard uint32, epoch uint64)
	// Stop ends all attempts; for kit.Entity.Drain.
	Stop()
}
