package kit

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/actors/machine"
)

// Entity declares one kind of entity: its rules, effects, queries and due times. The functions are called on the entity's own
// goroutine and must not block, except Finish and Drain; all but Machine may be nil.
type Entity struct {
	Machine machine.Machine
	// Unkept means that events are not kept in the log: for entities that live long and whose rows hold all there is to know.
	Unkept bool
	// Command is an empty command of this kind: a client's commands find their kind by its type.
	Command proto.Message
	// Missing is the failure for an id that names no entity of this kind.
	Missing func() *machine.Failure
	// Queries are the reads of one entity, at one moment, and of the lists over all shards.
	Queries []Query

	// Tells returns the notices of a durable change, for webhooks (package subscription). It is called for every change and must
	// be cheap. Nil means that there are none.
	Tells func(before, after proto.Message, events []proto.Message) []Notice
	// Perform runs an effect, urgent or after the commit. The command it returns, if any, is the entity's next one, e.g. to
	// report at once that a turn could not start.
	Perform func(at Ref, effect machine.Effect) proto.Message
	// OnCommit is called with each durable change, after the reply and before the effects.
	OnCommit func(commit Commit)
	// OnLoad is called with the state whenever it was read from the journal, before anything is decided on it. It may be ahead
	// of what OnCommit was called with: an append whose outcome was not known has happened after all.
	OnLoad func(at Ref, state proto.Message)
	// OnRelease is called when the node no longer owns a shard under epochs up to this one, and must stop what runs there. It
	// may be called twice for the same epoch, and from any goroutine.
	OnRelease func(shard uint32, epoch uint64)
	// WhileStopping has commands of this kind decided while the node stops and what runs on it is waited for: it tells this entity how it
	// ended. All other commands are refused then.
	WhileStopping bool
	// Starts reports whether a command starts work that Finish would wait for. While a shard is being drained such commands
	// are held first, all others later. Nil means that no command does.
	Starts func(command proto.Message) bool
	// Finish waits until nothing of a shard runs outside any more, or ctx ends.
	Finish func(ctx context.Context, shard uint32)
	// Underway is how many of those a shard has.
	Underway func(shard uint32) int
	// Creates reports whether a command creates its entity under an id that was minted for it, so that the read of the head
	// record can be skipped. Nil means that no command does.
	Creates func(command proto.Message) bool
	// Busy reports whether the entity has work in progress outside, e.g. a turn. A busy entity stays active.
	Busy func(state proto.Message) bool
	// Lost reports whether the work of a busy entity is not running here although its state says so, e.g. because it was
	// abandoned after an error. Lost work is searched for every actors.Config.RecoverEvery and restarted as after a new
	// activation. Nil: work is never lost.
	Lost func(at Ref, state proto.Message) bool
	// Running names the list of the entities that have work in progress outside, e.g. a turn: a new owner of their shard
	// activates them. Empty means that none ever has.
	Running string
	// Due is the list of due times; the zero value means that the entities have none.
	Due Due
	// Drain is called by System.Stop before anything else ends: work may finish until ctx ends and is then abandoned.
	Drain func(ctx context.Context)
}

// Poster posts what entities have to tell other servers.
type Poster interface {
	// Release ends the attempts of a shard's entities under epochs up to the given one.
	Release(shard uint32, epoch uint64)
	// Stop ends all attempts.
	Stop()
}

// WorkedBy sets Lost, OnRelease and Drain of an entity whose work, if its state is worked on, runs in a pool and whose messages a poster
// sends: both end with the ownership of a shard and with the node.
func (e Entity) WorkedBy(pool Pool, messages Poster, worked func(state proto.Message) bool) Entity {
	e.Lost = func(at Ref, state proto.Message) bool { return worked(state) && !pool.Working(at) }
	e.OnRelease = func(shard uint32, epoch uint64) {
		pool.Release(shard, epoch)
		messages.Release(shard, epoch)
	}
	e.Drain = func(ctx context.Context) {
		pool.Drain(ctx)
		messages.Stop()
	}
	return e
}

// Is adapts a predicate on one message type to any message: it returns false for all other types.
func Is[M proto.Message](is func(M) bool) func(proto.Message) bool {
	return func(message proto.Message) bool {
		m, ok := message.(M)
		return ok && is(m)
	}
}

// Notice is what may be told of a change: an event of a tenant's project.
type Notice struct {
	TenantID, ProjectID string
	Type                string // of package subscription's catalogue
	About               string // notices about the same thing are told in their order
	At                  int64  // Unix milliseconds
	Data                any    // small: ids, names and numbers; marshalled when somebody listens
}

// Due is a list of entities ordered by due time, in Unix ms. While a shard is owned, each due entity is sent the command about
// once a second, until the command has moved or removed its row.
type Due struct {
	List    string
	Command func(id string) proto.Message
	// Ahead is for how long after this a new owner of a shard activates entities that are due then. They are due so late because
	// somebody was to report on an attempt of the former owner. 0 = none are.
	Ahead time.Duration
}

// Commander sends commands to the entities of a shard, for a Ref.
type Commander interface {
	// AskInside gives an entity a command of its own, also while the system is stopping.
	AskInside(ctx context.Context, shard uint32, id string, command proto.Message) (proto.Message, error)
	// AskOutside gives an entity a command as if from outside: it is held during a hand-over.
	AskOutside(ctx context.Context, shard uint32, id string, command proto.Message) (proto.Message, error)
}

// Ref refers to an active entity. Effects and workers use it to identify the entity and to report back to it.
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
