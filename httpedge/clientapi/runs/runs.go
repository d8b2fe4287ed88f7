package runs

import (
	"context"
	"errors"
	"strconv"
	"time"

	"parley/actors/core/entity"
	"parley/actors/core/failure"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/clientapi/render"
	"parley/httpedge/turns"
	"parley/proto/runpb"
)

type runIn struct {
	ID string `path:"runId"`
}

func (a *api) getRun(ctx context.Context, in *runIn) (*render.Run, error) {
	reply, err := a.Run(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return render.NewRun(reply), nil
}

// cancelRun ends a run that is not over. The answer is the run as it is when its turn has ended, or when CancelWait is over.
func (a *api) cancelRun(ctx context.Context, in *runIn) (*render.Run, error) {
	reply, err := a.Run(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if !reply.GetRun().Over() {
		command := a.RunCommand(ctx, in.ID, "cancel")
		command.Body = &runpb.Command_Cancel{Cancel: &runpb.Cancel{}}
		if _, err = a.AskRun(ctx, command); err != nil {
			return nil, err
		}
		reply, err = a.await(ctx, in.ID, a.Config.CancelWait)
	}
	if err != nil {
		return nil, err
	}
	return render.NewRun(reply), nil
}

type waitForRunIn struct {
	ID        string `path:"runId"`
	TimeoutMS string `query:"timeout_ms" doc:"How long to wait, in milliseconds; 30000 when left out, a longer wait than the server's longest is that"`

	timeout time.Duration // below 0 = as configured
}

// Validate implements endpoint.Validator.
func (in *waitForRunIn) Validate() *failure.Failure {
	in.timeout = -1
	if in.TimeoutMS == "" {
		return nil
	}
	const most = 24 * 60 * 60 * 1000
	ms, err := strconv.ParseInt(in.TimeoutMS, 10, 64)
	if err != nil || ms < 0 {
		return handler.Invalid(failure.NotMilliseconds).In("timeout_ms")
	}
	in.timeout = time.Duration(min(ms, most)) * time.Millisecond
	return nil
}

// waitForRun answers when the run is over or requires an action, or when the time is over: then with the run as it is.
func (a *api) waitForRun(ctx context.Context, in *waitForRunIn) (*render.Run, error) {
	reply, err := a.Run(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	timeout := min(in.timeout, a.Config.MaxRunWait)
	if in.timeout < 0 {
		timeout = a.Config.RunWait
	}
	if atRest(reply.GetRun()) || timeout == 0 {
		return render.NewRun(reply), nil
	}
	if reply, err = a.await(ctx, in.ID, timeout); err != nil {
		return nil, err
	}
	return render.NewRun(reply), nil
}

// atRest says that nothing happens to a run by itself.
func atRest(run *runpb.State) bool {
	return run.Over() || run.GetStatus() == runpb.Status_REQUIRES_ACTION && !run.GetCancelling()
}

// await waits for a run and returns it as it is then. A run that requires an action for its rules, but not as it is read, is
// about to hear that somebody has acted: it is waited for on.
func (a *api) await(ctx context.Context, id string, timeout time.Duration) (*runpb.Reply, error) {
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for pause := 20 * time.Millisecond; ; pause = min(3*pause, time.Second) {
		command := a.RunCommand(ctx, id, "await")
		command.Body = &runpb.Command_Await{Await: &runpb.Await{}}
		reply, err := entity.Ask[*runpb.Reply](waiting, a.Entities, command.GetRunId(), command)
		switch {
		case err == nil && reply.GetRun() != nil && atRest(reply.GetRun()):
			if reply, err = a.Run(ctx, id); err != nil || atRest(reply.GetRun()) { // with its result
				return reply, err
			}
		case err != nil && waiting.Err() == nil && !turns.Gone(err) && !errors.Is(err, context.DeadlineExceeded):
			return nil, handler.RunFailure(err)
		}
		select {
		case <-waiting.Done():
			return a.Run(ctx, id)
		case <-time.After(pause):
		}
	}
}
