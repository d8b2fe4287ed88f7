package node

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/entity"
	"parley/cluster"
	"parley/cluster/shard"
	"parley/httpedge/endpoint"
	"parley/persistence"
	"parley/proto/conversationpb"
	"parley/proto/nodepb"
)

// answerer answers the queries of shards that this node owns, its own edge's and those of other nodes.
type answerer struct {
	local *reader
	kinds *entities
}

// Read answers one query.
func (a *answerer) Read(ctx context.Context, in uint32, query proto.Message) (proto.Message, error) {
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

// routed is the client as the edge's endpoint.Reader.
type routed struct{ entity.Client }

// State returns a conversation's head, or a NOT_FOUND failure.
func (r *routed) State(ctx context.Context, id string) (*conversationpb.State, error) {
	reply, err := entity.Read[*nodepb.StateReply](ctx, r, &nodepb.StateQuery{Id: id})
	return reply.GetState(), err
}

// Messages returns a page of messages and the head of the same moment.
func (r *routed) Messages(ctx context.Context, query endpoint.MessageQuery) (*endpoint.MessagePage, error) {
	reply, err := entity.Read[*nodepb.MessagesReply](ctx, r, &nodepb.MessagesQuery{
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

// Message returns one message and what it answers.
func (r *routed) Message(ctx context.Context, conversationID, messageID string) (*endpoint.MessageView, error) {
	reply, err := entity.Read[*nodepb.MessageReply](ctx, r, &nodepb.MessageQuery{Id: conversationID, MessageId: messageID})
	if err != nil {
		return nil, err
	}
	return &endpoint.MessageView{State: reply.GetState(), Message: reply.GetMessage(), InReplyTo: reply.GetInReplyTo()}, nil
}

// Events returns a page of the event log.
func (r *routed) Events(ctx context.Context, query endpoint.EventQuery) (*endpoint.EventPage, error) {
	reply, err := entity.Read[*nodepb.EventsReply](ctx, r, &nodepb.EventsQuery{
		Id: query.ConversationID, After: query.After, Types: query.Types, Limit: uint32(query.Limit),
	})
	if err != nil {
		return nil, err
	}
	return &endpoint.EventPage{Events: reply.GetEvents(), HasMore: reply.GetHasMore(), LastSeq: reply.GetLastSeq()}, nil
}

// Conversations lists one user's conversations.
func (r *routed) Conversations(ctx context.Context, query endpoint.ListQuery) (*endpoint.ListPage, error) {
	reply, err := entity.Read[*conversationpb.ConversationsReply](ctx, r, &conversationpb.ConversationsQuery{
		TenantId: query.TenantID, ProjectId: query.ProjectID, UserId: query.UserID, AgentId: query.AgentID, ByUpdated: query.ByUpdated,
		Ascending: query.Ascending, PinnedFirst: query.PinnedFirst, Limit: int64(query.Limit), Offset: int64(query.Offset),
	})
	if err != nil {
		return nil, err
	}
	return &endpoint.ListPage{Conversations: reply.GetConversations(), Total: int(reply.GetTotal())}, nil
}

// Sessions returns a page of a project's sessions, the newest first.
func (r *routed) Sessions(ctx context.Context, query endpoint.SessionQuery) (*endpoint.SessionPage, error) {
	read := &conversationpb.SessionsQuery{
		TenantId: query.TenantID, ProjectId: query.ProjectID, Anybody: query.Anybody, UserId: query.UserID, AgentId: query.AgentID,
		Status: query.Status, Limit: int64(query.Limit),
	}
	if query.After != nil {
		read.After = &conversationpb.SessionCursor{CreatedAt: query.After.CreatedAt, Id: query.After.ID}
	}
	reply, err := entity.Read[*conversationpb.SessionsReply](ctx, r, read)
	if err != nil {
		return nil, err
	}
	page := &endpoint.SessionPage{Sessions: reply.GetSessions()}
	if next := reply.GetNext(); next != nil {
		page.Next = &endpoint.SessionCursor{CreatedAt: next.GetCreatedAt(), ID: next.GetId()}
	}
	return page, nil
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

// stale says whether the caller wants what this node has of a shard, old or not, and returns the context to read it with.
func (r *route) stale(ctx context.Context, in shard.ID) (context.Context, bool) {
	if !endpoint.StaleAllowed(ctx) || !r.store.Hosts(uint32(in)) {
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
