package actors

import (
	"context"
	"errors"
	"fmt"
	"time"

	"parley/actors/core/failure"
	"parley/proto/logpb"
)

// Journal is what the shell needs of storage. Implementations are safe for concurrent use and give up when ctx ends.
// Where an error wraps none of the sentinels below, nothing is assumed about what was written. Reads are as new as the
// shard: they fail with ErrNotOwner where another node might own it by now.
type Journal interface {
	// Load returns an entity's head as of all appends acknowledged before the call; false when there is no such entity.
	Load(ctx context.Context, shard uint32, id string) (Head, bool, error)
	// Append makes an entry durable and returns what applying it said. It must not change the entry.
	Append(ctx context.Context, shard uint32, entry *logpb.Append) (*logpb.Result, error)
	// Running visits the members of a list (Kind.Running): the entities to recover after a change of owner.
	Running(ctx context.Context, shard uint32, list string, visit func(id string)) error
	// Due visits the members of a list that are due, the earliest first. It is called every second, so a stale read will
	// do.
	Due(ctx context.Context, shard uint32, query DueQuery, visit func(id string)) error
	// Listed visits rows of a list in order.
	Listed(ctx context.Context, shard uint32, query ListedQuery, visit func(ListedRow)) error
	// Confirm returns nil when this node owned the shard at some moment after the call began, so that the state it holds
	// is not stale.
	Confirm(ctx context.Context, shard uint32) error
	// Owns reports, without waiting, whether this node believes that it owns the shard under exactly this epoch. A node
	// that has lost the shard and regained it under a newer epoch before Disown and Own were called still holds stale
	// state, though Confirm succeeds.
	Owns(shard uint32, epoch uint64) bool
}

// DueQuery selects the members of a list (Kind.Due) whose score, a time in Unix ms, is not after Until, at most Limit.
type DueQuery struct {
	List  string
	Until time.Time
	Limit int
}

// ListedQuery selects rows of a list: the first, at most Limit, or the last.
type ListedQuery struct {
	List  string
	Last  bool // the last ones, the last first
	Limit int
	Stale bool // what this node has applied will do
}

// ListedRow is a row of a list.
type ListedRow struct {
	Score  int64
	Member string
	Value  []byte
}

// Head is an entity's stored state. State is only read.
type Head struct {
	Seq, Epoch uint64
	State      []byte
}

// Errors of a Journal that the shell tells apart.
var (
	// ErrNotOwner: this node does not lead the shard. Nothing was written.
	ErrNotOwner = errors.New("not the owner of the shard")
	// ErrOutcomeUnknown: the entry may or may not become durable.
	ErrOutcomeUnknown = errors.New("outcome of the append is not known")
	// ErrFull: the disk is full. Nothing was written.
	ErrFull = errors.New("storage is full")
	// ErrFailed: the store failed and refuses writes until restart. Nothing more is written by this process.
	ErrFailed = errors.New("storage has failed")
	// ErrTooLarge: the entry breaks a limit of the store, and always will. Nothing was written.
	ErrTooLarge = errors.New("entry is too large")
	// ErrBusy: too many appends are waiting. Nothing was written.
	ErrBusy = errors.New("storage is busy")
)

// NotOwnerError answers a command or a follow for a shard that this node does not own (any more). Nothing was done, or
// what was done is durable and the caller only waited (for a turn to end): the command may be sent again, to the owner,
// who answers a repeated command id with the first outcome.
type NotOwnerError struct {
	Shard uint32
	Epoch uint64 // newest epoch of the shard known here, 0 = none
}

func (e *NotOwnerError) Error() string {
	return fmt.Sprintf("not the owner of shard %d (epoch %d)", e.Shard, e.Epoch)
}

// NotOwner lets callers recognize the error without importing this package.
func (e *NotOwnerError) NotOwner() (shard uint32, epoch uint64) { return e.Shard, e.Epoch }

// UnknownOutcomeError answers a command whose append may or may not have become durable. It is safe to send the command
// again with the same command id: it is carried out once. A client gets UNAVAILABLE.
type UnknownOutcomeError struct {
	Shard uint32
	Epoch uint64 // under which it was tried
	Moved bool   // the shard is changing hands: send it again at once, to whoever owns it now
}

func (e *UnknownOutcomeError) Error() string {
	return fmt.Sprintf("outcome of a command is not known (shard %d, epoch %d, moved %t)", e.Shard, e.Epoch, e.Moved)
}

// Lost lets callers without this import recognize a command that is worth sending again at once.
func (e *UnknownOutcomeError) Lost() bool { return e.Moved }

// Unwrap returns the failure that a client gets when the command is not sent again.
func (e *UnknownOutcomeError) Unwrap() error {
	return unavailable(failure.OutcomeUnknown)
}
