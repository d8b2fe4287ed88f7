package node

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"parley/actors/kit"
	"parley/cluster/shard"
	"parley/httpedge/endpoint"
	"parley/persistence"
)

// entities are the kinds of entities that this node knows, by the types of their commands and of their queries.
type entities struct {
	commands map[protoreflect.FullName]*kit.Entity
	queries  map[protoreflect.FullName]ownQuery
}

// ownQuery is a query and the kind that answers it.
type ownQuery struct {
	kit.Query
	of *kit.Entity
}

func newEntities(kinds []kit.Entity) (*entities, error) {
	e := &entities{commands: map[protoreflect.FullName]*kit.Entity{}, queries: map[protoreflect.FullName]ownQuery{}}
	for i := range kinds {
		kind := &kinds[i]
		if kind.Command != nil {
			e.commands[nameOf(kind.Command)] = kind
		}
		for _, query := range kind.Queries {
			if _, taken := e.queries[query.Message]; taken {
				return nil, fmt.Errorf("the query %s is answered twice", query.Message)
			}
			e.queries[query.Message] = ownQuery{query, kind}
		}
	}
	return e, nil
}

func nameOf(message proto.Message) protoreflect.FullName {
	return message.ProtoReflect().Descriptor().FullName()
}

// place returns the shard of an entity of a kind, or the kind's not-found failure if the id is not one of it.
func place(shards shard.Map, of *kit.Entity, id string) (shard.ID, error) {
	in, valid := shards.Of(id)
	if !valid || !strings.HasPrefix(id, of.Machine.Kind()+"_") {
		return 0, of.Missing()
	}
	return in, nil
}

// client implements entity.Client over the router, for this node's edge and its own entities.
type client struct{ node *Node }

// Ask routes a command to its entity's owner.
func (c *client) Ask(ctx context.Context, id string, command proto.Message) (proto.Message, error) {
	kind, known := c.node.shell.kinds.commands[nameOf(command)]
	if !known {
		return nil, fmt.Errorf("this version has no entity for the command %s", nameOf(command))
	}
	if kind.Missing != nil {
		if _, err := place(c.node.shards, kind, id); err != nil {
			return nil, err
		}
	}
	reply, servedBy, err := c.node.router.Ask(ctx, id, command)
	endpoint.ServedBy(ctx, servedBy)
	return reply, err
}

// Read sends a query to the owner of its entity, or to the owners of all shards for a list.
func (c *client) Read(ctx context.Context, query proto.Message) (proto.Message, error) {
	own, known := c.node.shell.kinds.queries[nameOf(query)]
	if !known {
		return nil, fmt.Errorf("this version does not know the query %s", nameOf(query))
	}
	way := c.node.route()
	if own.FromLists != nil {
		return listed(ctx, way, func(ctx context.Context, from kit.Lists) (proto.Message, error) {
			return own.FromLists(ctx, from, query)
		})
	}
	in, err := place(way.shards, own.of, own.ID(query))
	if err != nil {
		return nil, err
	}
	if here, ok := way.stale(ctx, in); ok {
		return c.node.shell.reads.answer(here, own, query)
	}
	answer, servedBy, err := way.router.Read(ctx, in, query)
	endpoint.ServedBy(ctx, servedBy)
	return answer, err
}

// answer answers a query about one entity from this node's store.
func (r *reader) answer(ctx context.Context, own ownQuery, query proto.Message) (proto.Message, error) {
	id := own.ID(query)
	in, err := place(r.shards, own.of, id)
	if err != nil {
		return nil, err
	}
	if own.FromHead != nil {
		stored, found, failed := r.store.Head(ctx, uint32(in), id)
		switch {
		case failed != nil:
			return nil, readFault("read head", failed)
		case !found:
			return nil, own.of.Missing()
		}
		return own.FromHead(stored.Value, query)
	}
	view, head, err := r.viewOf(ctx, uint32(in), id, own.of.Missing)
	if err != nil {
		return nil, err
	}
	defer func() { _ = view.Close() }() // closing a snapshot loses nothing
	return own.FromView(moment{view}, kit.Head{State: head.Value, Seq: head.Seq}, query)
}

// moment implements kit.View over a snapshot of the store.
type moment struct{ view *persistence.View }

// Head implements kit.View.
func (m moment) Head(id string) (head kit.Head, found bool, err error) {
	stored, found, err := m.view.Head(id)
	return kit.Head{State: stored.Value, Seq: stored.Seq}, found, readError("read head", err)
}

// Item implements kit.View.
func (m moment) Item(id string, table uint8, key []byte) (value []byte, found bool, err error) {
	value, found, err = m.view.Item(id, table, key)
	return value, found, readError("read row", err)
}

// Items implements kit.View.
func (m moment) Items(id string, query kit.ItemQuery, visit func(key, value []byte) (more bool)) error {
	return readError("read rows", m.view.Items(id, persistence.ItemQuery{
		Table: query.Table, From: query.From, To: query.To, Descending: query.Descending, Limit: query.Limit,
	}, visit))
}

// Events implements kit.View.
func (m moment) Events(id string, after uint64, visit func(seq uint64, value []byte) (more bool)) error {
	return readError("read events", m.view.Events(id, after, 0, visit))
}

func readError(what string, err error) error {
	if err == nil {
		return nil
	}
	return readFault(what, err)
}
