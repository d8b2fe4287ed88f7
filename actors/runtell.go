package actors

import (
	"context"
	"errors"
	"fmt"
	"time"

	"parley/actors/machine"
	"parley/proto/conversationpb"
	"parley/proto/runpb"
)

// askTimeout bounds one try to reach what lives in another shard.
const askTimeout = 10 * time.Second

// join asks the queue for a place, and for its own again. The run of a task needs none.
func (d *runDriver) join(atOnce bool) (*runpb.QueueReply, error) {
	if d.task != nil {
		return &runpb.QueueReply{Placed: true}, nil
	}
	return d.queue(&runpb.QueueCommand{Body: &runpb.QueueCommand_Join{
		Join: &runpb.Join{RunId: d.at.ID, AtOnce: atOnce},
	}})
}

func (d *runDriver) leave() error {
	_, err := d.queue(&runpb.QueueCommand{Body: &runpb.QueueCommand_Leave{Leave: &runpb.Leave{RunId: d.at.ID}}})
	return err
}

// queue gives the project's queue a command until it is answered.
func (d *runDriver) queue(command *runpb.QueueCommand) (*runpb.QueueReply, error) {
	for try := 1; ; try++ {
		ctx, cancel := context.WithTimeout(d.ctx, askTimeout)
		reply, err := d.config.Queues.Queue(ctx, d.run.GetTenantId(), d.run.GetProjectId(), command)
		cancel()
		if err == nil || d.ctx.Err() != nil || refusalOf(err) != nil {
			return reply, err
		}
		pause(d.ctx, try)
	}
}

// refusalOf is the failure with which rules have refused a command for good.
func refusalOf(err error) *machine.Failure {
	var refusal *machine.Failure
	if errors.As(err, &refusal) && !worthRetry(err) {
		return refusal
	}
	return nil
}

// tell gives the conversation a command of who asked for the run. What is told under the same name is the same command.
func (d *runDriver) tell(name string, command *conversationpb.Command) (*conversationpb.Reply, error) {
	return d.tellIn(d.ctx, name, command)
}

func (d *runDriver) tellIn(ctx context.Context, name string, command *conversationpb.Command) (*conversationpb.Reply, error) {
	command.ConversationId = d.run.GetConversationId()
	command.CommandId = d.commandID(name)
	command.BackgroundRun = d.run.GetId()
	command.Caller = &conversationpb.Caller{
		TenantId: d.run.GetTenantId(), ProjectId: d.run.GetProjectId(), UserId: d.run.GetUserId(), Identified: true,
		Trusted: d.run.GetTrusted(), TokenId: d.run.GetTokenId(),
	}
	return converse(ctx, d.at, command)
}

// tellBegin names the command that begins the turn.
const tellBegin = "begin"

func (d *runDriver) commandID(name string) string {
	if d.task != nil {
		return fmt.Sprintf("%s/%d/%s", d.at.ID, d.task.number, name)
	}
	return d.at.ID + "/" + name
}

// report tells the run, or its task, what was done, and learns what the rules make of it.
func (d *runDriver) report(command *runpb.Command) error {
	command.RunId = d.at.ID
	if d.task != nil {
		return d.reportToTask(command)
	}
	return repeat(d.ctx, func() error {
		answer, err := d.at.Ask(d.ctx, command)
		if reply, ok := answer.(*runpb.Reply); ok {
			d.run = reply.GetRun()
		}
		return err
	})
}
