package actors

import (
	"context"

	"google.golang.org/protobuf/proto"

	"parley/actors/kit"
)

// What the shell runs is described in package kit.
type (
	// Kind is one kind of entity.
	Kind = kit.Entity
	// Due is how time comes to the entities of a kind.
	Due = kit.Due
	// Entity is a live entity.
	Entity = kit.Ref
	// Commit is a durable change of an entity.
	Commit = kit.Commit
)

// commander is the system as entities give commands to each other.
type commander struct{ *System }

// AskInside implements kit.Commander.
func (c commander) AskInside(ctx context.Context, shard uint32, id string, command proto.Message) (proto.Message, error) {
	return c.ask(ctx, shard, inside(id, command))
}

// AskOutside implements kit.Commander.
func (c commander) AskOutside(ctx context.Context, shard uint32, id string, command proto.Message) (proto.Message, error) {
	return c.ask(ctx, shard, outside(id, command))
}
