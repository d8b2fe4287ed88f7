package kit

import (
	"context"

	"google.golang.org/protobuf/proto"

	"parley/actors/machine"
)

// Entity is one kind of entity, whole: its rules, what their effects do, its reads and its due times. The functions are called
// on the entity's own goroutine and must not block, but for Finish and Drain; all but Machine may be nil.
type Entity struct {
	Machine machine.Machine
	// Command is an empty command of this kind: a client's commands find their kind by its type.
	Command proto.Message
	// Missing is the failure for an id that names no entity of this kind.
	Missing func() *machine.Failure
	// Queries are the reads of one entity, at one moment, and of the lists over all shards.
	Queries []Query

	// Perform runs an effect, Urgent or after commit. The command it returns, if any, is the next one of the entity:
	// for what turned out at once, e.g. that a turn could not start.
	Perform func(at Ref, effect machine.Effect) proto.Message
	// OnCommit is called with what became durable, after the reply and before the effects.
	OnCommit func(commit Commit)
	// OnLoad is called with the state whenever it was read from the journal, before anything is decided on it. It may be ahead
	// of what OnCommit was called with: an append whose outcome was not known has happened after all.
	OnLoad func(at Ref, state proto.Message)
	// OnRelease says that the node no longer owns a shard under epochs up to this one: whatever runs there stops. It
	// may be called twice for the same epoch, and from any goroutine.
	OnRelease func(shard uint32, epoch uint64)
	// Starts says that a command begins something that Finish would wait for. While a shard is being drained such
	// commands are held first, all others later. Nil means that none does.
	Starts func(command proto.Message) bool
	// Finish waits until nothing of a shard runs outside any more, or ctx ends.
	Finish func(ctx context.Context, shard uint32)
	// Creates says that a command makes its entity, under an id that was minted for it. Nil means that none does: each
	// entity's first command then reads its head record.
	Creates func(command proto.Message) bool
	// Busy says whether something of the entity goes on outside, e.g. a turn. A busy entity stays active.
	Busy func(state proto.Message) bool
	// Lost says of a busy entity that nobody is at work on it here, though its state says so, e.g. because the work was given
	// up after a failure. It is looked for now and then (actors.Config.RecoverEvery), and what is found begins again as after a
	// new activation. Nil: that never happens.
	Lost func(at Ref, state proto.Message) bool
	// Running names the list of the entities that have something open outside, e.g. a turn: a new owner of their shard
	// activates them. Empty means that none ever has.
	Running string
	// Due is how time comes to entities that are not active, the zero value: not at all.
	Due Due
	// Drain is called by System.Stop before anything else ends: let what runs finish until ctx ends, then abandon it.
	Drain func(ctx context.Context)
}

// Due is a list of entities by the time at which something is to be done for them, in Unix ms. While a shard is owned,
// each that is due is given a command about once a second, until the command has moved its row or removed it.
type Due struct {
	List    string
	Command func(id string) proto.Message
}

// Commander gives commands to the entities of a shard, for a Ref.
type Commander interface {
	// AskInside gives an entity a command of its own, also while the system is stopping.
	AskInside(ctx context.Context, shard uint32, id string, command proto.Message) (proto.Message, error)
	// AskOutside gives an entity a command as if from outside: it is held during a hand-over.
	AskOutside(ctx context.Context, shard uint32, id string, command proto.Message) (proto.Message, error)
}

// Ref is a live entity as its effects and workers know it: where an effect comes from, and how it reports back.
type Ref struct {
	Shard uint32
	Epoch uint64
	ID    string

	commander Commander
}

// NewRef returns a reference. Only the shell makes them.
func NewRef(shard uint32, epoch uint64, id string, commander Commander) Ref {
	return Ref{Shard: shard, Epoch: epoch, ID: id, commander: commander}
}

// Ask sends a command to the entity, also while the system is stopping. Not for use in Perform, which would wait for
// itself.
func (r Ref) Ask(ctx context.Context, command proto.Message) (proto.Message, error) {
	return r.commander.AskInside(ctx, r.Shard, r.ID, command)
}

// Tell sends a command to another entity of the same shard, as if from outside: it is held during a hand-over. Not for
// use in Perform either.
func (r Ref) Tell(ctx context.Context, id string, command proto.Message) (proto.Message, error) {
	return r.commander.AskOutside(ctx, r.Shard, id, command)
}

// Commit is a durable change of an entity. Before is nil on create, After on delete. All of it is shared: only read.
type Commit struct {
	Ref

	Before, After proto.Message
	Events        []proto.Message
}
