package run

import (
	"context"
	"fmt"
	"time"

	"parley/actors/background"
	"parley/actors/core/entity"
	"parley/actors/kit"
	"parley/proto/conversationpb"
	"parley/proto/runpb"
)

// askTimeout bounds one try to reach what lives in another shard.
const askTimeout = 10 * time.Second

// join asks the queue for a place, and for its own again. The run of a task needs none.
func (w *worker) join(atOnce bool) (*runpb.QueueReply, error) {
	if w.task != nil {
		return &runpb.QueueReply{Placed: true}, nil
	}
	return w.queue(&runpb.QueueCommand{Body: &runpb.QueueCommand_Join{
		Join: &runpb.Join{RunId: w.at.ID, AtOnce: atOnce},
	}})
}

func (w *worker) leave() error {
	_, err := w.queue(&runpb.QueueCommand{Body: &runpb.QueueCommand_Leave{Leave: &runpb.Leave{RunId: w.at.ID}}})
	return err
}

// queue gives the project's queue a command until it is answered.
func (w *worker) queue(command *runpb.QueueCommand) (reply *runpb.QueueReply, err error) {
	command.QueueId = w.config.QueueID(w.run.GetTenantId(), w.run.GetProjectId())
	err = w.until(func(err error) bool { return kit.FailureOf(err) != nil }, func(ctx context.Context) (err error) {
		reply, err = entity.Ask[*runpb.QueueReply](ctx, w.config.Client, command.GetQueueId(), command)
		return err
	})
	return reply, err
}

// until does what reaches beyond the run's shard until it succeeds, or fails for good.
func (w *worker) until(final func(error) bool, do func(ctx context.Context) error) error {
	for try := 1; ; try++ {
		ctx, cancel := context.WithTimeout(w.ctx, askTimeout)
		err := do(ctx)
		cancel()
		if err == nil || w.ctx.Err() != nil || final(err) {
			return err
		}
		kit.Pause(w.ctx, try)
	}
}

// tell gives the conversation a command of who asked for the run. What is told under the same name is the same command.
func (w *worker) tell(name string, command *conversationpb.Command) (*conversationpb.Reply, error) {
	return w.tellIn(w.ctx, name, command)
}

func (w *worker) tellIn(ctx context.Context, name string, command *conversationpb.Command) (*conversationpb.Reply, error) {
	command.ConversationId = w.run.GetConversationId()
	command.CommandId = w.commandID(name)
	command.BackgroundRun = w.run.GetId()
	command.Caller = &conversationpb.Caller{
		TenantId: w.run.GetTenantId(), ProjectId: w.run.GetProjectId(), UserId: w.run.GetUserId(), Identified: true,
		Trusted: w.run.GetTrusted(), TokenId: w.run.GetTokenId(),
	}
	return background.Converse(ctx, w.at, command)
}

// Names of the command that begins the turn: of a run, and of a task's.
const (
	tellBegin = "begin"
	tellSend  = "send"
)

func (w *worker) commandID(name string) string {
	if w.task != nil {
		return fmt.Sprintf("%s/%d/%s", w.at.ID, w.task.number, name)
	}
	return w.at.ID + "/" + name
}

// report tells the run, or its task, what was done, and learns what the rules make of it.
func (w *worker) report(command *runpb.Command) error {
	command.RunId = w.at.ID
	if w.task != nil {
		return w.reportToTask(command)
	}
	return kit.Repeat(w.ctx, func() error {
		answer, err := w.at.Ask(w.ctx, command)
		if reply, ok := answer.(*runpb.Reply); ok {
			w.run = reply.GetRun()
		}
		return err
	})
}
