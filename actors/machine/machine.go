// Package machine is the contract between the rules of an entity and the shell that runs them.
//
// An entity's rules are pure: Decide looks at the state and a command and says which events happened, what to do
// once they are durable, and what to answer; Evolve folds events into the next state; Project derives the rows of
// storage. No clock, randomness, I/O, lock or log: time and ids arrive in Env. The shell (package actors) loads, decides,
// appends, and only after the append has returned replies, notifies followers and runs effects.
//
// When the rules say no they return a *Failure, never an error: errors mean that something broke.
package machine

import (
	"time"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/failure"
	"parley/proto/logpb"
)

// Env is the only input of the rules besides the state and the command.
type Env struct {
	Now   time.Time
	Node  string // node that decides
	Epoch uint64 // of the ownership of the entity's shard
	// EpochSince is when the node learned that it owns the shard under Epoch. Zero: long ago.
	EpochSince time.Time
	// Survived reports whether an earlier epoch of the shard is known not to have ended by a crash of its owner: the owner
	// handed the shard over, or is this process. nil = no epoch is known to.
	Survived func(epoch uint64) bool
	// NewID mints an id of a kind ("msg", "run", "act") that routes to the entity's shard.
	NewID func(kind string) string
}

// Machine is the rules of one kind of entity. State, commands, events and replies are protobuf messages of that kind.
type Machine interface {
	// Kind is the id prefix without underscore, e.g. "conv".
	Kind() string
	// NewState returns the empty state into which a stored head is decoded.
	NewState() proto.Message
	// Seq returns the newest event's seq in the state.
	Seq(state proto.Message) uint64
	// Decide applies the rules. A nil state means that the entity does not exist.
	Decide(state, command proto.Message, env Env) (Decision, *Failure)
	// Evolve returns the state after the events. It never fails, and leaves the given state as it was.
	Evolve(state proto.Message, events []proto.Message) proto.Message
	// Project adds the rows of storage that change to the append: items, listings, counts. before is nil on create, after
	// is nil on delete.
	Project(before, after proto.Message, events []proto.Message, into *logpb.Append)
	// OnActivate returns the command with which a freshly loaded entity must begin (recovery), or nil.
	OnActivate(state proto.Message, env Env) proto.Message
}

// Decision is the result of Decide. It is carried out in this order: Urgent effects, append of Events, Reply and Settle,
// notification of followers, Effects.
type Decision struct {
	// Events happened. They carry their seq and time. None means that nothing needs to be durable.
	Events []proto.Message
	// Create says that the entity must not exist yet; Delete that it ends with this decision.
	Create, Delete bool
	// Urgent effects run before the append, whatever its outcome. Only for what is always safe: stopping a turn.
	Urgent []Effect
	// Effects run after the append, in order; never when it fails.
	Effects []Effect
	// Reply answers the sender. With Wait set there is no reply yet: a later decision settles the key, or the
	// sender's deadline ends.
	Reply proto.Message
	Wait  string
	// IfUnwritten answers the sender instead of a failure when Urgent has run but the Events could not be made durable
	// in time: a cancel has stopped the turn even if the disk is full. Only for what Urgent alone makes true. It is
	// not used when another node owns the entity now: the command goes there.
	IfUnwritten proto.Message
	// Settle answers the callers that wait for a key.
	Settle []Settlement
}

// Settlement answers everyone who waits for Key, with Reply or Failure.
type Settlement struct {
	Key     string
	Reply   proto.Message
	Failure *Failure
}

// Effect is something to do in the world: a value of the entity's own effect types, or a Timer.
type Effect any

// Timer asks the shell to send Command to the entity after a delay. It is lost when the activation ends: a time that must
// survive is a due row in storage.
type Timer struct {
	After   time.Duration
	Command proto.Message
	// Key, if not empty, replaces the entity's timer of the same key: where only the newest one matters, so that what is
	// over does not pile up.
	Key string
}

// Failure is an answer that says no. New code names it failure.Failure.
type Failure = failure.Failure
