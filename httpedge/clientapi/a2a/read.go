package a2a

import (
	"context"
	"errors"

	"parley/actors/core/entity"
	"parley/httpedge/a2a/protocol"
	"parley/httpedge/a2a/tasks"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/turns"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
	"parley/proto/nodepb"
)

// getTask reads a task from its conversation.
func (a *api) getTask(ctx context.Context, c *call) (result, error) {
	_, task, err := a.readTask(ctx, c.agent, protocol.ReadTaskID(c.Params))
	if err != nil {
		return nil, err
	}
	return func(dst []byte) []byte { return task.Append(dst, c.Version) }, nil
}

// readTask returns a task of an agent that the caller may see, and its conversation at the same time. Any other is not there.
func (a *api) readTask(ctx context.Context, agent *agentpb.Agent, id string) (*conversationpb.State, *protocol.Task, error) {
	conversation, index, ok := tasks.ParseID(id)
	if !ok || !turns.Plausible(conversation) {
		return nil, nil, protocol.TaskNotFound()
	}
	page, err := entity.Read[*nodepb.MessagesReply](ctx, a.Entities, &nodepb.MessagesQuery{
		Id: conversation, Offset: int64(index), Limit: 1,
	})
	if isMissing(err) {
		return nil, nil, protocol.TaskNotFound()
	}
	if err != nil {
		return nil, nil, err
	}
	state := page.GetState()
	if !handler.Visible(ctx, state) || state.GetAgentId() != agent.GetId() {
		return nil, nil, protocol.TaskNotFound()
	}
	var task *protocol.Task
	switch found := page.GetMessages(); {
	case len(found) == 0:
		task = tasks.WithoutAnswer(state, index)
	case found[0].GetRole() == conversationpb.Role_ASSISTANT:
		task = tasks.Of(state, found[0])
	}
	if task == nil {
		return nil, nil, protocol.TaskNotFound()
	}
	return state, task, nil
}

func isNotFound(err error) bool {
	said, is := errors.AsType[*protocol.Error](err)
	return is && said.Code == protocol.CodeTaskNotFound
}

const completesAtOnce = "Tasks complete synchronously and cannot be canceled"

// cancelTask cancels a task that runs or waits. To any other it says what document 1 has it always say.
func (a *api) cancelTask(ctx context.Context, c *call) (result, error) {
	id := protocol.ReadTaskID(c.Params)
	state, task, err := a.readTask(ctx, c.agent, id)
	switch {
	case err != nil && !isNotFound(err):
		return nil, err
	case err != nil, task.Status.State.Terminal():
		return nil, protocol.Unsupported(completesAtOnce)
	case state.GetBackgroundRun() != "":
		return nil, protocol.Unsupported("The task is a background run's: cancel the run")
	}
	command := a.Command(ctx, state.GetId(), "cancel")
	command.Body = &conversationpb.Command_Cancel{Cancel: &conversationpb.Cancel{
		SettleWaitMs: a.Config.CancelWait.Milliseconds(), RunId: runOf(state), // by now another task may run
	}}
	if _, err = a.Asker().Ask(ctx, command); err != nil {
		return nil, err
	}
	if _, task, err = a.readTask(ctx, c.agent, id); err != nil { // it may have ended by itself before
		return nil, err
	}
	return func(dst []byte) []byte { return task.Append(dst, c.Version) }, nil
}
