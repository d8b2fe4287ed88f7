package convapi

import (
	"context"
	"errors"
	"time"

	"parley/actors/machine"
	"parley/httpedge/endpoint"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
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
	page, err := a.reader.Messages(ctx, endpoint.MessageQuery{
		ConversationID: in.ID, Offset: in.Offset, Limit: in.Limit, Descending: in.Order == "desc",
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

// sendMessage runs a turn and answers with its result, or streams it.
func (a *API) sendMessage(ctx context.Context, in *sendMessageIn, stream endpoint.Stream) (*turnResult, error) {
	files := filesInput{given: in.FileIDs, inline: in.Files}
	send := &conversationpb.Send{Content: in.Message, Metadata: in.Metadata, Wait: !in.Stream}
	return a.runTurn(ctx, in.ID, in.Stream, stream, func() (*conversationpb.Reply, error) {
		if len(in.FileIDs)+len(in.Files) > 0 { // else the head need not be read
			state, err := a.readable(ctx, in.ID)
			if err != nil {
				return nil, err
			}
			send.Agent = a.agentOf(state)
			if send.FileIds, err = a.attach(ctx, state, send.Agent, &files); err != nil {
				return nil, err
			}
		}
		command := a.command(ctx, in.ID)
		command.Body = &conversationpb.Command_Send{Send: send}
		reply, err := a.asker(!in.Stream)(ctx, command)
		a.detach(ctx, in.ID, &files, err)
		return reply, err
	})
}

// askUntilSettled repeats a waiting command whose owner went away while it waited (moved, restarted, passivated). The
// command's id makes the repeat safe: a turn that has begun is waited for, not begun again. Who cannot be answered at
// all is told so soon; a turn that had been waited for is worth a longer wait.
func (a *API) askUntilSettled(ctx context.Context, command *conversationpb.Command) (*conversationpb.Reply, error) {
	const (
		soon     = 3 * time.Second
		underWay = 6 * time.Second // an answer that took so long was waited for, not looked for
		worthIt  = 15 * time.Second
	)
	pause := 20 * time.Millisecond
	giveUp := time.Now().Add(soon)
	for {
		began := time.Now()
		reply, err := a.ask(ctx, command)
		if err == nil || !gone(err) {
			return reply, err
		}
		switch now := time.Now(); {
		case now.Sub(began) > underWay:
			giveUp = now.Add(worthIt)
			pause = 20 * time.Millisecond
		case now.After(giveUp):
			return reply, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(pause):
			pause = min(3*pause, time.Second)
		}
		command = command.Again()
	}
}

// gone says that an owner could not be asked, not that it refused.
func gone(err error) bool {
	var failure *machine.Failure
	if errors.As(err, &failure) {
		return failure.Code == failurepb.Code_UNAVAILABLE && !changedMeanwhile(err)
	}
	var unavailable interface{ Unavailable() bool }
	return errors.As(err, &unavailable) && unavailable.Unavailable()
}

// turnResult completes the result of a turn of which the owner only knew the head: its messages are read.
func (a *API) turnResult(ctx context.Context, id string, turn *conversationpb.TurnResult) (*turnResult, error) {
	out := &turnResult{conversationID: id, turn: turn}
	if !turn.GetPartial() {
		return out, nil
	}
	const newest = 20
	page, err := a.reader.Messages(ctx, endpoint.MessageQuery{
		ConversationID: id, Offset: -1, Limit: newest, Descending: true,
	})
	if err != nil {
		return nil, err
	}
	asked := turn.GetUserMessage().GetId()
	for _, message := range page.Messages {
		if message.GetRole() == conversationpb.Role_USER {
			if message.GetId() == asked || asked == "" && message.GetRunId() == turn.GetRunId() {
				turn.UserMessage = message
			}
			continue
		}
		if message.GetRunId() != turn.GetRunId() {
			continue
		}
		turn.Response, turn.Usage = message, message.GetUsage()
		if turn.GetStopReason() == conversationpb.StopReason_STOP_UNSPECIFIED {
			turn.StopReason = message.GetStopReason()
		}
	}
	if turn.GetStopReason() == conversationpb.StopReason_STOP_UNSPECIFIED {
		// Not the last turn any more, and it left no answer: why is only in its event log.
		turn.StopReason = conversationpb.StopReason_ERROR
		turn.Error = &conversationpb.TurnError{Code: "interrupted", Message: "The turn ended without an answer."}
	}
	return out, nil
}
