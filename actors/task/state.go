package task

import (
	"google.golang.org/protobuf/proto"

	"parley/proto/taskpb"
)

// apply folds an event into a state, which is its own.
func (l Limits) apply(next *taskpb.State, event *taskpb.Event) *taskpb.State {
	at := event.GetCreatedAt()
	switch body := event.GetBody().(type) {
	case *taskpb.Event_Created:
		return proto.CloneOf(body.Created.GetState())
	case *taskpb.Event_Commented:
		l.commented(next, at, body.Commented)
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
		l.canceled(next, at, body.Canceled)
	case *taskpb.Event_Checked:
		next.Waiting.Checks, next.Waiting.CheckAt = body.Checked.GetChecks(), body.Checked.GetCheckAt()
	case *taskpb.Event_CallbackDue:
		next.Callback = body.CallbackDue.GetCallback()
	case *taskpb.Event_CallbackOver:
		next.Callback = nil
	}
	return next
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

func (l Limits) commented(next *taskpb.State, at int64, commented *taskpb.Commented) {
	comment := commented.GetComment()
	next.Comments, next.UpdatedAt = comment.GetNumber(), at
	if queued := commented.GetQueued(); queued != nil {
		next.Queued = append(next.GetQueued(), queued)
		reopen(next, at)
	}
	l.remember(next, &taskpb.Outcome{
		CommandId: commented.GetCommandId(), CommentId: comment.GetId(), Comment: comment.GetNumber(), CreatedAt: at,
	})
}

// canceled leaves a run to be driven until its turn is cancelled.
func (l Limits) canceled(next *taskpb.State, at int64, canceled *taskpb.Canceled) {
	if waiting := next.GetWaiting(); waiting != nil {
		next.Run = &taskpb.Run{Number: waiting.GetNumber(), RunId: waiting.GetRunId(), OpenedAt: at}
	}
	next.Run.Cancelling = true
	next.Waiting, next.Queued, next.Callback = nil, nil, nil
	over(next, at, taskpb.Status_CANCELED, "")
	l.remember(next, &taskpb.Outcome{CommandId: canceled.GetCommandId()})
}

// remember adds what a command did and forgets the oldest.
func (l Limits) remember(next *taskpb.State, outcome *taskpb.Outcome) {
	if outcome.GetCommandId() == "" {
		return
	}
	outcomes := append(next.GetOutcomes(), outcome)
	next.Outcomes = outcomes[max(0, len(outcomes)-l.Outcomes):]
}
