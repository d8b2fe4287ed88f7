package turns

import (
	"context"
	"errors"
	"time"

	"parley/actors/core/entity"
	"parley/actors/machine"
	"parley/proto/failurepb"
	"parley/proto/runpb"
)

// RunCancel cancels the background run that holds a conversation.
type RunCancel struct {
	Entities entity.Client
	// Command returns a command on the run; its command id follows from the step.
	Command func(step string) *runpb.Command
	// Until is the time at which the caller gets an answer, whether the run is over or not.
	Until time.Time
}

// Cancel cancels the run and returns its state, nil when there is no run that the caller may cancel.
func (c *RunCancel) Cancel(ctx context.Context) (*runpb.State, error) {
	for {
		command := c.Command("cancel run")
		command.Body = &runpb.Command_Cancel{Cancel: &runpb.Cancel{}}
		reply, err := entity.Ask[*runpb.Reply](ctx, c.Entities, command.GetRunId(), command)
		switch {
		case noRun(err):
			return nil, nil //nolint:nilnil // it ended long ago
		case err == nil || !Gone(err) || !time.Now().Before(c.Until) || !c.pause(ctx):
			return reply.GetRun(), err
		}
	}
}

// Wait returns the run once it is over, or its last known state when the time is up.
func (c *RunCancel) Wait(ctx context.Context, run *runpb.State) *runpb.State {
	waiting, cancel := context.WithDeadline(ctx, c.Until)
	defer cancel()
	for run != nil && !run.Over() && waiting.Err() == nil {
		command := c.Command("await run")
		command.Body = &runpb.Command_Await{Await: &runpb.Await{}}
		reply, err := entity.Ask[*runpb.Reply](waiting, c.Entities, command.GetRunId(), command)
		switch {
		case err == nil && reply.GetRun() != nil:
			run = reply.GetRun()
		case err != nil && !Gone(err):
			return run
		}
		if !run.Over() && !c.pause(waiting) {
			break
		}
	}
	return run
}

func (c *RunCancel) pause(ctx context.Context) bool {
	const soon = 20 * time.Millisecond
	select {
	case <-ctx.Done():
		return false
	case <-time.After(soon):
		return true
	}
}

// Cancelled says that a run was, or is about to be, cancelled.
func Cancelled(run *runpb.State) bool {
	return run != nil && (!run.Over() || run.GetStatus() == runpb.Status_CANCELED)
}

func noRun(err error) bool {
	failure, is := errors.AsType[*machine.Failure](err)
	return is && (failure.Code == failurepb.Code_RUN_NOT_FOUND || failure.Code == failurepb.Code_NOT_FOUND)
}
