// Package entity is how everything outside an entity's shard reaches it: a client takes commands and queries to the entity's owner,
// wherever that is, and brings back the reply. What there is to ask is the protobuf messages of the entity's kind; an error is a
// *machine.Failure (errors.As) when the rules refused, anything else is what broke on the way.
package entity

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"
)

// Client reaches entities of every kind.
type Client interface {
	// Ask gives an entity a command and returns its reply.
	Ask(ctx context.Context, id string, command proto.Message) (proto.Message, error)
	// Read answers a query: about the entity that its message names, or over all shards.
	Read(ctx context.Context, query proto.Message) (proto.Message, error)
}

// Ask gives an entity a command and returns its reply, which is an R.
func Ask[R proto.Message](ctx context.Context, client Client, id string, command proto.Message) (reply R, err error) {
	answer, err := client.Ask(ctx, id, command)
	if err != nil {
		return reply, err
	}
	return as[R](command, answer)
}

// Read answers a query with an R.
func Read[R proto.Message](ctx context.Context, client Client, query proto.Message) (reply R, err error) {
	answer, err := client.Read(ctx, query)
	if err != nil {
		return reply, err
	}
	return as[R](query, answer)
}

func as[R proto.Message](asked, answer proto.Message) (R, error) {
	reply, ok := answer.(R)
	if !ok {
		return reply, fmt.Errorf("a %T was answered with a %T", asked, answer)
	}
	return reply, nil
}
