package node

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	"parley/cluster"
	"parley/cluster/shard"
	"parley/httpedge/endpoint"
	"parley/persistence"
	"parley/proto/conversationpb"
	"parley/proto/nodepb"
)

// answerer answers the queries of shards that this node owns, its own edge's and those of other nodes.
type answerer struct{ local *reader }

// Read answers one query.
func (a *answerer) Read(ctx context.Context, in uint32, query proto.Message) (proto.Message, error) {
	switch q := query.(type) {
	case *nodepb.StateQuery:
		state, err := a.local.State(ctx, q.GetId())
		if err != nil {
			return nil, err
		}
		return &nodepb.StateReply{State: state}, nil
	case *nodepb.MessagesQuery:
		page, err := a.local.Messages(ctx, endpoint.MessageQuery{
			ConversationID: q.GetId(), Before: q.GetBefore(), After: q.GetAfter(),
			Offset: int(q.GetOffset()), Limit: int(q.GetLimit()), Descending: q.GetDescending(),
		})
		if err != nil {
			return nil, err
		}
		return &nodepb.MessagesReply{
			State: page.State, Messages: page.Messages, MoreBefore: page.HasMoreBefore, MoreAfter: page.HasMoreAfter,
		}, nil
	case *nodepb.MessageQuery:
		found, err := a.local.Message(ctx, q.GetId(), q.GetMessageId())
		if err != nil {
			return nil, err
		}
		return &nodepb.MessageReply{State: found.State, Message: found.Message, InReplyTo: found.InReplyTo}, nil
	case *nodepb.EventsQuery:
		page, err := a.local.Events(ctx, endpoint.EventQuery{
			ConversationID: q.GetId(), After: q.GetAfter(), Types: q.GetTypes(), Limit: int(q.GetLimit()),
		})
		if err != nil {
			return nil, err
		}
		return &nodepb.EventsReply{Events: page.Events, HasMore: page.HasMore, LastSeq: page.LastSeq}, nil
	case *nodepb.TaskQuery:
		return a.local.Task(ctx, q)
	case *nodepb.RunQuery:
		return a.local.Run(ctx, q)
	case *nodepb.ListQuery:
		return a.list(ctx, q)
	case *nodepb.HeadsQuery:
		return a.heads(ctx, q)
	case *nodepb.SumsQuery:
		return a.sums(ctx, q)
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

// list reads this node's part of a list.
func (a *answerer) list(ctx context.Context, q *nodepb.ListQuery) (*nodepb.ListReply, error) {
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

// routed is the edge's endpoint.Reader: every read goes to the owner of what it reads.
type routed struct {
	route
	local *reader
}

// State returns a conversation's head, or a NOT_FOUND failure.
func (r *routed) State(ctx context.Context, id string) (*conversationpb.State, error) {
	if here, ok := r.stale(ctx, id); ok {
		return r.local.State(here, id)
	}
	reply, err := ask[*nodepb.StateReply](ctx, r.route, id, &nodepb.StateQuery{Id: id})
	if err != nil {
		return nil, err
	}
	return reply.GetState(), nil
}

// Messages returns a page of messages and the head of the same moment.
func (r *routed) Messages(ctx context.Context, query endpoint.MessageQuery) (*endpoint.MessagePage, error) {
	if here, ok := r.stale(ctx, query.ConversationID); ok {
		return r.local.Messages(here, query)
	}
	reply, err := ask[*nodepb.MessagesReply](ctx, r.route, query.ConversationID, &nodepb.MessagesQuery{
		Id: query.ConversationID, Before: query.Before, After: query.After,
		Offset: int64(query.Offset), Limit: uint32(query.Limit), Descending: query.Descending,
	})
	if err != nil {
		return nil, err
	}
	return &endpoint.MessagePage{
		State: reply.GetState(), Messages: reply.GetMessages(),
		HasMoreBefore: reply.GetMoreBefore(), HasMoreAfter: reply.GetMoreAfter(),
	}, nil
}

// Events returns a page of the event log.
func (r *routed) Events(ctx context.Context, query endpoint.EventQuery) (*endpoint.EventPage, error) {
	if here, ok := r.stale(ctx, query.ConversationID); ok {
		return r.local.Events(here, query)
	}
	reply, err := ask[*nodepb.EventsReply](ctx, r.route, query.ConversationID, &nodepb.EventsQuery{
		Id: query.ConversationID, After: query.After, Types: query.Types, Limit: uint32(query.Limit),
	})
	if err != nil {
		return nil, err
	}
	return &endpoint.EventPage{Events: reply.GetEvents(), HasMore: reply.GetHasMore(), LastSeq: reply.GetLastSeq()}, nil
}

// Conversations lists one user's conversations. While this node owns every shard, it need not ask anybody.
func (r *routed) Conversations(ctx context.Context, query endpoint.ListQuery) (*endpoint.ListPage, error) {
	return listed(ctx, r.route, func(ctx context.Context, from rows) (*endpoint.ListPage, error) {
		return listConversations(ctx, from, query)
	})
}

// route is the way to the owners.
type route struct {
	node   string
	router *cluster.Router
	owners *cluster.Owners
	shards shard.Map
	store  *persistence.Store
}

func (r *route) owns(group uint32) bool {
	owner, known := r.owners.Owner(shard.ID(group))
	return known && owner.Node == r.node
}

func (r *route) holdsAll(holds func(group uint32) bool) bool {
	for in := range r.shards.Count() {
		if !holds(uint32(in + 1)) {
			return false
		}
	}
	return true
}

// stale says whether the caller wants what this node has, old or not, and returns the context to read it with.
func (r *route) stale(ctx context.Context, id string) (context.Context, bool) {
	in, valid := r.shards.Of(id)
	if !valid || !endpoint.StaleAllowed(ctx) || !r.store.Hosts(uint32(in)) {
		return ctx, false
	}
	endpoint.ServedStale(ctx)
	return persistence.WithStale(ctx), true
}

// ask sends a query to the owner of a conversation.
func ask[R proto.Message](ctx context.Context, r route, id string, query proto.Message) (reply R, err error) {
	in, valid := r.shards.Of(id)
	if !valid {
		return reply, notFound()
	}
	reply, node, err := askShard[R](ctx, r.router, in, query)
	endpoint.ServedBy(ctx, node)
	return reply, err
}

// askShard sends a query to the owner of a shard, and says which node answered.
func askShard[R proto.Message](
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
