// Package endpointtest has hand-written stand-ins for what the edge needs of the rest of the node: a runtime that
// answers as a test says, a store that pages in memory, a registry of agents, ids that count up, and callers.
package endpointtest

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"parley/actors/core/failure"
	"parley/actors/core/follow"
	"parley/httpedge/endpoint"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/nodepb"
)

// Runtime answers commands with OnAsk and follows with OnFollow, and remembers the commands.
type Runtime struct {
	OnAsk    func(ctx context.Context, command *conversationpb.Command) (*conversationpb.Reply, error)
	OnFollow func(ctx context.Context, conversationID string, sink follow.Sink) (*endpoint.Subscription, error)

	mu       sync.Mutex
	commands []*conversationpb.Command
}

// Ask implements endpoint.Runtime.
func (r *Runtime) Ask(ctx context.Context, command *conversationpb.Command) (*conversationpb.Reply, error) {
	r.mu.Lock()
	r.commands = append(r.commands, command)
	r.mu.Unlock()
	if r.OnAsk == nil {
		return nil, errors.New("unexpected command")
	}
	return r.OnAsk(ctx, command)
}

// Follow implements endpoint.Runtime.
func (r *Runtime) Follow(ctx context.Context, conversationID string, sink follow.Sink) (*endpoint.Subscription, error) {
	if r.OnFollow == nil {
		return nil, errors.New("unexpected follow")
	}
	return r.OnFollow(ctx, conversationID, sink)
}

// Commands returns the commands so far.
func (r *Runtime) Commands() []*conversationpb.Command {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.commands)
}

// Conversation is what the store holds of one.
type Conversation struct {
	State    *conversationpb.State
	Messages []*conversationpb.Message // oldest first
	Events   []*conversationpb.Event   // oldest first
}

// Store answers the reads of conversations from memory. The zero value is empty.
type Store struct {
	// Err, when set, is what every read answers, unless the caller accepts an old answer.
	Err error
	// Node, when set, is noted as the one that answers for a conversation.
	Node string

	mu            sync.RWMutex
	conversations map[string]*Conversation
}

// Put stores a conversation as it is.
func (s *Store) Put(c *Conversation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conversations == nil {
		s.conversations = make(map[string]*Conversation)
	}
	s.conversations[c.State.GetId()] = c
}

func (s *Store) find(ctx context.Context, id string) (*Conversation, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	switch {
	case s.Err == nil:
		endpoint.ServedBy(ctx, s.Node)
	case endpoint.StaleAllowed(ctx):
		endpoint.ServedStale(ctx)
	default:
		return nil, s.Err
	}
	c, ok := s.conversations[id]
	if !ok {
		return nil, failure.New(failurepb.Code_NOT_FOUND, failure.ConversationNotFound)
	}
	return c, nil
}

// Serve has the reads of conversations answered by the store.
func (s *Store) Serve(e Entities) {
	On(e, func(ctx context.Context, query *nodepb.StateQuery) (*nodepb.StateReply, error) {
		state, err := s.State(ctx, query.GetId())
		return &nodepb.StateReply{State: state}, err
	})
	On(e, s.Messages)
	On(e, s.Message)
	On(e, s.Events)
	On(e, s.Conversations)
}

// State is the head of a conversation.
func (s *Store) State(ctx context.Context, id string) (*conversationpb.State, error) {
	c, err := s.find(ctx, id)
	if err != nil {
		return nil, err
	}
	return c.State, nil
}

// Messages answers a page of messages.
func (s *Store) Messages(ctx context.Context, query *nodepb.MessagesQuery) (*nodepb.MessagesReply, error) {
	c, err := s.find(ctx, query.GetId())
	if err != nil {
		return nil, err
	}
	first, last, err := window(c.Messages, query)
	if err != nil {
		return nil, err
	}
	page := &nodepb.MessagesReply{
		State: c.State, Messages: slices.Clone(c.Messages[first:last]),
		MoreBefore: first > 0, MoreAfter: last < len(c.Messages),
	}
	if query.Descending {
		slices.Reverse(page.Messages)
	}
	return page, nil
}

// Message answers one message.
func (s *Store) Message(ctx context.Context, query *nodepb.MessageQuery) (*nodepb.MessageReply, error) {
	c, err := s.find(ctx, query.GetId())
	if err != nil {
		return nil, err
	}
	named := func(id string) *conversationpb.Message {
		at := slices.IndexFunc(c.Messages, func(m *conversationpb.Message) bool { return m.GetId() == id })
		if id == "" || at < 0 {
			return nil
		}
		return c.Messages[at]
	}
	message := named(query.GetMessageId())
	if message == nil {
		return nil, failure.New(failurepb.Code_NOT_FOUND, failure.MessageNotFound)
	}
	return &nodepb.MessageReply{State: c.State, Message: message, InReplyTo: named(message.GetInReplyTo())}, nil
}

// window finds the messages [first, last) of a query, counted oldest first.
func window(messages []*conversationpb.Message, query *nodepb.MessagesQuery) (first, last int, err error) {
	n, limit, offset := len(messages), int(query.GetLimit()), int(query.GetOffset())
	cursor := query.Before + query.After
	switch {
	case cursor != "":
		at := slices.IndexFunc(messages, func(m *conversationpb.Message) bool { return m.GetId() == cursor })
		if at < 0 {
			return 0, 0, failure.New(failurepb.Code_NOT_FOUND, failure.MessageNotFound)
		}
		if query.Before != "" {
			return max(0, at-limit), at, nil
		}
		return at + 1, min(n, at+1+limit), nil
	case offset < 0:
		return max(0, n-limit), n, nil
	case query.Descending:
		last = max(0, n-offset)
		return max(0, last-limit), last, nil
	default:
		first = min(n, offset)
		return first, min(n, first+limit), nil
	}
}

// Events answers a page of the log.
func (s *Store) Events(ctx context.Context, query *nodepb.EventsQuery) (*nodepb.EventsReply, error) {
	c, err := s.find(ctx, query.GetId())
	if err != nil {
		return nil, err
	}
	page := &nodepb.EventsReply{LastSeq: c.State.GetLastSeq()}
	for _, event := range c.Events {
		wanted := len(query.Types) == 0 || slices.Contains(query.Types, event.PublicType())
		if event.GetSeq() <= query.After || !wanted {
			continue
		}
		if len(page.Events) == int(query.GetLimit()) {
			page.HasMore = true
			break
		}
		page.Events = append(page.Events, event)
	}
	return page, nil
}

// Conversations answers a page of a list.
func (s *Store) Conversations(_ context.Context, query *conversationpb.ConversationsQuery) (*conversationpb.ConversationsReply, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.Err != nil {
		return nil, s.Err
	}
	var found []*conversationpb.State
	for _, c := range s.conversations {
		state := c.State
		if state.GetTenantId() == query.GetTenantId() && state.GetProjectId() == query.GetProjectId() &&
			state.GetUserId() == query.GetUserId() && (query.GetAgentId() == "" || state.GetAgentId() == query.GetAgentId()) {
			found = append(found, state)
		}
	}
	slices.SortFunc(found, func(a, b *conversationpb.State) int { return compare(a, b, query) })
	first := min(len(found), int(query.GetOffset()))
	last := min(len(found), first+int(query.GetLimit()))
	return &conversationpb.ConversationsReply{Conversations: found[first:last], Total: int64(len(found))}, nil
}

func compare(a, b *conversationpb.State, query *conversationpb.ConversationsQuery) int {
	if query.PinnedFirst && a.GetPinned() != b.GetPinned() {
		if a.GetPinned() {
			return -1
		}
		return 1
	}
	order := cmp.Compare(a.GetCreatedAt(), b.GetCreatedAt())
	if query.ByUpdated {
		order = cmp.Compare(a.GetUpdatedAt(), b.GetUpdatedAt())
	}
	order = cmp.Or(order, cmp.Compare(a.GetId(), b.GetId()))
	if query.Ascending {
		return order
	}
	return -order
}

// Agents is a fixed registry.
type Agents []*agentpb.Agent

// Agent implements endpoint.Agents.
func (a Agents) Agent(_, id string) (*agentpb.Agent, bool) {
	for _, agent := range a {
		if agent.GetId() == id {
			return agent, true
		}
	}
	return nil, false
}

// Agents implements endpoint.Agents.
func (a Agents) Agents(string) []*agentpb.Agent { return a }

// IDs counts up: conv_000000000000000000001 is the first.
type IDs struct{ last atomic.Uint64 }

// NewID implements endpoint.IDs.
func (i *IDs) NewID(kind string) string { return fmt.Sprintf("%s_%021d", kind, i.last.Add(1)) }

// NewIDFor implements endpoint.IDs.
func (i *IDs) NewIDFor(kind, _ string) string { return i.NewID(kind) }

// NewIDFrom implements endpoint.IDs.
func (*IDs) NewIDFrom(kind, text string) string {
	sum := sha256.Sum256([]byte(text))
	return kind + "_" + hex.EncodeToString(sum[:])[:21]
}

// NewIDFromFor implements endpoint.IDs.
func (i *IDs) NewIDFromFor(kind, text, _ string) string { return i.NewIDFrom(kind, text) }

// Authenticate makes a function an Authenticator.
type Authenticate func(request endpoint.Request) (endpoint.Caller, *failure.Failure)

// Authenticate implements endpoint.Authenticator.
func (f Authenticate) Authenticate(_ context.Context, request endpoint.Request) (endpoint.Caller, *failure.Failure) {
	return f(request)
}

// Off lets everybody in as a trusted caller who acts for whom the query names, as a server without authentication does.
func Off(request endpoint.Request) (endpoint.Caller, *failure.Failure) {
	return endpoint.Caller{TenantID: "t", ProjectID: "p", UserID: request.Query("userId"), Trusted: true}, nil
}

// ByToken identifies the user named by "Authorization: Bearer <user>", and refuses who names none.
func ByToken(request endpoint.Request) (endpoint.Caller, *failure.Failure) {
	const prefix = "Bearer "
	header := request.Header("Authorization")
	if len(header) <= len(prefix) {
		return endpoint.Caller{}, failure.New(failurepb.Code_AUTH_REQUIRED, failure.AuthenticationRequired)
	}
	return endpoint.Caller{TenantID: "t", ProjectID: "p", UserID: header[len(prefix):], Identified: true}, nil
}

// Talk is a conversation of n messages, alternating user and assistant, owned by user ("" = nobody), with its log.
func Talk(id, user string, n int) *Conversation {
	const start = 1_700_000_000_000
	c := &Conversation{State: &conversationpb.State{
		Id: id, TenantId: "t", ProjectId: "p", UserId: user, AgentId: "assistant", AgentName: "Assistant",
		Status: conversationpb.Status_IDLE, Source: "conversation", CreatedAt: start, UpdatedAt: start + int64(n),
		MessageCount: uint64(n), NextMessage: uint64(n) + 1, LastSeq: uint64(n),
	}}
	for i := range n {
		message := &conversationpb.Message{
			Id: fmt.Sprintf("msg_%021d", i+1), Number: uint64(i + 1), Role: conversationpb.Role_USER,
			Content: fmt.Sprintf("message %d", i+1), RunId: fmt.Sprintf("run_%021d", i/2+1),
			CreatedAt: start + int64(i), UpdatedAt: start + int64(i),
		}
		event := &conversationpb.Event{Seq: uint64(i + 1), CreatedAt: start + int64(i), RunId: message.RunId}
		if i%2 == 0 {
			event.Body = &conversationpb.Event_UserMessage{UserMessage: &conversationpb.UserMessage{Message: message}}
		} else {
			message.Role, message.Status = conversationpb.Role_ASSISTANT, "completed"
			message.StopReason = conversationpb.StopReason_END_TURN
			message.InReplyTo = c.Messages[i-1].GetId()
			event.Body = &conversationpb.Event_AgentMessage{AgentMessage: &conversationpb.AgentMessage{Message: message}}
		}
		c.Messages = append(c.Messages, message)
		c.Events = append(c.Events, event)
	}
	return c
}
