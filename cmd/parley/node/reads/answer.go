// Package reads answers queries: from this node's store where it may, else from the owners of the shards.
package reads

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	"parley/cluster"
	"parley/cluster/shard"
	"parley/httpedge/endpoint"
	"parley/persistence"
	"parley/proto/nodepb"
)

// Answerer answers queries about shards that this node owns, from its own edge and from other nodes.
type Answerer struct {
	local *Reader
	kinds *Entities
}

// NewAnswerer returns what answers queries of these kinds from a store.
func NewAnswerer(local *Reader, kinds *Entities) *Answerer {
	return &Answerer{local: local, kinds: kinds}
}

// Read answers one query.
func (a *Answerer) Read(ctx context.Context, in uint32, query proto.Message) (proto.Message, error) {
	if own, known := a.kinds.queries[nameOf(query)]; known && own.ID != nil {
		return a.local.answer(ctx, own, query)
	}
	switch q := query.(type) {
	case *nodepb.ListQuery:
		return a.list(ctx, q)
	case *nodepb.HeadsQuery:
		return a.heads(ctx, q)
	case *nodepb.SumsQuery:
		return a.sums(ctx, q)
	case *nodepb.UsageQuery:
		return a.usage(ctx, q)
	case *nodepb.SpreadQuery:
		return a.spread(ctx, q)
	case *nodepb.RecordQuery:
		return a.record(ctx, q)
	case *nodepb.VersionQuery:
		return a.version(ctx)
	}
	if answer, known, err := a.blobs(ctx, in, query); known {
		return answer, err
	}
	return nil, fmt.Errorf("this version does not know the query %s", query.ProtoReflect().Descriptor().FullName())
}

// list answers for the shards of a list that this node owns.
func (a *Answerer) list(ctx context.Context, q *nodepb.ListQuery) (*nodepb.ListReply, error) {
	reply := &nodepb.ListReply{Counts: make([]int64, len(q.GetCounters()))}
	for i, name := range q.GetCounters() {
		sum, err := a.local.store.CountShards(ctx, q.GetShards(), name)
		if err != nil {
			return nil, readFault("count conversations", err)
		}
		reply.Counts[i] = sum
	}
	if q.GetLimit() == 0 {
		return reply, nil
	}
	query := persistence.ListQuery{List: q.GetList(), Descending: q.GetDescending(), Limit: int(q.GetLimit())}
	if q.GetBehind() {
		query.After = &persistence.ListCursor{Score: q.GetAfterScore(), Member: q.GetAfterMember()}
	}
	found, err := a.local.store.ListShards(ctx, q.GetShards(), query)
	if err != nil {
		return nil, readFault("list conversations", err)
	}
	for _, row := range found {
		reply.Rows = append(reply.Rows, &nodepb.ListRow{Shard: row.Group, Score: row.Score, Member: row.Member})
	}
	return reply, nil
}

// Route finds and calls the owners of shards.
type Route struct {
	Node   string
	Router *cluster.Router
	Owners *cluster.Owners
	Shards shard.Map
	Local  *persistence.Store
}

// NewRoute returns the route of the node of that name.
func NewRoute(node string, router *cluster.Router, owners *cluster.Owners, shards shard.Map, store *persistence.Store) Route {
	return Route{Node: node, Router: router, Owners: owners, Shards: shards, Local: store}
}

func (r *Route) owns(group uint32) bool {
	owner, known := r.Owners.Owner(shard.ID(group))
	return known && owner.Node == r.Node
}

func (r *Route) holdsAll(holds func(group uint32) bool) bool {
	for in := range r.Shards.Count() {
		if !holds(uint32(in + 1)) {
			return false
		}
	}
	return true
}

// stale reports whether the caller accepts stale data and this node hosts the shard; it returns the context for that read.
func (r *Route) stale(ctx context.Context, in shard.ID) (context.Context, bool) {
	if !endpoint.StaleAllowed(ctx) || !r.Local.Hosts(uint32(in)) {
		return ctx, false
	}
	endpoint.ServedStale(ctx)
	return persistence.WithStale(ctx), true
}

// AskShard sends a query to the owner of a shard and returns the answer and the node that gave it.
func AskShard[R proto.Message](
	ctx context.Context, router *cluster.Router, in shard.ID, query proto.Message,
) (reply R, node string, err error) {
	answer, node, err := router.Read(ctx, in, query)
	if err != nil {
		return reply, node, err
	}
	reply, ok := answer.(R)
	if !ok {
		return reply, node, fmt.Errorf("a read was answered with a %T", answer)
	}
	return reply, node, nil
}
