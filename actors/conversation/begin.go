package conversation

import (
	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// ready refuses a new turn where there can be none: another one runs, a person must act, the budget is used up; and one
// whose context is too large to be kept with it.
func (r *request) ready(agent *agentpb.Agent) *machine.Failure {
	if f := r.free(); f != nil {
		return f
	}
	if f := r.checkContext(r.command.GetRuntimeContext()); f != nil {
		return f
	}
	return r.affordable(agent)
}

// newLease is the right to run a new turn, on this node.
func (r *request) newLease(run string, mode conversationpb.Mode) *conversationpb.Lease {
	return &conversationpb.Lease{
		Node:      r.env.Node,
		Epoch:     r.env.Epoch,
		RunId:     run,
		StartedAt: r.now,
		Mode:      mode,
		Attempt:   1,

		AgentVersion:   r.command.GetAgentVersion(),
		ByUser:         r.by(),
		ByToken:        name(r.command.GetCaller().GetTokenId()),
		RuntimeContext: r.command.GetRuntimeContext(),
	}
}

// sealing is how much larger the edge may make a runtime context by sealing it.
const sealing = 2

// checkContext bounds a runtime context. What is in it is the edge's business, which has sealed it.
func (r *request) checkContext(sealed []byte) *machine.Failure {
	if limit := sealing * r.limits.ContextBytes; len(sealed) > limit {
		return failure.New(failurepb.Code_VALIDATION, failure.TooLarge).In("runtimeContext").With("maxBytes", limit)
	}
	return nil
}

// begin starts the turn of the lease, which answers the message: emitted before, or in the lease.
func (r *request) begin(lease *conversationpb.Lease, message *conversationpb.Message, wait bool) machine.Decision {
	return r.begun(lease, message, r.start(lease), wait)
}

// start emits the start of the turn of the lease and returns the seq after which its events stand.
func (r *request) start(lease *conversationpb.Lease) (after uint64) {
	after = r.state.GetLastSeq() + r.made
	r.emit(lease.GetRunId(), &conversationpb.Event{Body: &conversationpb.Event_TurnStarted{TurnStarted: &conversationpb.TurnStarted{
		Lease: lease, CommandId: r.command.GetCommandId(), AfterSeq: after, IssuedAt: r.command.GetIssuedAt(),
	}}})
	return after
}

// begun completes a decision that starts a turn.
func (r *request) begun(lease *conversationpb.Lease, message *conversationpb.Message, after uint64, wait bool) machine.Decision {
	run := lease.GetRunId()
	decision := machine.Decision{
		Events:  r.events,
		Effects: []machine.Effect{startTurn(r.state, lease, message)},
	}
	if wait {
		decision.Wait = run
		return decision
	}
	decision.Reply = r.acceptedReply(run, message, after)
	return decision
}

// current refuses a message that is not there, and one that was read before messages were last replaced or removed:
// what is known of it may be wrong.
func (r *request) current(target *conversationpb.Target) *machine.Failure {
	message := target.GetMessage()
	switch {
	case message.GetId() == "":
		return failure.New(failurepb.Code_NOT_FOUND, failure.MessageNotFound)
	case target.GetAsOf() < r.state.GetRewritten():
		return failure.New(failurepb.Code_UNAVAILABLE, failure.ConversationChanged)
	case message.GetNumber() == 0 || message.GetNumber() >= r.state.GetNextMessage():
		return failure.New(failurepb.Code_NOT_FOUND, failure.MessageNotFound)
	}
	return nil
}
