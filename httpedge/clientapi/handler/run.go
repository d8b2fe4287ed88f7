package handler

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/entity"
	"parley/actors/core/failure"
	"parley/httpedge/endpoint"
	"parley/httpedge/turns"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/nodepb"
	"parley/proto/runpb"
)

// NewRun makes a run in a session's shard and returns it once it is admitted.
func (a *API) NewRun(ctx context.Context, session string, create *runpb.Create) (*runpb.Reply, error) {
	return a.AskNewRun(ctx, a.Mint(ctx, "run", session), create)
}

// AskNewRun is NewRun for a run whose id is known already.
func (a *API) AskNewRun(ctx context.Context, id string, create *runpb.Create) (*runpb.Reply, error) {
	command := a.RunCommand(ctx, id, "run")
	command.Body = &runpb.Command_Create{Create: create}
	reply, err := a.AskRun(ctx, command)
	if IsCode(err, failurepb.Code_ALREADY_EXISTS) || err == nil && reply.GetRun().GetHasResult() {
		return a.Run(ctx, id) // the request was given before: the id is its own
	}
	return reply, err
}

// AskRun sends a command to a run, and retries while its owner is not reachable: the command id makes that safe.
func (a *API) AskRun(ctx context.Context, command *runpb.Command) (*runpb.Reply, error) {
	const soon = 3 * time.Second
	giveUp := time.Now().Add(soon)
	for pause := 20 * time.Millisecond; ; pause = min(3*pause, time.Second) {
		reply, err := entity.Ask[*runpb.Reply](ctx, a.Entities, command.GetRunId(), command)
		if err == nil || !turns.Gone(err) || time.Now().After(giveUp) {
			return reply, RunFailure(err)
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(pause):
		}
	}
}

// Run reads a run. One that the caller may not see is not found.
func (a *API) Run(ctx context.Context, id string) (*runpb.Reply, error) {
	if !turns.Plausible(id) {
		return nil, runNotFound()
	}
	read, err := entity.Read[*nodepb.RunReply](ctx, a.Entities, &nodepb.RunQuery{Id: id})
	if err != nil {
		return nil, RunFailure(err)
	}
	reply := &runpb.Reply{Run: read.GetRun(), Result: read.GetResult()}
	if conversationpb.AccessTo(reply.GetRun(), callerOf(ctx)) != conversationpb.AccessGranted {
		return nil, runNotFound()
	}
	return a.withSpent(ctx, reply)
}

// withSpent sets the spending in a run's result to that of its session now, as in all other answers: a title or another turn may
// have added to it since. For a deleted session it stays as it was.
func (a *API) withSpent(ctx context.Context, reply *runpb.Reply) (*runpb.Reply, error) {
	if reply.GetResult() == nil {
		return reply, nil
	}
	state, err := a.Session(ctx, reply.GetRun().GetConversationId())
	switch {
	case IsCode(err, failurepb.Code_SESSION_NOT_FOUND):
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

func runNotFound() *failure.Failure {
	return failure.New(failurepb.Code_RUN_NOT_FOUND, failure.RunNotFound)
}

// RunFailure hides runs and sessions of other callers behind RUN_NOT_FOUND.
func RunFailure(err error) error {
	if IsCode(err, failurepb.Code_RUN_NOT_FOUND) {
		return runNotFound()
	}
	return SessionFailure(err)
}

// RunCommand returns a command of the request's caller to a run, see Command.
func (a *API) RunCommand(ctx context.Context, id, step string) *runpb.Command {
	return &runpb.Command{RunId: id, CommandId: endpoint.CommandID(ctx, a.IDs, step), Caller: callerOf(ctx)}
}
