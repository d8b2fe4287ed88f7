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
	"parley/actors/machine"
	"parley/httpedge/endpoint"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
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

// Store is a Reader in memory. The zero value is empty.
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

// State implements endpoint.Reader.
func (s *Store) State(ctx context.Context, id string) (*conversationpb.State, error) {
	c, err := s.find(ctx, id)
	if err != nil {
		return nil, err
	}
	return c.State, nil
}

// Messages implements endpoint.Reader.
func (s *Store) Messages(ctx context.Context, query endpoint.MessageQuery) (*endpoint.MessagePage, error) {
	c, err := s.find(ctx, query.ConversationID)
	if err != nil {
		return nil, err
	}
	first, last, err := window(c.Messages, query)
	if err != nil {
		return nil, err
	}
	page := &endpoint.MessagePage{
		State: c.State, Messages: slices.Clone(c.Messages[first:last]),
		HasMoreBefore: first > 0, HasMoreAfter: last < len(c.Messages),
	}
	if query.Descending {
		slices.Reverse(page.Messages)
	}
	return page, nil
}

// Message implements endpoint.Reader.
func (s *Store) Message(ctx context.Context, conversationID, messageID string) (*endpoint.MessageView, error) {
	c, err := s.find(ctx, conversationID)
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
	message := named(messageID)
	if message == nil {
		return nil, machine.Fail(failurepb.Code_NOT_FOUND, "message not found")
	}
	return &endpoint.MessageView{State: c.State, Message: message, InReplyTo: named(message.GetInReplyTo())}, nil
}

// window finds the messages [first, last) of a query, counted oldest first.
func window(messages []*conversationpb.Message, query endpoint.MessageQuery) (first, last int, err error) {
	n := len(messages)
	cursor := query.Before + query.After
	switch {
	case cursor != "":
		at := slices.IndexFunc(messages, func(m *conversationpb.Message) bool { return m.GetId() == cursor })
		if at < 0 {
			return 0, 0, machine.Fail(failurepb.Code_NOT_FOUND, "message not found")
		}
		if query.Before != "" {
			return max(0, at-query.Limit), at, nil
		}
		return at + 1, min(n, at+1+query.Limit), nil
	case query.Offset < 0:
		return max(0, n-query.Limit), n, nil
	case query.Descending:
		last = max(0, n-query.Offset)
		return max(0, last-query.Limit), last, nil
	default:
		first = min(n, query.Offset)
		return first, min(n, first+query.Limit), nil
	}
}

// Events implements endpoint.Reader.
func (s *Store) Events(ctx context.Context, query endpoint.EventQuery) (*endpoint.EventPage, error) {
	c, err := s.find(ctx, query.ConversationID)
	if err != nil {
		return nil, err
	}
	page := &endpoint.EventPage{LastSeq: c.State.GetLastSeq()}
	for _, event := range c.Events {
		wanted := len(query.Types) == 0 || slices.Contains(query.Types, event.PublicType())
		if event.GetSeq() <= query.After || !wanted {
			continue
		}
		if len(page.Events) == query.Limit {
			page.HasMore = true
			break
		}
		page.Events = append(page.Events, event)
	}
	return page, nil
}

// Conversations implements endpoint.Reader.
func (s *Store) Conversations(_ context.Context, query endpoint.ListQuery) (*endpoint.ListPage, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.Err != nil {
		return nil, s.Err
	}
	var found []*conversationpb.State
	for _, c := range s.conversations {
		state := c.State
		if state.GetTenantId() == query.TenantID && state.GetProjectId() == query.ProjectID &&
			state.GetUserId() == query.UserID && (query.AgentID == "" || state.GetAgentId() == query.AgentID) {
			found = append(found, state)
		}
	}
	slices.SortFunc(found, func(a, b *conversationpb.State) int { return compare(a, b, query) })
	first := min(len(found), query.Offset)
	last := min(len(found), first+query.Limit)
	return &endpoint.ListPage{Conversations: found[first:last], Total: len(found)}, nil
}

func compare(a, b *conversationpb.State, query endpoint.ListQuery) int {
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
type Authenticate func(request endpoint.Request) (endpoint.Caller, *machine.Failure)

// Authenticate implements endpoint.Authenticator.
func (f Authenticate) Authenticate(_ context.Context, request endpoint.Request) (endpoint.Caller, *machine.Failure) {
	return f(request)
}

// Off lets everybody in as a trusted caller who acts for whom the query names, as a server without authentication does.
func Off(request endpoint.Request) (endpoint.Caller, *machine.Failure) {
	return endpoint.Caller{TenantID: "t", ProjectID: "p", UserID: request.Query("userId"), Trusted: true}, nil
}

// ByToken identifies the user named by "Authorization: Bearer <user>", and refuses who names none.
func ByToken(request endpoint.Request) (endpoint.Caller, *machine.Failure) {
	const prefix = "Bearer "
	header := request.Header("Authorization")
	if len(header) <= len(prefix) {
		return endpoint.Caller{}, machine.Fail(failurepb.Code_AUTH_REQUIRED, "Authentication required")
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
