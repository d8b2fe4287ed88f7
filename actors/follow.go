package actors

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/expected"
	"parley/actors/core/failure"
	"parley/actors/core/follow"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// Follow subscribes to a conversation. It returns a snapshot, and from then on the sink receives every event with a seq
// above the snapshot's and all text after the snapshot's; the first of them may arrive before Follow has returned. Ctx
// bounds the set-up only; cancel ends the follow and may be called from anywhere, more than once. Following does not
// activate the conversation, which need not exist yet where that is expected (package expected). NotOwnerError where another node might own the shard by now.
func (s *System) Follow(ctx context.Context, shard uint32, id string, sink follow.Sink) (*conversationpb.Snapshot, func(), error) {
	if s.stopping.Load() {
		return nil, nil, s.stoppingAnswer(shard)
	}
	h := s.hostIf(shard)
	if h == nil {
		return nil, nil, &NotOwnerError{Shard: shard}
	}
	t := h.term.Load()
	if t == nil {
		return nil, nil, h.notOwner()
	}
	fl, err := s.streams.register(shard, id, sink)
	if err != nil {
		return nil, nil, err
	}
	// The journal guarantees that the head is not stale. The term is checked again after registering: if the shard is
	// released from here on, the registered follower is closed.
	start := time.Now()
	head, err := s.readHead(ctx, t, shard, id)
	if expected.In(ctx) && codeIs(err, failurepb.Code_NOT_FOUND) {
		head, err = nil, nil // the follower starts with the first event
	}
	if t.over.Load() || errors.Is(err, ErrNotOwner) || err == nil && !h.prove(t, start) {
		err = h.notOwner()
	}
	if err != nil {
		fl.cancel()
		return nil, nil, err
	}
	snapshot, err := fl.open(t.epoch, head)
	if err != nil {
		fl.cancel()
		return nil, nil, err
	}
	return snapshot, fl.cancel, nil
}

func (s *System) readHead(ctx context.Context, t *term, shard uint32, id string) (*conversationpb.State, error) {
	within, cancel := t.bound(ctx, s.config.LoadTimeout)
	defer cancel()
	head, found, err := s.config.Journal.Load(within, shard, id)
	switch {
	case err == nil:
	case ctx.Err() != nil, errors.Is(err, ErrNotOwner):
		return nil, fmt.Errorf("read head: %w", err)
	case errors.Is(err, ErrFailed):
		return nil, fmt.Errorf("read head: %w: %w", failure.New(failurepb.Code_STORAGE_FAILED, failure.StoreBroken), err)
	default:
		return nil, fmt.Errorf("read head: %w: %w", unavailable(failure.StateNotRead), err)
	}
	if !found {
		return nil, failure.New(failurepb.Code_NOT_FOUND, failure.ConversationNotFound)
	}
	state := &conversationpb.State{}
	if err := proto.Unmarshal(head.State, state); err != nil {
		return nil, fmt.Errorf("decode head: %w", err)
	}
	return state, nil
}
