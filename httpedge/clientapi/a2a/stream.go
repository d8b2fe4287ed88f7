package a2a

import (
	"context"

	"parley/actors/core/expected"
	"parley/httpedge/a2a/protocol"
	"parley/httpedge/a2a/tasks"
	"parley/httpedge/endpoint"
	"parley/httpedge/sse"
	"parley/proto/conversationpb"
)

// streamMessage answers a message with its task as it goes on.
func (a *api) streamMessage(ctx context.Context, c *call) (result, error) {
	if err := c.stream.Admit(); err != nil {
		return nil, err
	}
	d, err := a.deliver(ctx, c)
	if err != nil {
		return nil, err
	}
	d.wait(false)
	if d.fresh {
		ctx = expected.Context(ctx)
	}
	// It is followed before the command is given, so that nothing must be read back.
	return a.follow(ctx, c, d.conversation, func() (*view, uint64, error) {
		reply, err := a.Asker().Ask(ctx, d.command)
		if err != nil {
			return nil, 0, a.refused(ctx, d, err)
		}
		if turn := reply.GetTurn(); turn != nil { // it waits for further answers
			return newView(c, tasks.OfTurn(d.conversation, turn), turn.GetRunId()), 0, nil
		}
		accepted := reply.GetAccepted()
		task, err := a.begun(ctx, d, accepted)
		if err != nil {
			return nil, 0, err
		}
		made := newView(c, task, accepted.GetRunId())
		if d.resumes != nil {
			made.resume(d.resumes.GetPaused(), false)
		}
		return made, accepted.GetSeq(), nil
	})
}

// subscribe follows a task that was begun before: what it has said so far, then what follows. To 0.3 one that is over is told, too;
// 1.0 wants it read.
func (a *api) subscribe(ctx context.Context, c *call) (result, error) {
	if err := c.stream.Admit(); err != nil {
		return nil, err
	}
	state, task, err := a.readTask(ctx, c.agent, protocol.ReadTaskID(c.Params))
	if err != nil {
		return nil, err
	}
	made := newView(c, task, runOf(state))
	made.keeps = true
	switch over := task.Status.State.Terminal(); {
	case over && c.Version == protocol.V10:
		return nil, protocol.Unsupported("The task is over: read it")
	case over:
		return made.whole, nil
	case state.GetLease() != nil:
		made.resume(state.GetLease(), state.GetLease().GetMode() == conversationpb.Mode_CONTINUE)
	default:
		made.resume(state.GetPaused(), false)
	}
	return a.follow(ctx, c, state.GetId(), func() (*view, uint64, error) { return made, state.GetLastSeq(), nil })
}

// runOf is the run of the turn that goes on in a conversation, or waits.
func runOf(state *conversationpb.State) string {
	if lease := state.GetLease(); lease != nil {
		return lease.GetRunId()
	}
	return state.GetPaused().GetRunId()
}

// follow streams a task, unless that is at rest at once. The turn does not hang on the connection.
func (a *api) follow(ctx context.Context, c *call, conversation string, begin func() (v *view, after uint64, err error)) (result, error) {
	lease, err := a.Hub.Acquire(ctx, conversation)
	if err != nil {
		if isMissing(err) {
			return nil, unknownContext()
		}
		return nil, err
	}
	made, after, err := begin()
	switch {
	case err != nil:
	case made.atRest():
		lease.Release()
		return made.whole, nil
	default:
		options := sse.Options{After: after, Opening: made.opening(), View: made, InOrder: !made.keeps}
		err = c.stream.Start(func(take endpoint.Takeover) { lease.Open(sse.Handover(take), options) })
	}
	if err != nil {
		lease.Release()
	}
	return nil, err
}

func newView(c *call, task *protocol.Task, run string) *view {
	return &view{task: task, run: run, id: c.ID, version: c.Version}
}
