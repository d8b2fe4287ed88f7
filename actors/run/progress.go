package run

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/failure"
	"parley/proto/conversationpb"
	"parley/proto/runpb"
)

// recover has a run worked on whose driver was lost.
func (r *request) recover(*runpb.Recover) {
	for _, call := range r.Before.GetCallback().GetCalls() {
		if step, lost := r.limits.callbacks().Lost(call, r.Now); lost {
			r.callStep(call, step)
		}
	}
	r.drive()
}

// look has a run that waits see for itself what became of what it waits for.
func (r *request) look(*runpb.Look) {
	if r.Before.GetAdmitted() && !r.Before.Over() && !Driven(r.Before) {
		r.Effect(Drive{Run: r.Before})
	}
}

// admitted makes a run one that will be carried out, or lets go of it.
func (r *request) admitted(c *runpb.Admitted) {
	if refused := c.GetRefused(); refused != nil {
		r.Remove()
		r.SettleRefused(keyAdmitted, decoded(refused))
		r.Decision.Reply = &runpb.Reply{}
		return
	}
	admitted := &runpb.Admitted{Placed: c.GetPlaced()}
	if !admitted.Placed {
		admitted.CheckAt = r.checkAt(0)
	}
	r.Emit(&runpb.Event{Body: &runpb.Event_Admitted{Admitted: admitted}})
	r.Settle(keyAdmitted, replyOf(r.State()))
}

func decoded(refused *conversationpb.Refused) *failure.Failure {
	f, _ := failure.Decode(refused) // details that are no object are none
	return f
}

// placed gives a run that is queued its place. What is told before the run is admitted, its driver asks for again.
func (r *request) placed(*runpb.Placed) {
	if !r.Before.GetAdmitted() || r.Before.GetStatus() != runpb.Status_QUEUED || r.Before.GetPlaced() {
		return
	}
	r.Emit(&runpb.Event{Body: &runpb.Event_Placed{Placed: &runpb.Placed{}}})
	r.drive()
}

// began notes that the turn of the run was accepted.
func (r *request) began(c *runpb.Began) {
	if r.Before.GetStatus() != runpb.Status_QUEUED || c.GetTurnRunId() == "" {
		return
	}
	r.Emit(&runpb.Event{Body: &runpb.Event_Began{Began: c}})
}

// paused makes the run wait for a person, unless that is known, or it is being cancelled.
func (r *request) paused(c *runpb.Paused) {
	if r.Before.GetCancelling() || r.Before.GetTurnRunId() == "" {
		return
	}
	if r.Before.GetStatus() == runpb.Status_REQUIRES_ACTION &&
		slices.EqualFunc(r.Before.GetPending(), c.GetTurn().GetPending(), sameAction) {
		return
	}
	result := slim(c.GetTurn())
	r.Emit(&runpb.Event{Body: &runpb.Event_Suspended{Suspended: &runpb.Suspended{Result: result}}})
	r.rest(result)
}

func sameAction(x, y *conversationpb.PendingAction) bool { return x.GetId() == y.GetId() }

// rest answers those who wait for the run, and tells its callback address.
func (r *request) rest(result *conversationpb.TurnResult) {
	r.callBack()
	r.Decision.Reply = &runpb.Reply{Run: r.State(), Result: result}
	r.Settle(keyRest, r.Decision.Reply)
}

// resumed makes a run go on for which a person has acted.
func (r *request) resumed(*runpb.Resumed) {
	if r.Before.GetStatus() != runpb.Status_REQUIRES_ACTION {
		return
	}
	r.Emit(&runpb.Event{Body: &runpb.Event_Resumed{Resumed: &runpb.Resumed{}}})
}

// parked notes that a run that waits for a person has given its place back.
func (r *request) parked(*runpb.Parked) {
	if r.Before.GetStatus() != runpb.Status_REQUIRES_ACTION || !r.Before.GetPlaced() {
		return
	}
	r.Emit(&runpb.Event{Body: &runpb.Event_Parked{Parked: &runpb.Parked{CheckAt: r.checkAt(0)}}})
}

// ended settles how the run ended. Its driver goes on to let go of what the run has.
func (r *request) ended(c *runpb.Ended) {
	finished := &runpb.Finished{}
	finished.Status, finished.Error = howEnded(c)
	if c.GetTurn() != nil {
		finished.Result = slim(c.GetTurn())
	}
	r.Emit(&runpb.Event{Body: &runpb.Event_Finished{Finished: finished}})
	r.rest(finished.Result)
	r.Settle(keyAdmitted, r.Decision.Reply)
}

// settled notes that conversation and place are let go.
func (r *request) settled(*runpb.Settled) {
	r.Emit(&runpb.Event{Body: &runpb.Event_Settled{Settled: &runpb.Settled{}}})
}

// slim is what is kept of a turn's result: the session has the message that it answered.
func slim(turn *conversationpb.TurnResult) *conversationpb.TurnResult {
	kept := proto.CloneOf(turn)
	if message := kept.GetUserMessage(); message != nil {
		kept.UserMessage = &conversationpb.Message{Id: message.GetId(), RunId: message.GetRunId()}
	}
	return kept
}
