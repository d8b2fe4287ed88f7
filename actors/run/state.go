package run

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"parley/proto/conversationpb"
	"parley/proto/runpb"
)

// Evolve folds events into the state.
func (m *Machine) Evolve(state proto.Message, events []proto.Message) proto.Message {
	s, _ := state.(*runpb.State)
	return m.evolve(s, events)
}

func (m *Machine) evolve(s *runpb.State, events []proto.Message) *runpb.State {
	next := proto.CloneOf(s)
	for _, message := range events {
		event, _ := message.(*runpb.Event)
		if created := event.GetCreated(); created != nil {
			next = proto.CloneOf(created.GetState())
			continue
		}
		m.apply(next, event)
		next.LastSeq = event.GetSeq()
	}
	return next
}

// apply changes the state, which is its own.
func (m *Machine) apply(next *runpb.State, event *runpb.Event) {
	at := event.GetCreatedAt()
	switch body := event.GetBody().(type) {
	case *runpb.Event_Admitted:
		next.Admitted, next.Placed, next.CheckAt = true, body.Admitted.GetPlaced(), body.Admitted.GetCheckAt()
		next.Opening = nil // its conversation has it
	case *runpb.Event_Placed:
		next.Placed = true
		next.CheckAt, next.Checks = 0, 0
	case *runpb.Event_Began:
		began(next, at, body.Began.GetTurnRunId())
	case *runpb.Event_Suspended:
		next.Status, next.UpdatedAt, next.HasResult = runpb.Status_REQUIRES_ACTION, at, true
		next.Pending = pendingOf(body.Suspended.GetResult())
		next.CheckAt, next.Checks = 0, 0
		if !next.GetPlaced() { // it has paused anew while nobody looked
			next.CheckAt = at + m.limits.CheckEvery.Milliseconds()
		}
	case *runpb.Event_Resumed:
		next.Status, next.UpdatedAt, next.HasResult, next.Placed = runpb.Status_RUNNING, at, false, true
		next.Pending, next.CheckAt, next.Checks = nil, 0, 0
	case *runpb.Event_Parked:
		next.Placed, next.CheckAt, next.Checks = false, body.Parked.GetCheckAt(), 0
	case *runpb.Event_Checked:
		next.CheckAt, next.Checks = body.Checked.GetCheckAt(), body.Checked.GetChecks()
	case *runpb.Event_Cancelling:
		next.Cancelling, next.UpdatedAt, next.CheckAt, next.Checks = true, at, 0, 0
	case *runpb.Event_Finished:
		finished(next, at, body.Finished)
	case *runpb.Event_Settled:
		next.Settled, next.Placed = true, false
	case *runpb.Event_CallDue:
		m.callDue(next, at, body.CallDue)
	case *runpb.Event_CallOver:
		doneTelling(next.GetCallback(), at, body.CallOver)
		next.Callback.Calls = slices.DeleteFunc(next.GetCallback().GetCalls(), func(call *runpb.Call) bool {
			return call.GetEventId() == body.CallOver.GetEventId()
		})
	}
}

// began forgets what the conversation has by now.
func began(next *runpb.State, at int64, turn string) {
	next.Status, next.TurnRunId, next.UpdatedAt, next.Placed = runpb.Status_RUNNING, turn, at, true
	next.CheckAt, next.Checks = 0, 0
	next.Order = &runpb.Order{Continues: next.GetOrder().GetContinues()}
	if next.GetStartedAt() == 0 {
		next.StartedAt = at
	}
}

func finished(next *runpb.State, at int64, finished *runpb.Finished) {
	next.Status, next.Error = finished.GetStatus(), finished.GetError()
	next.HasResult = finished.GetResult() != nil
	next.UpdatedAt, next.EndedAt = at, at
	if next.GetStartedAt() == 0 && finished.GetResult().GetRunId() != "" { // it ended before its beginning was told
		next.StartedAt = at
	}
	next.Cancelling, next.Pending, next.CheckAt, next.Checks = false, nil, 0, 0
	next.Order = &runpb.Order{Continues: next.GetOrder().GetContinues()}
}

func pendingOf(result *conversationpb.TurnResult) []*conversationpb.PendingAction {
	pending := make([]*conversationpb.PendingAction, len(result.GetPending()))
	for i, action := range result.GetPending() {
		pending[i] = &conversationpb.PendingAction{
			Id: action.GetId(), Kind: action.GetKind(), ToolName: action.GetToolName(), ExpiresAt: action.GetExpiresAt(),
		}
	}
	return pending
}

// stillTelling notes an attempt that begins, or what came of one, if it is of the newest change of state.
func stillTelling(callback *runpb.Callback, at int64, due *runpb.CallDue) {
	call, told := due.GetCall(), callback.GetTold()
	if told.GetEventId() != call.GetEventId() {
		return
	}
	told.Status, told.Attempts, told.LastAt = runpb.Telling_PENDING, call.GetAttempt()-1, at
	if due.GetError() != "" {
		told.Error = due.GetError()
	}
}

func doneTelling(callback *runpb.Callback, at int64, over *runpb.CallOver) {
	told := callback.GetTold()
	if told.GetEventId() != over.GetEventId() {
		return
	}
	told.Status, told.LastAt = runpb.Telling_GIVEN_UP, at
	if over.GetDelivered() {
		told.Status, told.Error = runpb.Telling_DELIVERED, ""
	}
	if over.GetError() != "" {
		told.Error = over.GetError()
	}
}

func (m *Machine) callDue(next *runpb.State, at int64, due *runpb.CallDue) {
	call, calls := due.GetCall(), next.GetCallback().GetCalls()
	known := slices.IndexFunc(calls, func(old *runpb.Call) bool { return old.GetEventId() == call.GetEventId() })
	if known >= 0 {
		calls[known] = proto.CloneOf(call)
		stillTelling(next.GetCallback(), at, due)
		return
	}
	next.Callback.Told = &runpb.Told{EventId: call.GetEventId(), Event: call.GetEvent()}
	calls = append(calls, proto.CloneOf(call))
	next.Callback.Calls = calls[max(0, len(calls)-m.limits.Calls):]
	stillTelling(next.GetCallback(), at, due)
}
