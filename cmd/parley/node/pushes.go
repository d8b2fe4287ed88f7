package node

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"parley/actors"
	"parley/actors/conversation"
	"parley/actors/deliver"
	"parley/actors/delivery"
	"parley/actors/kit"
	"parley/httpedge/a2a/protocol"
	"parley/httpedge/a2a/tasks"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// tellPushes has the clients of A2A told of their tasks that asked for it. No redirect is followed: what authenticates a call is for
// the address that was given.
func (n *Node) tellPushes(deliveries *actors.Deliveries, conversations *actors.Kind, timeout time.Duration) error {
	poster, err := deliver.NewPoster(deliver.PosterConfig{Guard: n.outbound.guard, Timeout: n.config.Client.CallbackTimeout, Stay: true})
	if err != nil {
		return err
	}
	actors.TellPushes(conversations, actors.Pushes{Timeout: timeout, Attempt: n.pushAttempt, Sender: deliveries.Callbacks(actors.CallbacksConfig{
		Poster: poster, Name: "parley_actors_push_notifications_total", Help: "Attempts to tell clients of A2A of a task, by outcome.",
		Registerer: n.metrics,
	})})
	return nil
}

// pushAttempt says where an address leads, and makes its message from what is stored when it is sent.
func (n *Node) pushAttempt(tell conversation.TellPush) delivery.Attempt {
	push, config := tell.Push, &protocol.PushConfig{}
	plain, failed := n.directory.seal.Open(push.GetSealed(), conversationpb.PushAbout(tell.ConversationID))
	if failed == nil {
		failed = json.Unmarshal(plain, config)
	}
	return delivery.Attempt{URL: config.URL, Compose: func() (delivery.Message, error) {
		version, known := protocol.VersionOf(push.GetForm())
		switch {
		case failed != nil:
			return delivery.Message{}, failed
		case !known:
			return delivery.Message{}, fmt.Errorf("no node of this release tells of turns in the form %q", push.GetForm())
		}
		turn, err := n.turnTold(tell.ConversationID, push.GetRunId())
		if err != nil {
			return delivery.Message{}, err
		}
		header := config.Header(version)
		header["X-Service-Event-Id"] = tell.Attempt.GetId()
		task := tasks.Told(tell.ConversationID, push.GetNumber(), turn, tell.Attempt.GetAt())
		return delivery.Message{Body: tasks.AppendTold(nil, version, task), Header: header}, nil
	}}
}

// turnTold reads how a turn has ended, or what it waits for; nil = it goes on again.
func (n *Node) turnTold(conversationID, runID string) (*conversationpb.TurnResult, error) {
	turn, err := n.shell.reads.Turn(context.Background(), conversationID, runID)
	if !kit.IsCode(err, failurepb.Code_NOT_FOUND) {
		return turn, err
	}
	state, failed := n.shell.reads.State(context.Background(), conversationID)
	if failed == nil && state.GetLease().GetRunId() != runID {
		failed = err
	}
	return nil, failed
}
