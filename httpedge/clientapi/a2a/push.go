package a2a

import (
	"context"
	"encoding/json"

	"parley/httpedge/a2a/protocol"
	"parley/httpedge/a2a/tasks"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/clientapi/render"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// pushes says that clients can be told of their tasks: every node of the cluster knows how.
func (a *api) pushes() bool { return a.CanPush == nil || a.CanPush() }

// configurePush sets, shows, lists or removes the configs of a task. The one without an id of its own is shown under the task's.
func (a *api) configurePush(ctx context.Context, c *call) (result, error) {
	if !a.pushes() {
		return nil, protocol.NoPush()
	}
	in, failed := protocol.ReadPushParams(c.Params, c.Method)
	if failed != nil {
		return nil, failed
	}
	state, task, err := a.readTask(ctx, c.agent, in.TaskID)
	if err != nil {
		return nil, err
	}
	if in.ID == task.ID {
		in.ID = ""
	}
	shown := shownPushes(state, task)
	switch c.Operation {
	case protocol.SetPush:
		return a.setPush(ctx, c, in, state, task)
	case protocol.DeletePush:
		return a.removePush(ctx, c, in, state)
	case protocol.ListPushes:
		return func(dst []byte) []byte { return protocol.AppendPushes(dst, c.Version, shown) }, nil
	default:
		for i := range shown {
			if shown[i].ID == in.ID || in.ID == "" && shown[i].ID == task.ID || in.ID == "" && c.Version == protocol.V03 {
				return func(dst []byte) []byte { return shown[i].Append(dst, c.Version) }, nil
			}
		}
		return nil, &protocol.Error{Code: protocol.CodeTaskNotFound, Message: "The task has no such push notification config"}
	}
}

func (a *api) setPush(
	ctx context.Context, c *call, in *protocol.PushParams, state *conversationpb.State, task *protocol.Task,
) (result, error) {
	const over = "The task is over: read it"
	if task.Status.State.Terminal() {
		return nil, protocol.Unsupported(over)
	}
	if in.Config.ID == task.ID {
		in.Config.ID = ""
	}
	push, err := a.newPush(ctx, c, in.Config, state.GetId())
	if err != nil {
		return nil, err
	}
	command := a.Command(ctx, state.GetId(), "push")
	command.Body = &conversationpb.Command_SetPush{SetPush: &conversationpb.SetPush{RunId: runOf(state), Push: push}}
	if _, err = a.Asker().Ask(ctx, command); err != nil {
		if handler.IsCode(err, failurepb.Code_STALE_TURN) { // it has ended meanwhile
			return nil, protocol.Unsupported(over)
		}
		return nil, err
	}
	set := shownPush(push, task.ID)
	return func(dst []byte) []byte { return set.Append(dst, c.Version) }, nil
}

// removePush removes a config. One that is not there is as good as removed.
func (a *api) removePush(ctx context.Context, c *call, in *protocol.PushParams, state *conversationpb.State) (result, error) {
	_, index, _ := tasks.ParseID(in.TaskID)
	command := a.Command(ctx, state.GetId(), "push")
	command.Body = &conversationpb.Command_RemovePush{RemovePush: &conversationpb.RemovePush{Number: index + 1, Id: in.ID}}
	if _, err := a.Asker().Ask(ctx, command); err != nil {
		return nil, err
	}
	return func(dst []byte) []byte {
		if c.Version == protocol.V10 {
			return append(dst, "{}"...)
		}
		return append(dst, "null"...)
	}, nil
}

// newPush is what a conversation keeps of a config: secrets leave this node sealed.
func (a *api) newPush(ctx context.Context, c *call, config *protocol.PushConfig, conversation string) (*conversationpb.Push, error) {
	if config == nil {
		return nil, nil //nolint:nilnil // none is asked for
	}
	if !a.pushes() {
		return nil, protocol.NoPush() // else its sender would wait for a call that never comes
	}
	if a.CheckCallback != nil {
		if err := a.CheckCallback(ctx, config.URL); err != nil {
			return nil, protocol.InvalidParams("the push notification config: url %s", err)
		}
	}
	plain, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	sealed, err := a.Sealer.Seal(plain, conversationpb.PushAbout(conversation))
	if err != nil {
		return nil, err
	}
	return &conversationpb.Push{
		Id: config.ID, Form: c.Form(), Sealed: sealed, ShownUrl: render.ShownURL(config.URL), Scheme: config.Scheme,
	}, nil
}

func shownPushes(state *conversationpb.State, task *protocol.Task) []protocol.ShownPush {
	_, index, _ := tasks.ParseID(task.ID)
	var shown []protocol.ShownPush
	for _, push := range state.GetPushes() {
		if push.GetNumber() == index+1 {
			shown = append(shown, shownPush(push, task.ID))
		}
	}
	return shown
}

func shownPush(push *conversationpb.Push, task string) protocol.ShownPush {
	shown := protocol.ShownPush{TaskID: task, ID: push.GetId(), URL: push.GetShownUrl(), Scheme: push.GetScheme()}
	if shown.ID == "" {
		shown.ID = task
	}
	return shown
}
