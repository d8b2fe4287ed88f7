package conversation

import (
	"cmp"

	"parley/proto/conversationpb"
)

// cancelKey is what the senders of a cancel wait for. No run id contains a colon.
func cancelKey(run string) string { return "cancel:" + run }

func stateReply(s *conversationpb.State) *conversationpb.Reply {
	return &conversationpb.Reply{Body: &conversationpb.Reply_State{State: s}}
}

func (r *request) acceptedReply(run string, message *conversationpb.Message, seq uint64) *conversationpb.Reply {
	title := r.state.GetTitle()
	for _, event := range r.Emitted() {
		if event, ok := event.(*conversationpb.Event); ok {
			title = cmp.Or(event.GetUserMessage().GetTitle(), title)
		}
	}
	return &conversationpb.Reply{Body: &conversationpb.Reply_Accepted{
		Accepted: &conversationpb.Accepted{RunId: run, UserMessage: message, Seq: seq, Title: title},
	}}
}

func turnReply(result *conversationpb.TurnResult) *conversationpb.Reply {
	return &conversationpb.Reply{Body: &conversationpb.Reply_Turn{Turn: result}}
}

func cancelledReply(c *conversationpb.Cancelled) *conversationpb.Reply {
	return &conversationpb.Reply{Body: &conversationpb.Reply_Cancelled{Cancelled: c}}
}

// knownResult tells of an ended run what the head still knows. It is partial: texts, usage and error are in the
// run's row and the message rows.
func (r *request) knownResult(run string) *conversationpb.Reply {
	s := r.state
	if s.GetPaused().GetRunId() == run {
		return turnReply(pausedResult(s))
	}
	result := &conversationpb.TurnResult{
		RunId:        run,
		Budget:       s.GetBudget(),
		SpentNanoUsd: s.GetSpentNanoUsd(),
		Title:        s.GetTitle(),
		Partial:      true,
	}
	for _, o := range s.GetOutcomes() {
		if o.GetRunId() == run && o.GetUserMessageId() != "" {
			result.UserMessage = &conversationpb.Message{
				Id: o.GetUserMessageId(), Role: conversationpb.Role_USER, RunId: run,
			}
		}
	}
	if s.GetLastRunId() == run {
		result.StopReason = s.GetStopReason()
		result.Pending = s.GetPending()
	}
	return turnReply(result)
}

// ended settles those who wait for the run's end and, after a cancel, those who wait for that: as soon as a former owner
// of the run must be silent, too.
func (r *request) ended(lease *conversationpb.Lease, result *conversationpb.TurnResult) {
	run := lease.GetRunId()
	r.Decision.Reply = turnReply(result)
	r.Settle(run, r.Decision.Reply)
	if !lease.GetCancelling() {
		return
	}
	// A turn that ended by itself before the cancel took effect was not cancelled, and nothing of it can follow.
	cancelled := result.GetStopReason() == conversationpb.StopReason_CANCELLED
	if loud := r.loud(); loud > 0 {
		r.Effect(r.cancelTimer(loud, &conversationpb.CancelTimeout{RunId: run, Silent: true, Cancelled: cancelled}))
		return
	}
	told := &conversationpb.Cancelled{Cancelled: cancelled, Settled: true, State: r.State()}
	if cancelled {
		told.RunId = run
	}
	r.Settle(cancelKey(run), cancelledReply(told))
}

// endNow ends a turn whose runner will not report, and settles everyone.
func (r *request) endNow(reason conversationpb.StopReason, turnError *conversationpb.TurnError) {
	lease := r.state.GetLease()
	lost := lostCall(lease)
	ended := &conversationpb.TurnEnded{
		StopReason: reason, Error: turnError, Usage: addUsage(lease.GetUsage(), lost), TakenOver: r.takeover(),
	}
	result := r.end(lease, ended, lost, r.cutAnswer(lease, reason))
	r.next()
	r.ended(lease, result)
}
