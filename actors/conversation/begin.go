package conversation

import (
	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// ready refuses a new turn when none can start: another one runs, a person must act, the budget is used up; and one
// whose context is too large to be kept with it.
func (r *request) ready(agent *agentpb.Agent) *machine.Failure {
	if f := r.free(); f != nil {
		return f
	}
	if f := r.checkContext(r.Command.GetRuntimeContext()); f != nil {
		return f
	}
	return r.affordable(agent)
}

// newLease is the right to run a new turn, on this node.
func (r *request) newLease(run string, mode conversationpb.Mode) *conversationpb.Lease {
	return r.leaseOf(r.asked(), run, mode)
}

// asked is what the command says of the turn that it asks for, without a message.
func (r *request) asked() *conversationpb.Queued {
	return &conversationpb.Queued{
		CommandId:      r.Command.GetCommandId(),
		IssuedAt:       r.Command.GetIssuedAt(),
		IssuedBy:       r.Command.GetIssuedBy(),
		AgentVersion:   r.Command.GetAgentVersion(),
		ByUser:         r.by(),
		ByToken:        name(r.Command.GetCaller().GetTokenId()),
		RuntimeContext: r.Command.GetRuntimeContext(),
	}
}

// leaseOf is a lease for a turn that was asked for now or before.
func (r *request) leaseOf(q *conversationpb.Queued, run string, mode conversationpb.Mode) *conversationpb.Lease {
	return &conversationpb.Lease{
		Node:      r.Env.Node,
		Epoch:     r.Env.Epoch,
		RunId:     run,
		StartedAt: r.Now,
		Mode:      mode,
		Attempt:   1,

		AgentVersion:   q.GetAgentVersion(),
		ByUser:         q.GetByUser(),
		ByToken:        q.GetByToken(),
		RuntimeContext: q.GetRuntimeContext(),
	}
}

// sealing is the overhead that encryption by the edge may add to a runtime context.
const sealing = 2

// checkContext bounds the size of a runtime context. The edge has checked and encrypted its content.
func (r *request) checkContext(sealed []byte) *machine.Failure {
	if limit := sealing * r.limits.ContextBytes; len(sealed) > limit {
		return failure.New(failurepb.Code_VALIDATION, failure.TooLarge).In("runtimeContext").With("maxBytes", limit)
	}
	return nil
}

// begin starts the turn of the lease, which answers the message: emitted before, or in the lease.
func (r *request) begin(lease *conversationpb.Lease, message *conversationpb.Message, wait bool) {
	r.begun(lease, message, r.start(r.asked(), lease, false), wait)
}

// start emits the start of the turn of the lease, which was asked for now or before, and returns the seq after which its events stand.
// queued: who asked was told the place in the queue.
func (r *request) start(q *conversationpb.Queued, lease *conversationpb.Lease, queued bool) (after uint64) {
	after = max(r.state.GetLastSeq(), r.made)
	r.emit(lease.GetRunId(), &conversationpb.Event{IssuedBy: q.GetIssuedBy(), Body: &conversationpb.Event_TurnStarted{TurnStarted: &conversationpb.TurnStarted{
		Lease: lease, CommandId: q.GetCommandId(), AfterSeq: after, IssuedAt: q.GetIssuedAt(), Queued: queued,
	}}})
	return after
}

// begun starts the turn's runner. Callers who wait for the turn are answered at its end.
func (r *request) begun(lease *conversationpb.Lease, message *conversationpb.Message, after uint64, wait bool) {
	run := lease.GetRunId()
	r.Effect(startTurn(r.state, lease, message))
	if wait {
		r.Await(run)
		return
	}
	r.Decision.Reply = r.acceptedReply(run, message, after)
}

// current refuses a message that does not exist, and one that was read before messages were last replaced or removed, since that
// copy may be out of date.
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
