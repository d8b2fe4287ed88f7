package conversation

import (
	"encoding/json"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/money"
	"parley/actors/machine"
	"parley/proto/conversationpb"
)

// Statuses of an answer (document 2, "A. Turn result").
const (
	statusCompleted  = "completed"
	statusCancelled  = "cancelled"
	statusIncomplete = "incomplete"
	statusWaiting    = "requires_action"
)

// Codes of turn errors that the rules themselves give.
const (
	errorInterrupted = "interrupted"
	errorInternal    = "internal_error"
)

// maxErrorDetails bounds what a runner tells of an error besides its words, in bytes.
const maxErrorDetails = 16 << 10

// finish takes the runner's report: the answer, if there is one, and the end of the turn are one append. Only the
// holder of the lease may report; a run that was ended without its report, or restarted since, is refused.
func (r *request) finish(c *conversationpb.Finish) *machine.Failure {
	if f := r.holds(c.GetRunId(), c.GetEpoch()); f != nil {
		return f
	}
	lease, run := r.state.GetLease(), c.GetRunId()
	usage := sane(c.GetUsage())
	if usage.GetModelCalls() == 0 && c.GetPartial() != nil {
		usage = addUsage(usage, sane(c.GetPartial().GetUsage()))
	}
	r.limit = c.GetLimitNanoUsd()
	switch {
	case c.GetStopReason() != conversationpb.StopReason_BUDGET_REACHED:
	case c.Steps != nil && c.GetSteps() < lease.GetSteps():
		return r.reply(progressedReply(lease, false)) // the turn went on with this report already
	case r.moreToSpend(c, usage):
		return r.goOn(c, usage)
	}
	ended := r.ending(c)
	ended.Usage = addUsage(lease.GetUsage(), usage)
	if ended.GetContinuable() && c.GetPartial().GetText() != "" {
		r.emit(run, &conversationpb.Event{Body: &conversationpb.Event_Partial{Partial: &conversationpb.Partial{
			Text: clean(c.GetPartial().GetText()), Usage: sane(c.GetPartial().GetUsage()),
		}}})
	}
	title := r.generatedTitle(c.GetTitle())
	if title != nil {
		r.emit(run, &conversationpb.Event{Body: &conversationpb.Event_Updated{Updated: title}})
	}
	result := r.end(lease, ended, usage, r.answer(c, ended))
	if title != nil {
		result.Title = title.GetPatch().GetTitle()
	}
	r.next()
	r.ended(lease, result)
	return nil
}

// moreToSpend says that the budget which ended the turn is not in force any more: it was raised or removed meanwhile, and what
// is in force has something left.
func (r *request) moreToSpend(c *conversationpb.Finish, usage *conversationpb.Usage) bool {
	budget, limit := r.state.GetBudget(), r.state.GetBudget().GetMaxCostNanoUsd()
	switch {
	case r.state.GetLease().GetCancelling(), r.limit <= 0:
		return false
	case budget == nil:
		return true
	}
	return r.limit < limit && money.Add(r.state.GetSpentNanoUsd(), usage.GetCostNanoUsd()) < limit
}

// goOn has a turn that a former budget cut start anew behind what it has said (document 2, "Limits": raising a budget takes
// effect in the turn that runs). Its followers see the text go on.
func (r *request) goOn(c *conversationpb.Finish, usage *conversationpb.Usage) *machine.Failure {
	run := c.GetRunId()
	r.emit(run, &conversationpb.Event{Body: &conversationpb.Event_Partial{Partial: &conversationpb.Partial{
		Text: clean(c.GetPartial().GetText()), Usage: usage, Charged: true,
	}}})
	r.settled(run, usage)
	state := r.State()
	r.Effect(startTurn(state, state.GetLease(), state.GetLease().GetUserMessage()))
	return r.reply(progressedReply(state.GetLease(), false))
}

// end emits the events with which a turn ends: its answer, what it cost that was not told before, and the end itself.
func (r *request) end(
	turn *conversationpb.Lease, ended *conversationpb.TurnEnded, usage *conversationpb.Usage, answer *conversationpb.Message,
) *conversationpb.TurnResult {
	run := turn.GetRunId()
	if answer != nil {
		r.emit(run, &conversationpb.Event{Body: &conversationpb.Event_AgentMessage{
			AgentMessage: &conversationpb.AgentMessage{Message: answer},
		}})
	}
	spent := money.Add(r.state.GetSpentNanoUsd(), usage.GetCostNanoUsd())
	r.settled(run, usage)
	r.reached(run, ended.GetStopReason(), spent)
	r.emit(run, &conversationpb.Event{Body: &conversationpb.Event_TurnEnded{TurnEnded: ended}})
	return &conversationpb.TurnResult{
		RunId:        run,
		UserMessage:  turn.GetUserMessage(),
		Response:     answer,
		StopReason:   ended.GetStopReason(),
		Usage:        ended.GetUsage(),
		Error:        ended.GetError(),
		Budget:       r.state.GetBudget(),
		SpentNanoUsd: spent,
		Title:        r.state.GetTitle(),
	}
}

// ending is how the turn ended. A report that makes no sense still ends it, as an error: no turn runs for ever.
func (r *request) ending(c *conversationpb.Finish) *conversationpb.TurnEnded {
	ended := &conversationpb.TurnEnded{StopReason: c.GetStopReason(), TakenOver: r.takeover()}
	switch c.GetStopReason() {
	case conversationpb.StopReason_END_TURN, conversationpb.StopReason_CANCELLED,
		conversationpb.StopReason_MAX_TURNS, conversationpb.StopReason_LIMIT:
	case conversationpb.StopReason_BUDGET_REACHED:
		// Document 1, "Budget": only a budget that pauses keeps the turn to be continued.
		ended.Continuable = r.state.GetBudget().GetOnReach() != onReachStop
	case conversationpb.StopReason_ERROR:
		ended.Error = &conversationpb.TurnError{Code: clean(c.GetError().GetCode()), Message: clean(c.GetError().GetMessage())}
		if details := c.GetError().GetDetails(); len(details) <= maxErrorDetails && json.Valid(details) {
			ended.Error.Details = details
		}
		if ended.Error.Code == "" {
			ended.Error.Code = errorInternal
		}
	default:
		ended.StopReason = conversationpb.StopReason_ERROR
		ended.Error = &conversationpb.TurnError{Code: errorInternal, Message: "The turn ended without a reason."}
	}
	return ended
}

// answer is the message that the turn leaves: whole, or as far as it got. Nothing said and no tool called leaves none,
// unless the model ended its turn so, or a pause stored one.
func (r *request) answer(c *conversationpb.Finish, ended *conversationpb.TurnEnded) *conversationpb.Message {
	lease, status := r.state.GetLease(), answerStatus(ended.GetStopReason())
	if old, kept := keptAnswer(lease, ended.GetStopReason()); kept {
		return old
	}
	nothing := c.GetContent() == "" && len(c.GetToolCalls()) == 0 // what a tool did must not be forgotten
	if nothing && status != statusCompleted && ownAnswer(lease) == nil {
		return nil
	}
	answer := r.newAnswer(lease, status, ended.GetStopReason())
	say(answer, ownAnswer(lease), c.GetContent(), c.GetToolCalls())
	answer.Usage = ended.GetUsage()
	return answer
}

// keptAnswer is what stays the answer where a turn that was to replace it did not get to its end: cancelled, broken, or cut by
// the budget (document 2, "Rules for sending a message": the old answer is removed only after the new one is stored). nil = it
// is still in its place; else a pause had stored a part of the new one there.
func keptAnswer(turn *conversationpb.Lease, reason conversationpb.StopReason) (old *conversationpb.Message, kept bool) {
	switch reason {
	case conversationpb.StopReason_CANCELLED, conversationpb.StopReason_ERROR, conversationpb.StopReason_BUDGET_REACHED:
	default:
		return nil, false
	}
	old = turn.GetReplaces()
	switch {
	case old == nil:
		return nil, false
	case ownAnswer(turn) == nil:
		return nil, true
	}
	return old, true
}

// ownAnswer is the answer that a turn has stored so far, nil = none. Where the budget cut a turn that was to replace an answer,
// that one is back in its place, and is not the turn's own.
func ownAnswer(turn *conversationpb.Lease) *conversationpb.Message {
	if answer := turn.GetAnswer(); !proto.Equal(answer, turn.GetReplaces()) {
		return answer
	}
	return nil
}

// say gives an answer its text and calls. A runner that knows of neither, because it could not even read what there is,
// does not take away what was stored.
func say(answer, stored *conversationpb.Message, content string, calls []*conversationpb.ToolCall) {
	answer.Content, answer.ToolCalls = clean(content), cleanCalls(calls)
	if content == "" && len(calls) == 0 {
		answer.Content, answer.ToolCalls = stored.GetContent(), stored.GetToolCalls()
	}
}

func answerStatus(reason conversationpb.StopReason) string {
	switch reason {
	case conversationpb.StopReason_END_TURN:
		return statusCompleted
	case conversationpb.StopReason_CANCELLED:
		return statusCancelled
	default:
		return statusIncomplete
	}
}

// newAnswer is a message of the turn without its text: a new one, or the one that it stored before as it is to be now.
func (r *request) newAnswer(
	turn *conversationpb.Lease, status string, reason conversationpb.StopReason,
) *conversationpb.Message {
	answer := &conversationpb.Message{
		Role:       conversationpb.Role_ASSISTANT,
		Status:     status,
		StopReason: reason,
		RunId:      turn.GetRunId(),
		CreatedAt:  r.Now,
		UpdatedAt:  r.Now,
		InReplyTo:  turn.GetUserMessage().GetId(),
	}
	if stored := ownAnswer(turn); stored != nil {
		answer.Id, answer.Number, answer.CreatedAt = stored.GetId(), stored.GetNumber(), stored.GetCreatedAt()
		answer.Metadata, answer.PreviousContent = stored.GetMetadata(), stored.GetPreviousContent()
		answer.RegeneratedFrom = stored.GetRegeneratedFrom()
		return answer
	}
	answer.Id, answer.Number = r.Env.NewID("msg"), r.state.GetNextMessage()
	r.replacing(answer)
	return answer
}

// cutAnswer is the answer of a turn that ends without a report: the one that it stored, as that of an ended turn, or
// none.
func (r *request) cutAnswer(turn *conversationpb.Lease, reason conversationpb.StopReason) *conversationpb.Message {
	if old, kept := keptAnswer(turn, reason); kept {
		return old
	}
	stored := ownAnswer(turn)
	if stored == nil {
		return nil
	}
	answer := r.newAnswer(turn, answerStatus(reason), reason)
	answer.Content, answer.ToolCalls, answer.Usage = stored.GetContent(), stored.GetToolCalls(), turn.GetUsage()
	return answer
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
			TookMs:    max(call.GetTookMs(), 0),
		}
	}
	return cleaned
}
