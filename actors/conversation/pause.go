package conversation

import (
	"strconv"
	"time"

	"parley/proto/conversationpb"
)

// pauseArgs is how many times Limits.ActionArgsBytes the actions of one pause take together: what they carry stands in the
// entry that is written several times over.
const pauseArgs = 8

// maxActionTimeout bounds what a tool's policy may give a person: nobody looks after ten years.
const maxActionTimeout = 10 * 365 * 24 * time.Hour

// What the model is told of a call that no person was asked about.
const (
	tellTooMany  = "not run: too many calls wait for a person at the same time"
	tellTooLarge = "not run: the arguments are too large, or no JSON object, to be shown to a person"
)

// pause gives the turn up until people have decided the calls that are open. What the turn has said so far becomes a
// message; whoever waits for the run is told.
func (r *request) pause(c *conversationpb.Progress, calls []*conversationpb.OpenCall) {
	run := c.GetRunId()
	actions, unfit := r.actions(c, calls)
	if len(unfit) > 0 {
		r.emit(run, &conversationpb.Event{Body: &conversationpb.Event_ToolResults{
			ToolResults: &conversationpb.ToolResults{Results: unfit},
		}})
	}
	if len(actions) == 0 {
		r.Decision.Reply = progressedReply(r.State().GetLease(), false)
		return
	}
	for _, action := range actions {
		r.emit(run, &conversationpb.Event{Body: &conversationpb.Event_ActionRequested{
			ActionRequested: &conversationpb.ActionRequested{Action: action},
		}})
	}
	lease := r.State().GetLease()
	answer := r.newAnswer(lease, statusWaiting, conversationpb.StopReason_REQUIRES_ACTION)
	say(answer, ownAnswer(lease), c.GetContent(), c.GetToolCalls())
	answer.Usage = lease.GetUsage()
	answer.Pending = actions
	r.emit(run, &conversationpb.Event{Body: &conversationpb.Event_TurnPaused{
		TurnPaused: &conversationpb.TurnPaused{Answer: answer},
	}})
	after := r.State()
	r.Decision.Reply = progressedReply(after.GetPaused(), true)
	r.Settle(run, turnReply(pausedResult(after)))
}

// actions are what people must decide, and the results of the calls that cannot be put before one.
func (r *request) actions(
	c *conversationpb.Progress, calls []*conversationpb.OpenCall,
) (actions []*conversationpb.PendingAction, unfit []*conversationpb.ToolCall) {
	group := c.GetRunId() + "/" + strconv.FormatUint(uint64(r.State().GetLease().GetSteps()), 10)
	left := pauseArgs * r.limits.ActionArgsBytes
	for _, call := range calls {
		if call.GetDone() || call.GetNeed() == conversationpb.Need_RUN {
			continue
		}
		args := shown(call.GetArgs(), argumentsOf(c.GetToolCalls(), call.GetId()))
		size := len(args) + len(call.GetSchema()) + len(call.GetDetails())
		tell := ""
		switch {
		case len(args) == 0 || args[0] != '{', size > r.limits.ActionArgsBytes:
			tell = tellTooLarge
		case len(actions) >= r.limits.MaxPending || size > left:
			tell = tellTooMany
		}
		if tell != "" {
			unfit = append(unfit, &conversationpb.ToolCall{Id: call.GetId(), Name: call.GetName(), Error: tell})
			continue
		}
		left -= size
		actions = append(actions, &conversationpb.PendingAction{
			Id:             r.Env.NewID("act"),
			Kind:           kindOf(call.GetNeed()),
			RunId:          c.GetRunId(),
			ToolName:       call.GetName(),
			ToolCallId:     call.GetId(),
			Args:           args,
			Details:        call.GetDetails(),
			CreatedAt:      r.Now,
			ExpiresAt:      r.Now + r.patience(call).Milliseconds(),
			Schema:         call.GetSchema(),
			UnknownOutcome: call.GetNeed() == conversationpb.Need_OUTCOME,
			Group:          group,
			OfCaller:       call.GetOfCaller(),
		})
	}
	return actions, unfit
}

func kindOf(need conversationpb.Need) string {
	switch need {
	case conversationpb.Need_QUESTION:
		return conversationpb.KindQuestion
	case conversationpb.Need_CLIENT:
		return conversationpb.KindClient
	default:
		return conversationpb.KindApproval
	}
}

// patience is how long a person has.
func (r *request) patience(call *conversationpb.OpenCall) time.Duration {
	ms := call.GetActionTimeoutMs()
	if ms <= 0 {
		return r.limits.ActionTimeout
	}
	if ms > maxActionTimeout.Milliseconds() {
		return maxActionTimeout
	}
	return time.Duration(ms) * time.Millisecond
}

// argumentsOf finds a call among those of the turn.
func argumentsOf(calls []*conversationpb.ToolCall, id string) *conversationpb.ToolCall {
	for i := len(calls) - 1; i >= 0; i-- {
		if calls[i].GetId() == id {
			return calls[i]
		}
	}
	return nil
}

// pausedResult tells of a turn that waits, for a person or to be continued. The head knows all of it.
func pausedResult(s *conversationpb.State) *conversationpb.TurnResult {
	paused := s.GetPaused()
	return &conversationpb.TurnResult{
		RunId:        paused.GetRunId(),
		UserMessage:  paused.GetUserMessage(),
		Response:     withPending(paused.GetAnswer(), s.GetPending()),
		StopReason:   s.GetStopReason(),
		Usage:        paused.GetUsage(),
		Budget:       s.GetBudget(),
		SpentNanoUsd: s.GetSpentNanoUsd(),
		Pending:      s.GetPending(),
		Title:        s.GetTitle(),
	}
}

// resume lets a paused turn go on under this owner. by is the command that asked for that, nil = none did. From then on
// the turn is put down to whoever gave it.
func (r *request) resume(mode conversationpb.Mode, after uint64, by *conversationpb.Command) {
	paused := r.State().GetPaused()
	user, token := paused.GetByUser(), paused.GetByToken()
	if by != nil {
		user, token = r.by(), name(by.GetCaller().GetTokenId())
	}
	r.emit(paused.GetRunId(), &conversationpb.Event{Body: &conversationpb.Event_TurnResumed{TurnResumed: &conversationpb.TurnResumed{
		Lease: &conversationpb.Lease{
			Node: r.Env.Node, Epoch: r.Env.Epoch, RunId: paused.GetRunId(), StartedAt: paused.GetStartedAt(), Mode: mode,
			Attempt: 1, AttemptAt: r.Now, ResumedAt: paused.GetSteps(),
			ByUser: user, ByToken: token, RuntimeContext: by.GetRuntimeContext(),
		},
		CommandId: by.GetCommandId(), AfterSeq: after, IssuedAt: by.GetIssuedAt(),
	}}})
	state := r.State()
	lease := state.GetLease()
	r.Effect(startTurn(state, lease, lease.GetUserMessage()))
}

// awaited has the sender of a command that let a turn go on wait for its end, or tells that it was accepted.
func (r *request) awaited(wait bool, after uint64) {
	lease := r.State().GetLease()
	if wait {
		r.Await(lease.GetRunId())
		return
	}
	r.Decision.Reply = r.acceptedReply(lease.GetRunId(), lease.GetUserMessage(), after)
}
