package task

import (
	"google.golang.org/protobuf/proto"

	"parley/proto/taskpb"
)

// Evolve folds events into the state.
func (m *Machine) Evolve(state proto.Message, events []proto.Message) proto.Message {
	s, _ := state.(*taskpb.State)
	return m.evolve(s, events)
}

func (m *Machine) evolve(s *taskpb.State, events []proto.Message) *taskpb.State {
	next := proto.CloneOf(s)
	for _, message := range events {
		event, _ := message.(*taskpb.Event)
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
func (m *Machine) apply(next *taskpb.State, event *taskpb.Event) {
	at := event.GetCreatedAt()
	switch body := event.GetBody().(type) {
	case *taskpb.Event_Commented:
		m.commented(next, at, body.Commented)
	case *taskpb.Event_RunOpened:
		next.Run, next.Runs = proto.CloneOf(body.RunOpened.GetRun()), body.RunOpened.GetRun().GetNumber()
		next.Waiting, next.Queued, next.Callback, next.HasResult = nil, nil, nil, false
		reopen(next, at)
	case *taskpb.Event_RunStarted:
		next.Run.RunId, next.Stored = body.RunStarted.GetRunId(), nil
		if !next.GetRun().GetCancelling() && len(next.GetQueued()) == 0 {
			next.Status, next.StartedAt, next.UpdatedAt = taskpb.Status_RUNNING, at, at
		}
	case *taskpb.Event_RunPaused:
		next.Run, next.Waiting, next.HasResult = nil, proto.CloneOf(body.RunPaused.GetWaiting()), true
		next.Status, next.UpdatedAt = taskpb.Status_WAITING_FOR_INPUT, at
	case *taskpb.Event_RunEnded:
		next.Run, next.Waiting, next.HasResult = nil, nil, body.RunEnded.GetResult() != nil
		over(next, at, body.RunEnded.GetStatus(), body.RunEnded.GetError())
	case *taskpb.Event_Canceled:
		m.canceled(next, at, body.Canceled)
	case *taskpb.Event_Checked:
		next.Waiting.Checks, next.Waiting.CheckAt = body.Checked.GetChecks(), body.Checked.GetCheckAt()
	case *taskpb.Event_CallbackDue:
		next.Callback = body.CallbackDue.GetCallback()
	case *taskpb.Event_CallbackOver:
		next.Callback = nil
	}
}

func reopen(next *taskpb.State, at int64) {
	next.Status, next.Error, next.CompletedAt, next.UpdatedAt = taskpb.Status_PENDING, "", 0, at
}

func over(next *taskpb.State, at int64, status taskpb.Status, why string) {
	next.Status, next.Error, next.UpdatedAt = status, why, at
	if next.GetCompletedAt() == 0 {
		next.CompletedAt = at
	}
}

func (m *Machine) commented(next *taskpb.State, at int64, commented *taskpb.Commented) {
	comment := commented.GetComment()
	next.Comments, next.UpdatedAt = comment.GetNumber(), at
	if queued := commented.GetQueued(); queued != nil {
		next.Queued = append(next.GetQueued(), queued)
		reopen(next, at)
	}
	m.remember(next, &taskpb.Outcome{
		CommandId: commented.GetCommandId(), CommentId: comment.GetId(), Comment: comment.GetNumber(), CreatedAt: at,
	})
}

// canceled leaves a run to be driven until its turn is cancelled.
func (m *Machine) canceled(next *taskpb.State, at int64, canceled *taskpb.Canceled) {
	if waiting := next.GetWaiting(); waiting != nil {
		next.Run = &taskpb.Run{Number: waiting.GetNumber(), RunId: waiting.GetRunId(), OpenedAt: at}
	}
	next.Run.Cancelling = true
	next.Waiting, next.Queued, next.Callback = nil, nil, nil
	over(next, at, taskpb.Status_CANCELED, "")
	m.remember(next, &taskpb.Outcome{CommandId: canceled.GetCommandId()})
}

// remember adds what a command did and forgets the oldest.
func (m *Machine) remember(next *taskpb.State, outcome *taskpb.Outcome) {
	if outcome.GetCommandId() == "" {
		return
	}
	outcomes := append(next.GetOutcomes(), outcome)
	next.Outcomes = outcomes[max(0, len(outcomes)-m.limits.Outcomes):]
}
