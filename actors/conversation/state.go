package conversation

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/money"
	"parley/proto/conversationpb"
)

// updatedStep is how old updated_at must be for an accepted message to move it. It always moves at the end of a
// turn; moving it twice for a short one would cost every turn four more index rows. It is part of what a stored
// history means: never change it.
const updatedStep = 10_000 // ms

// apply is given a state of its own, but what that points to is shared: replace, never change.
func (m *rules) apply(next *conversationpb.State, event *conversationpb.Event) *conversationpb.State {
	switch body := event.GetBody().(type) {
	case *conversationpb.Event_Created:
		return fork(body.Created.GetState())
	case *conversationpb.Event_UserMessage:
		userMessage(next, event, body.UserMessage)
	case *conversationpb.Event_TurnStarted:
		m.turnStarted(next, event, body.TurnStarted)
	case *conversationpb.Event_AgentMessage:
		agentMessage(next, event, body.AgentMessage.GetMessage())
	case *conversationpb.Event_BudgetReached:
		budgetReached(next, body.BudgetReached)
	case *conversationpb.Event_TurnEnded:
		turnEnded(next, event, body.TurnEnded)
	case *conversationpb.Event_TurnRecovered:
		turnRecovered(next, event, body.TurnRecovered)
	case *conversationpb.Event_CancelRequested:
		cancelRequested(next)
		m.remember(next, &conversationpb.Outcome{
			CommandId: body.CancelRequested.GetCommandId(), RunId: event.GetRunId(), Seq: event.GetSeq(),
			IssuedAt: body.CancelRequested.GetIssuedAt(), IssuedBy: event.GetIssuedBy(),
		})
	case *conversationpb.Event_Updated:
		updated(next, event, body.Updated)
		m.remember(next, &conversationpb.Outcome{
			CommandId: body.Updated.GetCommandId(), Seq: event.GetSeq(), IssuedAt: body.Updated.GetIssuedAt(), IssuedBy: event.GetIssuedBy(),
		})
	case *conversationpb.Event_Truncated:
		truncated(next, event, body.Truncated)
	case *conversationpb.Event_MessageChanged:
		messageChanged(next, body.MessageChanged.GetMessage())
	case *conversationpb.Event_FileAdded:
		fileAdded(next, body.FileAdded.GetFile())
	case *conversationpb.Event_FilesRemoved:
		filesRemoved(next, body.FilesRemoved.GetIds())
	case *conversationpb.Event_Imported:
		imported(next, event, body.Imported.GetMessages())
	case *conversationpb.Event_Held:
		m.handed(next, event, body.Held)
	case *conversationpb.Event_MessageQueued:
		messageQueued(next, body.MessageQueued.GetQueued())
	case *conversationpb.Event_MessageDequeued:
		m.messageDequeued(next, event, body.MessageDequeued)
	default:
		m.applyTurn(next, event)
	}
	return next
}

// userMessage adds the message and opens the lease of its run, which turnStarted, in the same append, fills.
func userMessage(next *conversationpb.State, event *conversationpb.Event, sent *conversationpb.UserMessage) {
	message := sent.GetMessage()
	unqueue(next, event.GetRunId())
	addMessage(next, event, message)
	if title := sent.GetTitle(); title != "" {
		next.Title, next.TitleGenerated, next.TitleProvisional = title, true, true
	}
	next.LastUserMessage = message.GetNumber()
	if next.GetLease() == nil {
		next.Lease = &conversationpb.Lease{RunId: event.GetRunId(), UserMessage: message}
	}
	if event.GetCreatedAt()-next.GetUpdatedAt() >= updatedStep {
		next.UpdatedAt = event.GetCreatedAt()
	}
}

// agentMessage adds the answer, and keeps it with the turn in case that goes on (budget reached).
func agentMessage(next *conversationpb.State, event *conversationpb.Event, message *conversationpb.Message) {
	addMessage(next, event, message)
	answered(next, message)
	if lease := next.GetLease(); lease != nil && lease.GetRunId() == event.GetRunId() {
		lease = forkLease(lease)
		lease.Answer = message
		next.Lease = lease
	}
}

// addMessage counts a message, unless it takes the place of one.
func addMessage(next *conversationpb.State, event *conversationpb.Event, message *conversationpb.Message) {
	if message.GetNumber() < next.GetNextMessage() {
		next.Rewritten = event.GetSeq()
		return
	}
	next.NextMessage = message.GetNumber() + 1
	next.MessageCount++
}

func (m *rules) turnStarted(next *conversationpb.State, event *conversationpb.Event, started *conversationpb.TurnStarted) {
	lease := forkLease(started.GetLease())
	if opened := next.GetLease(); lease.GetUserMessage() == nil && opened.GetRunId() == lease.GetRunId() {
		lease.UserMessage = opened.GetUserMessage()
	}
	next.Lease, next.Paused = lease, nil
	next.Status = conversationpb.Status_RUNNING
	next.StopReason = conversationpb.StopReason_STOP_UNSPECIFIED
	next.Continuable = false
	next.LastRunId = event.GetRunId()
	next.TakenOver = 0
	m.remember(next, &conversationpb.Outcome{
		CommandId:     started.GetCommandId(),
		RunId:         event.GetRunId(),
		UserMessageId: lease.GetUserMessage().GetId(),
		Seq:           started.GetAfterSeq(),
		IssuedAt:      started.GetIssuedAt(),
		IssuedBy:      event.GetIssuedBy(),
		Queued:        started.GetQueued(),
	})
}

// remember adds what a command did and forgets the oldest, noting when they were issued, but not the newest command that
// started the active turn or let it go on: its sender may wait for long, and ask again when the conversation moves.
func (m *rules) remember(next *conversationpb.State, outcome *conversationpb.Outcome) {
	if outcome.GetCommandId() == "" {
		return
	}
	spare := len(next.GetOutcomes()) + 1 - m.limits.Outcomes
	active := -1
	for i, known := range next.GetOutcomes() {
		if known.GetUserMessageId() != "" && known.GetRunId() == next.GetLease().GetRunId() {
			active = i
		}
	}
	outcomes := make([]*conversationpb.Outcome, 0, len(next.GetOutcomes())+1)
	for i, known := range next.GetOutcomes() {
		if spare > 0 && i != active {
			spare--
			forget(next, known)
			continue
		}
		outcomes = append(outcomes, known)
	}
	if spare <= 0 {
		outcomes = append(outcomes, outcome)
	} else {
		forget(next, outcome)
	}
	next.Outcomes = outcomes
}

// turnEnded: its usage is the whole turn's, of which the journalled part was spent before.
func turnEnded(next *conversationpb.State, event *conversationpb.Event, ended *conversationpb.TurnEnded) {
	turn, usage := turnOf(next), ended.GetUsage()
	if ended.GetStopReason() != conversationpb.StopReason_CANCELLED {
		missed(next, event.GetRunId())
	}
	next.Lease, next.Paused = nil, nil
	if ended.GetContinuable() && turn != nil {
		next.Paused = park(turn)
		next.Paused.Usage, next.Paused.Calls = usage, nil
	}
	next.Pending = nil
	next.Status = conversationpb.Status_IDLE
	next.StopReason = ended.GetStopReason()
	next.Continuable = ended.GetContinuable()
	next.TakenOver = ended.GetTakenOver()
	next.SpentNanoUsd = money.Add(next.GetSpentNanoUsd(), usage.GetCostNanoUsd()-turn.GetUsage().GetCostNanoUsd())
	next.SpentUnknown = next.GetSpentUnknown() || usage.GetModelCalls() > 0 && !usage.GetPriced()
	next.UpdatedAt = max(next.GetUpdatedAt(), event.GetCreatedAt())
}

// budgetReached notes a limit that was reached although something is left: what is spent would not tell.
func budgetReached(next *conversationpb.State, reached *conversationpb.BudgetReached) {
	if limit := reached.GetBudget().GetMaxCostNanoUsd(); reached.GetSpentNanoUsd() < limit {
		next.ReachedNanoUsd = limit
	}
}

// missed notes that a run ended by itself in spite of its cancels.
func missed(next *conversationpb.State, run string) {
	for i, known := range next.GetOutcomes() {
		if known.GetRunId() != run || known.GetUserMessageId() != "" {
			continue
		}
		outcomes := slices.Clone(next.GetOutcomes())
		outcomes[i] = &conversationpb.Outcome{
			CommandId: known.GetCommandId(), RunId: known.GetRunId(), Seq: known.GetSeq(), IssuedAt: known.GetIssuedAt(),
			IssuedBy: known.GetIssuedBy(), Missed: true,
		}
		next.Outcomes = outcomes
	}
}

// turnRecovered: what the lost attempt may have done is taken as done. Its model call is charged as far as it was
// granted, its calls that must not run twice are in doubt.
func turnRecovered(next *conversationpb.State, event *conversationpb.Event, recovered *conversationpb.TurnRecovered) {
	lease := forkLease(next.GetLease())
	lease.Node, lease.Epoch, lease.Attempt = recovered.GetNode(), recovered.GetEpoch(), recovered.GetAttempt()
	lease.AttemptAt, lease.Quick, lease.Deaths = event.GetCreatedAt(), recovered.GetQuick(), recovered.GetDeaths()
	lease.Calls = doubt(lease.GetCalls())
	charge(next, lease, lostCall(lease))
	lease.ReservedNanoUsd = 0
	next.Lease = lease
}

func cancelRequested(next *conversationpb.State) {
	lease := forkLease(next.GetLease())
	lease.Cancelling = true
	next.Lease = lease
}

func forkLease(l *conversationpb.Lease) *conversationpb.Lease {
	next := &conversationpb.Lease{
		Node:        l.GetNode(),
		Epoch:       l.GetEpoch(),
		RunId:       l.GetRunId(),
		StartedAt:   l.GetStartedAt(),
		Mode:        l.GetMode(),
		UserMessage: l.GetUserMessage(),
		Attempt:     l.GetAttempt(),
		Cancelling:  l.GetCancelling(),
		Steps:       l.GetSteps(),
		AttemptAt:   l.GetAttemptAt(),
		Quick:       l.GetQuick(),
		Usage:       l.GetUsage(),

		ReservedNanoUsd: l.GetReservedNanoUsd(),
		Calls:           l.GetCalls(),
		Answer:          l.GetAnswer(),
		Replaces:        l.GetReplaces(),
		ResumedAt:       l.GetResumedAt(),
		Metadata:        l.GetMetadata(),
		AgentVersion:    l.GetAgentVersion(),
		ByUser:          l.GetByUser(),
		ByToken:         l.GetByToken(),
		RuntimeContext:  l.GetRuntimeContext(),
		Deaths:          l.GetDeaths(),
	}
	keepUnknown(l, next)
	return next
}

// keepUnknown carries over the fields of a newer release, so that a node of this one does not drop them.
func keepUnknown(from, to proto.Message) {
	if unknown := from.ProtoReflect().GetUnknown(); len(unknown) > 0 {
		to.ProtoReflect().SetUnknown(unknown)
	}
}
