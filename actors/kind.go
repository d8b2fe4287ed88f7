package actors

import (
	"context"

	"google.golang.org/protobuf/proto"

	"parley/actors/kit"
)

// Package kit describes what the shell runs.
type (
	// Kind is one kind of entity.
	Kind = kit.Entity
	// Due is the list of due times of a kind's entities.
	Due = kit.Due
	// Entity is a live entity.
	Entity = kit.Ref
	// Commit is a durable change of an entity.
	Commit = kit.Commit
)

// commander lets entities send commands to each other through the system.
type commander struct{ *System }

// AskInside implements kit.Commander.
func (c commander) AskInside(ctx context.Context, shard uint32, id string, command proto.Message) (proto.Message, error) {
	return c.ask(ctx, shard, inside(id, command))
}

// AskOutside implements kit.Commander.
func (c commander) AskOutside(ctx context.Context, shard uint32, id string, command proto.Message) (proto.Message, error) {
	return c.ask(ctx, shard, outside(id, command))
}
