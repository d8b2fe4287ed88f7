package run

import (
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
	return reply, err
}
