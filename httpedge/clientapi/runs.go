package clientapi

import (
	"context"
	"errors"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/entity"
	"parley/actors/machine"
	"parley/httpedge/turns"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/nodepb"
	"parley/proto/runpb"
)

// newRun makes a run in a session's shard and returns it once it is admitted.
func (a *API) newRun(ctx context.Context, session string, create *runpb.Create) (*runpb.Reply, error) {
	return a.askNewRun(ctx, a.mint(ctx, "run", session), create)
}

func (a *API) askNewRun(ctx context.Context, id string, create *runpb.Create) (*runpb.Reply, error) {
	command := a.runCommand(ctx, id, "run")
	command.Body = &runpb.Command_Create{Create: create}
	reply, err := a.askRun(ctx, command)
	if isCode(err, failurepb.Code_ALREADY_EXISTS) || err == nil && reply.GetRun().GetHasResult() {
		return a.run(ctx, id) // the request was given before: the id is its own
	}
	return reply, err
}

// askRun sends a command to a run, and again while its owner cannot be asked: its id makes that safe.
func (a *API) askRun(ctx context.Context, command *runpb.Command) (*runpb.Reply, error) {
	const soon = 3 * time.Second
	giveUp := time.Now().Add(soon)
	for pause := 20 * time.Millisecond; ; pause = min(3*pause, time.Second) {
		reply, err := entity.Ask[*runpb.Reply](ctx, a.Entities, command.GetRunId(), command)
		if err == nil || !turns.Gone(err) || time.Now().After(giveUp) {
			return reply, runFailure(err)
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(pause):
		}
	}
}

// run reads a run that the caller may see. Any other is not there.
func (a *API) run(ctx context.Context, id string) (*runpb.Reply, error) {
	if !turns.Plausible(id) {
		return nil, runNotFound()
	}
	read, err := entity.Read[*nodepb.RunReply](ctx, a.Entities, &nodepb.RunQuery{Id: id})
	if err != nil {
		return nil, runFailure(err)
	}
	reply := &runpb.Reply{Run: read.GetRun(), Result: read.GetResult()}
	if reply.GetRun().AccessOf(callerOf(ctx)) != conversationpb.AccessGranted {
		return nil, runNotFound()
	}
	return a.withSpent(ctx, reply)
}

// withSpent has the result of a run say what its session has spent by now, as all other answers do: more may have been since the
// turn ended, for a title or another turn. A session that is gone has spent what it had then.
func (a *API) withSpent(ctx context.Context, reply *runpb.Reply) (*runpb.Reply, error) {
	if reply.GetResult() == nil {
		return reply, nil
	}
	state, err := a.session(ctx, reply.GetRun().GetConversationId())
	switch {
	case isCode(err, failurepb.Code_SESSION_NOT_FOUND):
		return reply, nil
	case err != nil:
		return nil, err
	}
	if spent := state.GetSpentNanoUsd(); spent > reply.GetResult().GetSpentNanoUsd() {
		reply = proto.CloneOf(reply)
		reply.Result.SpentNanoUsd = spent
	}
	return reply, nil
}

func runNotFound() *machine.Failure {
	return machine.Fail(failurepb.Code_RUN_NOT_FOUND, "Run not found")
}

// runFailure words a refusal of a run's rules, or of its session's.
func runFailure(err error) error {
	if isCode(err, failurepb.Code_RUN_NOT_FOUND) {
		return runNotFound()
	}
	return sessionFailure(err)
}

type runIn struct {
	ID string `path:"runId"`
}

func (a *API) getRun(ctx context.Context, in *runIn) (*runRecord, error) {
	reply, err := a.run(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return newRunRecord(reply), nil
}

// cancelRun ends a run that is not over. The answer is the run as it is when its turn has ended, or when CancelWait is over.
func (a *API) cancelRun(ctx context.Context, in *runIn) (*runRecord, error) {
	reply, err := a.run(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if !reply.GetRun().Over() {
		command := a.runCommand(ctx, in.ID, "cancel")
		command.Body = &runpb.Command_Cancel{Cancel: &runpb.Cancel{}}
		if _, err = a.askRun(ctx, command); err != nil {
			return nil, err
		}
		reply, err = a.await(ctx, in.ID, a.config.CancelWait)
	}
	if err != nil {
		return nil, err
	}
	return newRunRecord(reply), nil
}

func (a *API) runCommand(ctx context.Context, id, step string) *runpb.Command {
	return &runpb.Command{RunId: id, CommandId: a.commandID(ctx, step), Caller: callerOf(ctx)}
}

type waitForRunIn struct {
	ID        string `path:"runId"`
	TimeoutMS string `query:"timeout_ms" doc:"How long to wait, in milliseconds; 30000 when left out, a longer wait than the server's longest is that"`

	timeout time.Duration // below 0 = as configured
}

// Validate implements endpoint.Validator.
func (in *waitForRunIn) Validate() *machine.Failure {
	in.timeout = -1
	if in.TimeoutMS == "" {
		return nil
	}
	const most = 24 * 60 * 60 * 1000
	ms, err := strconv.ParseInt(in.TimeoutMS, 10, 64)
	if err != nil || ms < 0 {
		return invalid("timeout_ms must be a whole number of milliseconds")
	}
	in.timeout = time.Duration(min(ms, most)) * time.Millisecond
	return nil
}

// waitForRun answers when the run is over or requires an action, or when the time is over: then with the run as it is.
func (a *API) waitForRun(ctx context.Context, in *waitForRunIn) (*runRecord, error) {
	reply, err := a.run(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	timeout := min(in.timeout, a.config.MaxRunWait)
	if in.timeout < 0 {
		timeout = a.config.RunWait
	}
	if atRest(reply.GetRun()) || timeout == 0 {
		return newRunRecord(reply), nil
	}
	if reply, err = a.await(ctx, in.ID, timeout); err != nil {
		return nil, err
	}
	return newRunRecord(reply), nil
}

// atRest says that nothing happens to a run by itself.
func atRest(run *runpb.State) bool {
	return run.Over() || run.GetStatus() == runpb.Status_REQUIRES_ACTION && !run.GetCancelling()
}

// await waits for a run and returns it as it is then.
func (a *API) await(ctx context.Context, id string, timeout time.Duration) (*runpb.Reply, error) {
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for pause := 20 * time.Millisecond; ; pause = min(3*pause, time.Second) {
		command := a.runCommand(ctx, id, "await")
		command.Body = &runpb.Command_Await{Await: &runpb.Await{}}
		reply, err := entity.Ask[*runpb.Reply](waiting, a.Entities, command.GetRunId(), command)
		switch {
		case err == nil && reply.GetRun() != nil && atRest(reply.GetRun()):
			return a.run(ctx, id) // with its result
		case err != nil && waiting.Err() == nil && !turns.Gone(err) && !errors.Is(err, context.DeadlineExceeded):
			return nil, runFailure(err)
		}
		select {
		case <-waiting.Done():
			return a.run(ctx, id)
		case <-time.After(pause):
		}
	}
}
