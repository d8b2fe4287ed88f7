package convapi

import (
	"context"

	"parley/actors/core/entity"
	"parley/actors/core/failure"
	"parley/httpedge/convapi/body"
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

func (a *API) listMessages(ctx context.Context, in *listMessagesIn) (*body.MessageList, error) {
	if !plausible(in.ID) {
		return nil, notFound(failure.ConversationNotFound)
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
	return &body.MessageList{Page: page, Limit: in.Limit, Offset: in.Offset}, nil
}

type sendMessageIn struct {
	ID       string        `path:"id"`
	Message  string        `json:"message" doc:"Required, unless there are files"`
	FileIDs  []string      `json:"fileIds" doc:"Files of the conversation"`
	Files    []fileInput   `json:"files" doc:"Stored first, then added to fileIds"`
	Stream   bool          `json:"stream" doc:"true: answer with an event stream"`
	Metadata body.Metadata `json:"metadata"`
	OnBusy   string        `json:"onBusy" enum:"reject,queue,interrupt" default:"reject" doc:"While a turn runs: refuse the message, let it wait for its turn (202), or cancel the turn"`
}

type fileInput struct {
	Name     string `json:"name"`
	Content  string `json:"content" doc:"base64"`
	MimeType string `json:"mimeType"`
}

// Validate implements endpoint.Validator.
func (in *sendMessageIn) Validate() *failure.Failure {
	if blank(in.Message) && len(in.FileIDs)+len(in.Files) == 0 {
		return failure.New(failurepb.Code_VALIDATION, failure.Required).In("message")
	}
	switch in.OnBusy {
	case "", "reject", "queue", "interrupt":
		return nil
	}
	return failure.New(failurepb.Code_VALIDATION, failure.BadOnBusy).In("onBusy")
}

// sendMessage starts a turn and answers with its result or a stream.
func (a *API) sendMessage(ctx context.Context, in *sendMessageIn, stream endpoint.Stream) (*body.TurnResult, error) {
	files := filesInput{given: in.FileIDs, inline: in.Files}
	if err := a.mayQueue(in.OnBusy); err != nil {
		return nil, err
	}
	send := &conversationpb.Send{Content: in.Message, Metadata: in.Metadata, Wait: !in.Stream, OnBusy: in.OnBusy}
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

// mayQueue refuses to queue while a node of the cluster does not know how.
func (a *API) mayQueue(onBusy string) error {
	if onBusy == "" || onBusy == "reject" || a.canQueue == nil || a.canQueue() {
		return nil
	}
	return failure.New(failurepb.Code_UNAVAILABLE, failure.QueueNotYet)
}

// turnResult completes the result of a turn with what the owner left out.
func (a *API) turnResult(ctx context.Context, id string, turn *conversationpb.TurnResult) (*body.TurnResult, error) {
	if err := a.asker.Complete(ctx, id, turn); err != nil {
		return nil, err
	}
	return &body.TurnResult{ConversationID: id, Turn: turn}, nil
}
