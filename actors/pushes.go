package actors

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/actors/conversation"
	"parley/actors/delivery"
	"parley/actors/machine"
	"parley/proto/conversationpb"
	"parley/proto/deliverypb"
)

// Pushes is what tells addresses of turns that ended or paused.
type Pushes struct {
	Sender delivery.Sender
	// Timeout is after which time an attempt counts as lost: that of the rules (conversation.Limits.PushTimeout).
	Timeout time.Duration
	// Attempt says where an address leads, and how its message is made.
	Attempt func(tell conversation.TellPush) delivery.Attempt
}

// TellPushes has a kind of conversations tell the addresses that asked for it.
func TellPushes(conversations *Kind, pushes Pushes) {
	conversations.Due.Ahead = pushes.Timeout
	perform, release, drain := conversations.Perform, conversations.OnRelease, conversations.Drain
	conversations.Perform = func(at Entity, effect machine.Effect) proto.Message {
		tell, is := effect.(conversation.TellPush)
		if !is {
			return perform(at, effect)
		}
		attempt := pushes.Attempt(tell)
		attempt.Delivery, attempt.Tenant = tell.Attempt, tell.TenantID
		attempt.Report = func(report *deliverypb.Report) proto.Message {
			return &conversationpb.Command{ConversationId: at.ID, Body: &conversationpb.Command_Pushed{Pushed: &conversationpb.Pushed{
				RunId: tell.Push.GetRunId(), Id: tell.Push.GetId(), Report: report,
			}}}
		}
		pushes.Sender.Send(at, attempt)
		return nil
	}
	conversations.OnRelease = func(shard uint32, epoch uint64) {
		release(shard, epoch)
		pushes.Sender.Release(shard, epoch)
	}
	conversations.Drain = func(ctx context.Context) {
		drain(ctx)
		pushes.Sender.Stop()
	}
}
