package conversation

import (
	"parley/actors/machine"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// Statuses of an answer (document 2, "A. Turn result").
const (
	statusCompleted  = "completed"
	statusCancelled  = "cancelled"
	statusIncomplete = "incomplete"
)

// Codes of turn errors that the rules themselves give.
const (
	errorInterrupted = "interrupted"
	errorInternal    = "internal_error"
)

// finish takes the runner's report: the answer, if there is one, and the end of the turn are one append. Only the
// holder of the lease may report; a run that was ended without its report, or restarted since, is refused.
func (r *request) finish(c *conversationpb.Finish) (machine.Decision, *machine.Failure) {
	if r.state == nil {
		return refuse(failurepb.Code_NOT_FOUND, "conversation not found")
	}
	lease := r.state.GetLease()
	stale := lease == nil || lease.GetRunId() != c.GetRunId() || c.GetEpoch() != 0 && c.GetEpoch() != lease.GetEpoch()
	if stale {
		return refuse(failurepb.Code_STALE_TURN, "the run does not hold the turn lease")
	}
	ended := r.ending(c)
	answer := r.answer(c, ended)
	if answer != nil {
		r.emit(lease.GetRunId(), &conversationpb.Event{Body: &conversationpb.Event_AgentMessage{
			AgentMessage: &conversationpb.AgentMessage{Message: answer},
		}})
	}
	r.emit(lease.GetRunId(), &conversationpb.Event{Body: &conversationpb.Event_TurnEnded{TurnEnded: ended}})
	result := &conversationpb.TurnResult{
		RunId:        lease.GetRunId(),
		UserMessage:  lease.GetUserMessage(),
		Response:     answer,
		StopReason:   ended.GetStopReason(),
		Usage:        ended.GetUsage(),
		Error:        ended.GetError(),
		Budget:       r.state.GetBudget(),
		SpentNanoUsd: spend(r.state.GetSpentNanoUsd(), ended.GetUsage().GetCostNanoUsd()),
		Title:        r.state.GetTitle(),
	}
	return r.ended(lease, result), nil
}

// ending is how the turn ended. A report that makes no sense still ends it, as an error: no turn runs for ever.
func (r *request) ending(c *conversationpb.Finish) *conversationpb.TurnEnded {
	ended := &conversationpb.TurnEnded{StopReason: c.GetStopReason(), Usage: c.GetUsage(), TakenOver: r.takeover()}
	switch c.GetStopReason() {
	case conversationpb.StopReason_END_TURN, conversationpb.StopReason_CANCELLED,
		conversationpb.StopReason_MAX_TURNS, conversationpb.StopReason_LIMIT:
	case conversationpb.StopReason_BUDGET_REACHED:
		// Document 1, "Budget": only a budget that pauses keeps the turn to be continued.
		ended.Continuable = r.state.GetBudget().GetOnReach() != onReachStop
	case conversationpb.StopReason_ERROR:
		ended.Error = &conversationpb.TurnError{Code: clean(c.GetError().GetCode()), Message: clean(c.GetError().GetMessage())}
		if ended.Error.Code == "" {
			ended.Error.Code = errorInternal
		}
	default:
		ended.StopReason = conversationpb.StopReason_ERROR
		ended.Error = &conversationpb.TurnError{Code: errorInternal, Message: "The turn ended without a reason."}
	}
	return ended
}

// answer is the message that the turn leaves: whole, or as far as it got. Nothing said leaves none, unless the
// model ended its turn so.
func (r *request) answer(c *conversationpb.Finish, ended *conversationpb.TurnEnded) *conversationpb.Message {
	status := statusIncomplete
	switch ended.GetStopReason() {
	case conversationpb.StopReason_END_TURN:
		status = statusCompleted
	case conversationpb.StopReason_CANCELLED:
		status = statusCancelled
	default:
	}
	if c.GetContent() == "" && status != statusCompleted {
		return nil
	}
	lease := r.state.GetLease()
	return &conversationpb.Message{
		Id:         r.env.NewID("msg"),
		Number:     r.state.GetNextMessage(),
		Role:       conversationpb.Role_ASSISTANT,
		Content:    clean(c.GetContent()),
		Status:     status,
		StopReason: ended.GetStopReason(),
		RunId:      lease.GetRunId(),
		CreatedAt:  r.now,
		UpdatedAt:  r.now,
		ToolCalls:  cleanCalls(c.GetToolCalls()),
		Usage:      c.GetUsage(),
		InReplyTo:  lease.GetUserMessage().GetId(),
	}
}

func cleanCalls(calls []*conversationpb.ToolCall) []*conversationpb.ToolCall {
	if len(calls) == 0 {
		return nil
	}
	cleaned := make([]*conversationpb.ToolCall, len(calls))
	for i, call := range calls {
		cleaned[i] = &conversationpb.ToolCall{
			Id:        clean(call.GetId()),
			Name:      clean(call.GetName()),
			Arguments: clean(call.GetArguments()),
			Result:    clean(call.GetResult()),
			Error:     clean(call.GetError()),
		}
	}
	return cleaned
}
