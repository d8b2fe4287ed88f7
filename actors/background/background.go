// Package background is what the workers of background entities (runs and tasks) share: how they give commands to the conversation in
// which they work, and what they read of it.
package background

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/actors/kit"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
)

// Agents is where workers find the agent of a turn.
type Agents interface {
	// Agent returns an agent of a project as it was in a version, 0 = as it is now.
	Agent(projectID, agentID string, version int64) (*agentpb.Agent, bool)
}

// Records reads what is stored of a conversation.
type Records interface {
	// State returns the conversation's head, or a NOT_FOUND failure.
	State(ctx context.Context, conversationID string) (*conversationpb.State, error)
	// Turn returns how an ended turn ended, with its answer. A NOT_FOUND failure says that nothing is known of it.
	Turn(ctx context.Context, conversationID, runID string) (*conversationpb.TurnResult, error)
}

// Converse gives a conversation of the worker's shard a command until it is answered. A *machine.Failure says that the rules refused it.
func Converse(ctx context.Context, at kit.Ref, command *conversationpb.Command) (*conversationpb.Reply, error) {
	command.IssuedAt = time.Now().UnixMilli()
	var reply *conversationpb.Reply
	err := kit.Repeat(ctx, func() (failed error) {
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
// than storage keeps what nobody has committed (an hour). Workers begin at once, so only an outage takes longer.
const blobsKept = 50 * time.Minute

// BlobsLost says that the blobs that were stored for an entity created at this time (Unix ms) may be gone.
func BlobsLost(createdAt int64) bool { return time.Since(time.UnixMilli(createdAt)) > blobsKept }

// Cancel is the command that cancels a turn of a conversation, "" = whichever is open.
func Cancel(turn string) *conversationpb.Command {
	return &conversationpb.Command{Body: &conversationpb.Command_Cancel{Cancel: &conversationpb.Cancel{RunId: turn}}}
}

// Look is a command that changes nothing and is answered with the state, after all that was told the conversation before.
func Look(run string) *conversationpb.Command {
	return &conversationpb.Command{Body: &conversationpb.Command_Hold{Hold: &conversationpb.Hold{RunId: run, Release: true}}}
}

// Await is the command that is answered when the turn has ended or waits for a person.
func Await(turn string) *conversationpb.Command {
	return &conversationpb.Command{Body: &conversationpb.Command_AwaitRun{AwaitRun: &conversationpb.AwaitRun{RunId: turn}}}
}

// Canceled is the result of a turn that was cancelled, or has never begun.
func Canceled(turn string) *conversationpb.TurnResult {
	return &conversationpb.TurnResult{RunId: turn, StopReason: conversationpb.StopReason_CANCELLED}
}
