package endpoint

import (
	"context"

	"parley/actors/core/entity"
	"parley/proto/conversationpb"
	"parley/proto/nodepb"
)

// NewReader returns the reads of conversations over a client. A new read needs no method here: ask the client with its query.
func NewReader(client entity.Client) Reader { return &reader{client} }

// reader is a client as a Reader.
type reader struct{ client entity.Client }

// State returns a conversation's head, or a NOT_FOUND failure.
func (r *reader) State(ctx context.Context, id string) (*conversationpb.State, error) {
	reply, err := entity.Read[*nodepb.StateReply](ctx, r.client, &nodepb.StateQuery{Id: id})
	return reply.GetState(), err
}

// Messages returns a page of messages and the head of the same moment.
func (r *reader) Messages(ctx context.Context, query MessageQuery) (*MessagePage, error) {
	reply, err := entity.Read[*nodepb.MessagesReply](ctx, r.client, &nodepb.MessagesQuery{
		Id: query.ConversationID, Before: query.Before, After: query.After,
		Offset: int64(query.Offset), Limit: uint32(query.Limit), Descending: query.Descending,
	})
	if err != nil {
		return nil, err
	}
	return &MessagePage{
		State: reply.GetState(), Messages: reply.GetMessages(),
		HasMoreBefore: reply.GetMoreBefore(), HasMoreAfter: reply.GetMoreAfter(),
	}, nil
}

// Message returns one message and what it answers.
func (r *reader) Message(ctx context.Context, conversationID, messageID string) (*MessageView, error) {
	reply, err := entity.Read[*nodepb.MessageReply](ctx, r.client, &nodepb.MessageQuery{Id: conversationID, MessageId: messageID})
	if err != nil {
		return nil, err
	}
	return &MessageView{State: reply.GetState(), Message: reply.GetMessage(), InReplyTo: reply.GetInReplyTo()}, nil
}

// Events returns a page of the event log.
func (r *reader) Events(ctx context.Context, query EventQuery) (*EventPage, error) {
	reply, err := entity.Read[*nodepb.EventsReply](ctx, r.client, &nodepb.EventsQuery{
		Id: query.ConversationID, After: query.After, Types: query.Types, Limit: uint32(query.Limit),
	})
	if err != nil {
		return nil, err
	}
	return &EventPage{Events: reply.GetEvents(), HasMore: reply.GetHasMore(), LastSeq: reply.GetLastSeq()}, nil
}

// Conversations lists one user's conversations.
func (r *reader) Conversations(ctx context.Context, query ListQuery) (*ListPage, error) {
	reply, err := entity.Read[*conversationpb.ConversationsReply](ctx, r.client, &conversationpb.ConversationsQuery{
		TenantId: query.TenantID, ProjectId: query.ProjectID, UserId: query.UserID, AgentId: query.AgentID, ByUpdated: query.ByUpdated,
		Ascending: query.Ascending, PinnedFirst: query.PinnedFirst, Limit: int64(query.Limit), Offset: int64(query.Offset),
	})
	if err != nil {
		return nil, err
	}
	return &ListPage{Conversations: reply.GetConversations(), Total: int(reply.GetTotal())}, nil
}
