package run

import (
	"parley/actors/background"
	"parley/actors/kit"
	"parley/proto/conversationpb"
	"parley/proto/nodepb"
	"parley/proto/runpb"
)

// queries are the reads of runs.
func queries() []kit.Query {
	return []kit.Query{kit.Read(readRun)}
}

// readRun reads a run with its result. What was said in a session that is deleted is not shown any more.
func readRun(view kit.View, state *runpb.State, query *nodepb.RunQuery) (*nodepb.RunReply, error) {
	reply := &nodepb.RunReply{Run: state}
	if err := asItsSession(view, state); err != nil {
		return nil, err
	}
	if !state.GetHasResult() {
		return reply, nil
	}
	_, found, err := view.Head(state.GetConversationId())
	if err != nil {
		return nil, err
	}
	if !found {
		state.HasResult = false
		return reply, nil
	}
	reply.Result, err = kit.Item[conversationpb.TurnResult](view, query.GetId(), TableResults, ResultKey)
	if reply.Result != nil && state.GetStatus() == runpb.Status_REQUIRES_ACTION {
		reply.Result.Pending = background.Both(reply.GetResult().GetPending(), state.GetPending())
	}
	return reply, err
}

// asItsSession shows a run that waits as its session has it: the run hears only afterwards what a person has decided there, and
// who decided is not to be asked again.
func asItsSession(view kit.View, state *runpb.State) error {
	if state.GetStatus() != runpb.Status_REQUIRES_ACTION || state.GetCancelling() {
		return nil
	}
	left, found, err := background.Waits(view, state.GetConversationId(), state.GetTurnRunId(), state.GetPending())
	switch {
	case err != nil || !found:
		return err
	case len(left) == 0:
		state.Status, state.HasResult = runpb.Status_RUNNING, false
	}
	state.Pending = left
	return nil
}
