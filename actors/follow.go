package actors

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	"parley/actors/machine"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// Follow subscribes to a conversation. It returns what was before, and from then on the sink hears every event with a
// seq above the snapshot's and every piece of text after the snapshot's; the first of them may come before Follow has
// returned. Ctx bounds the set-up only; cancel ends the follow, from anywhere and more than once. Following does not
// activate the conversation.
func (s *System) Follow(ctx context.Context, shard uint32, id string, sink Sink) (*conversationpb.Snapshot, func(), error) {
	if s.stopping.Load() {
		return nil, nil, unavailable("the node is stopping")
	}
	h := s.hostIf(shard)
	if h == nil {
		return nil, nil, &NotOwnerError{Shard: shard}
	}
	epoch := h.epoch.Load()
	if epoch == 0 {
		return nil, nil, h.notOwner()
	}
	fl, err := s.feeds.register(shard, id, sink)
	if err != nil {
		return nil, nil, err
	}
	head, err := s.readHead(ctx, shard, id)
	// Looked at again after registering: a release from here on closes what is registered.
	if err == nil && h.epoch.Load() != epoch {
		err = h.notOwner()
	}
	if err != nil {
		fl.cancel()
		return nil, nil, err
	}
	snapshot, err := fl.open(epoch, head)
	if err != nil {
		fl.cancel()
		return nil, nil, err
	}
	return snapshot, fl.cancel, nil
}

func (s *System) readHead(ctx context.Context, shard uint32, id string) (*conversationpb.State, error) {
	ctx, cancel := context.WithTimeout(ctx, s.config.LoadTimeout)
	defer cancel()
	head, found, err := s.config.Journal.Load(ctx, shard, id)
	if err != nil {
		return nil, fmt.Errorf("read head: %w", err)
	}
	if !found {
		return nil, machine.Fail(failurepb.Code_NOT_FOUND, "conversation not found")
	}
	state := &conversationpb.State{}
	if err := proto.Unmarshal(head.State, state); err != nil {
		return nil, fmt.Errorf("decode head: %w", err)
	}
	return state, nil
}
