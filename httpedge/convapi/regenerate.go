package convapi

import (
	"context"

	"parley/actors/core/failure"
	"parley/httpedge/convapi/body"
	"parley/httpedge/convapi/frames"
	"parley/httpedge/endpoint"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/nodepb"
)

type regenerateIn struct {
	ID        string        `path:"id"`
	MessageID string        `path:"messageId" doc:"The newest answer; after a turn that left none, the user message"`
	Stream    bool          `json:"stream" doc:"true: answer with an event stream"`
	Metadata  body.Metadata `json:"metadata" doc:"Of the new answer"`
}

// regenerateAnswer answers the newest user message again; the new answer replaces the old one.
func (a *API) regenerateAnswer(ctx context.Context, in *regenerateIn, stream endpoint.Stream) (*body.TurnResult, error) {
	ask := func() (*conversationpb.Reply, error) {
		return a.about(ctx, in.ID, in.MessageID, func(view *nodepb.MessageReply) (*conversationpb.Reply, error) {
			question := view.Message
			if question.GetRole() == conversationpb.Role_ASSISTANT {
				question = view.InReplyTo
			}
			if question == nil {
				return nil, failure.New(failurepb.Code_INVALID_MESSAGE_TARGET, failure.QuestionGone)
			}
			command := a.command(ctx, in.ID)
			command.Body = &conversationpb.Command_Regenerate{Regenerate: &conversationpb.Regenerate{
				Target: target(view), UserMessage: question, Agent: a.agentOf(view.State), Metadata: in.Metadata,
				Wait: !in.Stream,
			}}
			return a.asking(!in.Stream)(ctx, command)
		})
	}
	return a.runTurn(ctx, in.ID, in.Stream, stream, ask)
}

// runTurn sends a command that starts a turn and answers with the turn's result or a stream.
func (a *API) runTurn(
	ctx context.Context, id string, streamed bool, stream endpoint.Stream, ask func() (*conversationpb.Reply, error),
) (*body.TurnResult, error) {
	if streamed {
		return nil, a.streamTurn(ctx, id, stream, func() (*frames.MessageView, uint64, error) {
			reply, err := ask()
			return accepted(id, reply, err)
		})
	}
	reply, err := ask()
	if err != nil {
		return nil, err
	}
	if queued := reply.GetAccepted(); queued != nil {
		return &body.TurnResult{ConversationID: id, Queued: queued}, nil
	}
	return a.turnResult(ctx, id, reply.GetTurn())
}
