package reads

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

// Entities are the kinds of entities that this node knows, by the types of their commands and of their queries.
type Entities struct {
	commands map[protoreflect.FullName]*kit.Entity
	queries  map[protoreflect.FullName]ownQuery
}

// ownQuery is a query and the kind that answers it.
type ownQuery struct {
	kit.Query
	of *kit.Entity
}

// NewEntities returns the kinds by their messages. No query is answered by two of them.
func NewEntities(kinds []kit.Entity) (*Entities, error) {
	e := &Entities{commands: map[protoreflect.FullName]*kit.Entity{}, queries: map[protoreflect.FullName]ownQuery{}}
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

// Accepts says whether a command is to an entity of this version, with an id that its kind has.
func (e *Entities) Accepts(shards shard.Map, id string, command proto.Message) error {
	kind, known := e.commands[nameOf(command)]
	if !known {
		return fmt.Errorf("this version has no entity for the command %s", nameOf(command))
	}
	if kind.Missing == nil {
		return nil
	}
	_, err := place(shards, kind, id)
	return err
}

// Read sends a query to the owner of its entity, or to the owners of all shards for a list.
func (r Route) Read(ctx context.Context, local *Answerer, query proto.Message) (proto.Message, error) {
	own, known := local.kinds.queries[nameOf(query)]
	if !known {
		return nil, fmt.Errorf("this version does not know the query %s", nameOf(query))
	}
	if own.FromLists != nil {
		return listed(ctx, r, func(ctx context.Context, from kit.Lists) (proto.Message, error) {
			return own.FromLists(ctx, from, query)
		})
	}
	in, err := place(r.Shards, own.of, own.ID(query))
	if err != nil {
		return nil, err
	}
	if here, ok := r.stale(ctx, in); ok {
		return local.local.answer(here, own, query)
	}
	answer, servedBy, err := r.Router.Read(ctx, in, query)
	endpoint.ServedBy(ctx, servedBy)
	return answer, err
}

// answer answers a query about one entity from this node's store.
func (r *Reader) answer(ctx context.Context, own ownQuery, query proto.Message) (proto.Message, error) {
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
