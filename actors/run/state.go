package run

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"parley/proto/conversationpb"
	"parley/proto/deliverypb"
	"parley/proto/runpb"
)

// apply folds an event into a state, which is its own.
func (l Limits) apply(next *runpb.State, event *runpb.Event) *runpb.State {
	if created := event.GetCreated(); created != nil {
		return proto.CloneOf(created.GetState())
	}
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
			next.CheckAt = at + l.CheckEvery.Milliseconds()
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
		l.callDue(next, at, body.CallDue)
	case *runpb.Event_CallOver:
		doneTelling(next.GetCallback(), at, body.CallOver)
		next.Callback.Calls = slices.DeleteFunc(next.GetCallback().GetCalls(), func(call *deliverypb.Delivery) bool {
			return call.GetId() == body.CallOver.GetId()
		})
	}
	return next
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
func stillTelling(callback *runpb.Callback, at int64, due *deliverypb.Due) {
	call, told := due.GetDelivery(), callback.GetTold()
	if told.GetEventId() != call.GetId() {
		return
	}
	told.Status, told.Attempts, told.LastAt = runpb.Telling_PENDING, call.GetAttempt()-1, at
	if due.GetError() != "" {
		told.Error = due.GetError()
	}
}

func doneTelling(callback *runpb.Callback, at int64, over *deliverypb.Over) {
	told := callback.GetTold()
	if told.GetEventId() != over.GetId() {
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

func (l Limits) callDue(next *runpb.State, at int64, due *deliverypb.Due) {
	call, calls := due.GetDelivery(), next.GetCallback().GetCalls()
	known := slices.IndexFunc(calls, func(old *deliverypb.Delivery) bool { return old.GetId() == call.GetId() })
	if known >= 0 {
		calls[known] = proto.CloneOf(call)
		stillTelling(next.GetCallback(), at, due)
		return
	}
	next.Callback.Told = &runpb.Told{EventId: call.GetId(), Event: call.GetEvent()}
	calls = append(calls, proto.CloneOf(call))
	next.Callback.Calls = calls[max(0, len(calls)-l.Calls):]
	stillTelling(next.GetCallback(), at, due)
}
