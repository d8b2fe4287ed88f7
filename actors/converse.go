package actors

import (
	"context"

	"parley/actors/background"
	"parley/proto/conversationpb"
)

// Shorter names of what workers share, for the driver of tasks.
func converse(ctx context.Context, at Entity, command *conversationpb.Command) (*conversationpb.Reply, error) {
	return background.Converse(ctx, at, command)
}

func tooOld(createdAt int64) bool { return background.BlobsLost(createdAt) }

func cancelCommand() *conversationpb.Command { return background.Cancel() }

func awaitCommand(turn string) *conversationpb.Command { return background.Await(turn) }

func canceled(turn string) *conversationpb.TurnResult { return background.Canceled(turn) }
