package turns

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/feature"
	"parley/actors/machine"
	"parley/httpedge/endpoint"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// FOR ONE RELEASE: a node of the release before ignores Command.opening, so as long as the cluster may have one, the edge carries
// out the opening by separate commands, and undoes them when the command is refused. The next release removes this file.

// undoTimeout bounds the undoing after a failure.
const undoTimeout = 5 * time.Second

// Stepwise carries out a command's opening where the owner might not support it. It returns the command without the opening, and
// a function to call with the command's outcome. Otherwise it returns the command unchanged.
func (a Asker) Stepwise(ctx context.Context, command *conversationpb.Command) (*conversationpb.Command, func(error), error) {
	opening := command.GetOpening()
	if opening == nil || a.Features == nil || a.Features.On(feature.WholeCommands) {
		return command, func(error) {}, nil
	}
	rest := proto.CloneOf(command)
	rest.Opening = nil
	step := func(name string, more *conversationpb.Command) *conversationpb.Command {
		more.ConversationId, more.Caller, more.IssuedAt = command.GetConversationId(), command.GetCaller(), command.GetIssuedAt()
		more.CommandId = command.GetCommandId() + "/" + name
		return more
	}
	var undo []*conversationpb.Command
	rollBack := func(ended error) {
		if !Refused(ended) || Changed(ended) || endpoint.RequestKey(ctx) != "" {
			return // a retry is answered from what exists
		}
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
		defer cancel()
		for _, one := range undo {
			_, _ = a.ask(limited, one) // best effort
		}
	}
	if create := opening.GetCreate(); create != nil {
		body := &conversationpb.Command{Body: &conversationpb.Command_Create{Create: create}}
		_, err := a.AskUntilSettled(ctx, step("before create", body))
		var refusal *machine.Failure
		if err != nil && (!errors.As(err, &refusal) || refusal.Code != failurepb.Code_ALREADY_EXISTS) {
			return nil, nil, err
		}
		undo = []*conversationpb.Command{step("after", &conversationpb.Command{
			Body: &conversationpb.Command_Delete{Delete: &conversationpb.Delete{OnlyIdle: true}},
		})}
	}
	for i, file := range opening.GetFiles() {
		add := &conversationpb.Command{Body: &conversationpb.Command_AddFile{
			AddFile: &conversationpb.AddFile{File: file, Agent: opening.GetAgent()},
		}}
		if _, err := a.AskUntilSettled(ctx, step(fmt.Sprint("before file ", i), add)); err != nil {
			rollBack(err)
			return nil, nil, err
		}
		if opening.GetCreate() == nil {
			undo = append(undo, step(fmt.Sprint("after ", i), &conversationpb.Command{
				Body: &conversationpb.Command_RemoveFile{RemoveFile: &conversationpb.RemoveFile{FileId: file.GetId()}},
			}))
		}
	}
	return rest, rollBack, nil
}
