package convapi

import (
	"context"

	"parley/actors/core/entity"
	"parley/actors/machine"
	"parley/httpedge/endpoint"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/nodepb"
)

type listMessagesIn struct {
	ID     string `path:"id"`
	Limit  int    `query:"limit"`
	Offset int    `query:"offset"`
	Order  string `query:"order" enum:"asc,desc" default:"asc"`
}

func (a *API) listMessages(ctx context.Context, in *listMessagesIn) (*messageList, error) {
	if !plausible(in.ID) {
		return nil, notFound("conversation")
	}
	page, err := entity.Read[*nodepb.MessagesReply](ctx, a.entities, &nodepb.MessagesQuery{
		Id: in.ID, Offset: int64(in.Offset), Limit: uint32(in.Limit), Descending: in.Order == "desc",
	})
	if err != nil {
		return nil, err
	}
	if err := access(ctx, page.State); err != nil {
		return nil, err
	}
	return &messageList{page: page, limit: in.Limit, offset: in.Offset}, nil
}

type sendMessageIn struct {
	ID       string      `path:"id"`
	Message  string      `json:"message" required:"true"`
	FileIDs  []string    `json:"fileIds" doc:"Files of the conversation"`
	Files    []fileInput `json:"files" doc:"Stored first, then added to fileIds"`
	Stream   bool        `json:"stream" doc:"true: answer with an event stream"`
	Metadata metadata    `json:"metadata"`
}

type fileInput struct {
	Name     string `json:"name"`
	Content  string `json:"content" doc:"base64"`
	MimeType string `json:"mimeType"`
}

// Validate implements endpoint.Validator.
func (in *sendMessageIn) Validate() *machine.Failure {
	if blank(in.Message) {
		return machine.Fail(failurepb.Code_VALIDATION, "message is required")
	}
	return nil
}

// sendMessage starts a turn and answers with its result or a stream.
func (a *API) sendMessage(ctx context.Context, in *sendMessageIn, stream endpoint.Stream) (*turnResult, error) {
	files := filesInput{given: in.FileIDs, inline: in.Files}
	send := &conversationpb.Send{Content: in.Message, Metadata: in.Metadata, Wait: !in.Stream}
	return a.runTurn(ctx, in.ID, in.Stream, stream, func() (*conversationpb.Reply, error) {
		command := a.command(ctx, in.ID)
		if len(in.FileIDs)+len(in.Files) > 0 { // else the head need not be read
			state, err := a.readable(ctx, in.ID)
			if err != nil {
				return nil, err
			}
			send.Agent = a.agentOf(state)
			if send.FileIds, command.Opening, err = a.attach(ctx, state, send.Agent, &files); err != nil {
				return nil, err
			}
		}
		command.Body = &conversationpb.Command_Send{Send: send}
		reply, err := a.asking(!in.Stream)(ctx, command)
		a.filer.Drop(ctx, files.stored, err)
		return reply, err
	})
}

// turnResult completes the result of a turn with what the owner left out.
func (a *API) turnResult(ctx context.Context, id string, turn *conversationpb.TurnResult) (*turnResult, error) {
	if err := a.asker.Complete(ctx, id, turn); err != nil {
		return nil, err
	}
	return &turnResult{conversationID: id, turn: turn}, nil
}
