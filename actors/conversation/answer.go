package conversation

import (
	"encoding/json"
	"slices"

	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// answerCalls takes results of function calls that the caller's side has run, all in one append. The turn goes on once
// nothing is pending any more, under the options that came with them.
func (r *request) answerCalls(c *conversationpb.Answer) *machine.Failure {
	if of := c.GetOfAgent(); of != "" && (!r.state.IsSession() || r.state.GetAgentId() != of) {
		return conversationNotFound()
	}
	actions, f := r.answeredActions(c.GetOutputs())
	if f != nil {
		return f
	}
	if slices.ContainsFunc(actions, func(action *conversationpb.PendingAction) bool { return action.GetExpiresAt() <= r.Now }) {
		r.answeredTooLate(actions)
		return nil
	}
	if f = checkOptions(c.GetOptions()); f != nil {
		return f
	}
	if f = r.checkContext(r.Command.GetRuntimeContext()); f != nil {
		return f
	}
	r.answered(c, actions)
	return nil
}

// answeredActions are the pending actions of the calls, in their order.
func (r *request) answeredActions(outputs []*conversationpb.ToolCall) ([]*conversationpb.PendingAction, *machine.Failure) {
	var actions []*conversationpb.PendingAction
	for _, output := range outputs {
		at := slices.IndexFunc(r.state.GetPending(), func(action *conversationpb.PendingAction) bool {
			return action.GetToolCallId() == output.GetId() && action.GetKind() == conversationpb.KindClient
		})
		switch {
		case at < 0 || slices.Contains(actions, r.state.GetPending()[at]):
			if r.state.GetLease() != nil {
				return nil, r.notRunning()
			}
			return nil, failure.New(failurepb.Code_ACTION_NOT_PENDING, failure.NoSuchOpenCall).Param("call", clean(output.GetId()[:min(len(output.GetId()), maxCommandID)]))
		case max(len(output.GetResult()), len(output.GetError())) > r.limits.ClientToolOutputBytes:
			return nil, failure.New(failurepb.Code_INVALID_CLIENT_TOOL_RESULT, failure.OutputTooLarge).In("output").Param("most", r.limits.ClientToolOutputBytes)
		}
		actions = append(actions, r.state.GetPending()[at])
	}
	if len(actions) == 0 {
		return nil, failure.New(failurepb.Code_VALIDATION, failure.NoOutputs)
	}
	return actions, nil
}

// answeredTooLate is resolveTooLate for several actions.
func (r *request) answeredTooLate(actions []*conversationpb.PendingAction) {
	late := slices.IndexFunc(actions, func(action *conversationpb.PendingAction) bool { return action.GetExpiresAt() <= r.Now })
	r.resolveTooLate(actions[late])
}

func (r *request) answered(c *conversationpb.Answer, actions []*conversationpb.PendingAction) {
	before, run := r.state.GetLastSeq(), actions[0].GetRunId()
	last := len(r.state.GetPending()) == len(actions)
	for i, action := range actions {
		output := c.GetOutputs()[i]
		told := resolution{Type: conversationpb.KindClient, Error: clean(output.GetError())}
		if output.GetError() == "" {
			told.Output, _ = json.Marshal(clean(output.GetResult())) // a text always encodes
		}
		closed := closedWith(action, told, clean(output.GetResult()), clean(output.GetError()))
		closed.By = r.by()
		if !last && i == len(actions)-1 { // else the resumption remembers the command
			closed.CommandId, closed.IssuedAt = r.Command.GetCommandId(), r.Command.GetIssuedAt()
		}
		r.close(action, conversationpb.HowResolved, closed)
	}
	if !last {
		r.Decision.Reply = turnReply(pausedResult(r.State()))
		return
	}
	options := c.GetOptions()
	if options == nil {
		options = &conversationpb.TurnOptions{} // what the turn had is not for the rest of it
	}
	r.setOptions(run, options)
	r.resume(conversationpb.Mode_RESOLVE, before, r.Command)
	r.awaited(c.GetWait(), before)
}
