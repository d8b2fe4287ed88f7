package run

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/proto/conversationpb"
	"parley/proto/runpb"
)

// recover has a run worked on whose driver was lost.
func (r *request) recover(*runpb.Recover) machine.Decision { return r.drive() }

// look has a run that waits see for itself what became of what it waits for.
func (r *request) look(*runpb.Look) machine.Decision {
	decision := r.decide()
	if r.state.GetAdmitted() && !r.state.Over() && !Driven(r.state) {
		decision.Effects = []machine.Effect{Drive{Run: r.state}}
	}
	return decision
}

// admitted makes a run one that will be carried out, or lets go of it.
func (r *request) admitted(c *runpb.Admitted) machine.Decision {
	if refused := c.GetRefused(); refused != nil {
		return machine.Decision{
			Delete: true, Reply: &runpb.Reply{},
			Settle: []machine.Settlement{{Key: keyAdmitted, Failure: decoded(refused)}},
		}
	}
	admitted := &runpb.Admitted{Placed: c.GetPlaced()}
	if !admitted.Placed {
		admitted.CheckAt = r.checkAt(0)
	}
	r.emit(&runpb.Event{Body: &runpb.Event_Admitted{Admitted: admitted}})
	decision := r.decide()
	decision.Settle = []machine.Settlement{{Key: keyAdmitted, Reply: decision.Reply}}
	return decision
}

func decoded(refused *conversationpb.Refused) *failure.Failure {
	f, _ := failure.Decode(refused) // details that are no object are none
	return f
}

// placed gives a run that is queued its place. What is told before the run is admitted, its driver asks for again.
func (r *request) placed(*runpb.Placed) machine.Decision {
	if !r.state.GetAdmitted() || r.state.GetStatus() != runpb.Status_QUEUED || r.state.GetPlaced() {
		return r.decide()
	}
	r.emit(&runpb.Event{Body: &runpb.Event_Placed{Placed: &runpb.Placed{}}})
	return r.drive()
}

// began notes that the turn of the run was accepted.
func (r *request) began(c *runpb.Began) machine.Decision {
	if r.state.GetStatus() != runpb.Status_QUEUED || c.GetTurnRunId() == "" {
		return r.decide()
	}
	r.emit(&runpb.Event{Body: &runpb.Event_Began{Began: c}})
	return r.decide()
}

// paused makes the run wait for a person, unless that is known, or it is being cancelled.
func (r *request) paused(c *runpb.Paused) machine.Decision {
	if r.state.GetCancelling() || r.state.GetTurnRunId() == "" {
		return r.decide()
	}
	if r.state.GetStatus() == runpb.Status_REQUIRES_ACTION &&
		slices.EqualFunc(r.state.GetPending(), c.GetTurn().GetPending(), sameAction) {
		return r.decide()
	}
	result := slim(c.GetTurn())
	r.emit(&runpb.Event{Body: &runpb.Event_Suspended{Suspended: &runpb.Suspended{Result: result}}})
	return r.rest(result)
}

func sameAction(x, y *conversationpb.PendingAction) bool { return x.GetId() == y.GetId() }

// rest answers those who wait for the run, and tells its callback address.
func (r *request) rest(result *conversationpb.TurnResult) machine.Decision {
	effects := r.callBack()
	decision := r.decide(effects...)
	told, _ := decision.Reply.(*runpb.Reply)
	told.Result = result
	decision.Settle = []machine.Settlement{{Key: keyRest, Reply: told}}
	return decision
}

// resumed makes a run go on for which a person has acted.
func (r *request) resumed(*runpb.Resumed) machine.Decision {
	if r.state.GetStatus() != runpb.Status_REQUIRES_ACTION {
		return r.decide()
	}
	r.emit(&runpb.Event{Body: &runpb.Event_Resumed{Resumed: &runpb.Resumed{}}})
	return r.decide()
}

// parked notes that a run that waits for a person has given its place back.
func (r *request) parked(*runpb.Parked) machine.Decision {
	if r.state.GetStatus() != runpb.Status_REQUIRES_ACTION || !r.state.GetPlaced() {
		return r.decide()
	}
	r.emit(&runpb.Event{Body: &runpb.Event_Parked{Parked: &runpb.Parked{CheckAt: r.checkAt(0)}}})
	return r.decide()
}

// ended settles how the run ended. Its driver goes on to let go of what the run has.
func (r *request) ended(c *runpb.Ended) machine.Decision {
	finished := &runpb.Finished{}
	finished.Status, finished.Error = howEnded(c)
	if c.GetTurn() != nil {
		finished.Result = slim(c.GetTurn())
	}
	r.emit(&runpb.Event{Body: &runpb.Event_Finished{Finished: finished}})
	decision := r.rest(finished.Result)
	decision.Settle = append(decision.Settle, machine.Settlement{Key: keyAdmitted, Reply: decision.Reply})
	return decision
}

// settled notes that conversation and place are let go.
func (r *request) settled(*runpb.Settled) machine.Decision {
	r.emit(&runpb.Event{Body: &runpb.Event_Settled{Settled: &runpb.Settled{}}})
	return r.decide()
}

// slim is what is kept of a turn's result: the session has the message that it answered.
func slim(turn *conversationpb.TurnResult) *conversationpb.TurnResult {
	kept := proto.CloneOf(turn)
	if message := kept.GetUserMessage(); message != nil {
		kept.UserMessage = &conversationpb.Message{Id: message.GetId(), RunId: message.GetRunId()}
	}
	return kept
}
