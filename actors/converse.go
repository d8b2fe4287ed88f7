package actors

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/proto/conversationpb"
)

// converse gives the conversation of a driven entity a command until it is answered. A *machine.Failure says that the rules
// refused it.
func converse(ctx context.Context, at Entity, command *conversationpb.Command) (*conversationpb.Reply, error) {
	command.IssuedAt = time.Now().UnixMilli()
	var reply *conversationpb.Reply
	err := repeat(ctx, func() (failed error) {
		var answer proto.Message
		answer, failed = at.Tell(ctx, command.GetConversationId(), command)
		reply, _ = answer.(*conversationpb.Reply)
		if failed != nil {
			command = command.Again()
		}
		return failed
	})
	return reply, err
}

// blobsKept is how long after its creation an entity may still add the blobs to its conversation that were stored for it: less
// than storage keeps what nobody has committed (an hour). Drivers begin at once, so only an outage takes longer.
const blobsKept = 50 * time.Minute

func tooOld(createdAt int64) bool { return time.Since(time.UnixMilli(createdAt)) > blobsKept }

func cancelCommand() *conversationpb.Command {
	return &conversationpb.Command{Body: &conversationpb.Command_Cancel{Cancel: &conversationpb.Cancel{}}}
}

// awaitCommand is answered when the turn has ended or waits for a person.
func awaitCommand(turn string) *conversationpb.Command {
	return &conversationpb.Command{Body: &conversationpb.Command_AwaitRun{AwaitRun: &conversationpb.AwaitRun{RunId: turn}}}
}

// canceled is the result of a turn that was cancelled, or has never begun.
func canceled(turn string) *conversationpb.TurnResult {
	return &conversationpb.TurnResult{RunId: turn, StopReason: conversationpb.StopReason_CANCELLED}
}
