package convapi

import (
	"context"

	"parley/actors/core/failure"
	"parley/httpedge/convapi/body"
	"parley/httpedge/endpoint"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/nodepb"
)

type editMessageIn struct {
	ID        string                  `path:"id"`
	MessageID string                  `path:"messageId" doc:"A user message"`
	Content   string                  `json:"content" doc:"The new text, here or as message; required, unless the message has files"`
	Message   string                  `json:"message" doc:"Another name of content"`
	FileIDs   body.Optional[[]string] `json:"fileIds" doc:"Files of the message; without fileIds and files it keeps its own"`
	Files     []fileInput             `json:"files" doc:"Stored first, then added to fileIds"`
	Stream    bool                    `json:"stream" doc:"true: answer with an event stream"`
}

// Validate implements endpoint.Validator.
func (in *editMessageIn) Validate() *failure.Failure {
	if in.Content == "" {
		in.Content = in.Message
	}
	return nil
}

// editMessage replaces a user message, removes all messages after it, and runs a turn for the new one.
func (a *API) editMessage(ctx context.Context, in *editMessageIn, stream endpoint.Stream) (*body.TurnResult, error) {
	files := filesInput{given: in.FileIDs.Value, inline: in.Files}
	ask := func() (*conversationpb.Reply, error) {
		return a.about(ctx, in.ID, in.MessageID, func(view *nodepb.MessageReply) (*conversationpb.Reply, error) {
			setsFiles := in.FileIDs.Set && !in.FileIDs.Null || len(in.Files) > 0
			kept := len(view.GetMessage().GetFiles())
			if setsFiles {
				kept = len(in.FileIDs.Value) + len(in.Files)
			}
			if kept == 0 && blank(in.Content) {
				return nil, failure.New(failurepb.Code_VALIDATION, failure.Required).In("content")
			}
			agent := a.agentOf(view.State)
			ids, opening, err := a.attach(ctx, view.State, agent, &files)
			if err != nil {
				return nil, err
			}
			command := a.command(ctx, in.ID)
			command.Opening = opening
			command.Body = &conversationpb.Command_Edit{Edit: &conversationpb.Edit{
				Target: target(view), Content: in.Content, Agent: agent, Wait: !in.Stream,
				SetFiles: setsFiles, FileIds: ids,
			}}
			return a.asking(!in.Stream)(ctx, command)
		})
	}
	return a.runTurn(ctx, in.ID, in.Stream, stream, func() (*conversationpb.Reply, error) {
		reply, err := ask()
		a.filer.Drop(ctx, files.stored, err)
		return reply, err
	})
}
