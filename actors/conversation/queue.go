package conversation

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// What becomes of a message while a turn runs (Send.on_busy). Anything else, "reject" too, refuses it.
const (
	onBusyQueue     = "queue"
	onBusyInterrupt = "interrupt"
)

// maxQueuedBytes bounds the queue, which is part of every head write.
const maxQueuedBytes = 512 << 10

// comesLater says whether a message is to wait for its turn. One that interrupts a turn which waits for a person, or which the
// budget cut, need not: no runner is at work, and its turn begins at once. A background run waits by itself.
func (r *request) comesLater(c *conversationpb.Send) bool {
	if r.Command.GetBackgroundRun() != "" || c.GetPush() != nil {
		return false
	}
	switch c.GetOnBusy() {
	case onBusyInterrupt:
		r.first = true
		return r.state.GetLease() != nil
	case onBusyQueue:
		return r.state.GetLease() != nil || r.state.GetStatus() == conversationpb.Status_WAITING ||
			len(r.state.GetQueue()) > 0 || r.state.GetBackgroundRun() != ""
	}
	return false
}

// enqueue keeps the message until its turn comes, and stops the turn before where it interrupts. Who interrupts may wait for the
// answer; who queues is told the place.
func (r *request) enqueue(c *conversationpb.Send, metadata []byte) *machine.Failure {
	if f := r.checkContext(r.Command.GetRuntimeContext()); f != nil {
		return f
	}
	if f := r.affordable(c.GetAgent()); f != nil {
		return f
	}
	q, f := r.queuedOf(c, metadata)
	if f != nil {
		return f
	}
	q.First = r.first
	q.Given = cleanUses(q.GetGiven())
	size := proto.Size(q)
	for _, before := range r.state.GetQueue() {
		size += proto.Size(before)
	}
	if len(r.state.GetQueue()) >= r.limits.Queue || size > maxQueuedBytes {
		return failure.New(failurepb.Code_CONVERSATION_BUSY, failure.MessageQueueFull).
			With("queued", len(r.state.GetQueue())).Param("most", r.limits.Queue).Param("bytes", maxQueuedBytes)
	}
	if r.first && !r.state.GetLease().GetCancelling() {
		r.stop(&conversationpb.CancelRequested{})
	}
	run := q.GetMessage().GetRunId()
	r.emit(run, &conversationpb.Event{Body: &conversationpb.Event_MessageQueued{MessageQueued: &conversationpb.MessageQueued{Queued: q}}})
	if r.first && c.GetWait() {
		return r.wait(run)
	}
	return r.reply(&conversationpb.Reply{Body: &conversationpb.Reply_Accepted{Accepted: &conversationpb.Accepted{
		RunId: run, UserMessage: q.GetMessage(), Seq: r.state.GetLastSeq(), Title: r.state.GetTitle(),
		Position: r.position(r.State(), run),
	}}})
}

// queuedReply answers a repeat of a command whose message was queued.
func (r *request) queuedReply(run, message string) *machine.Failure {
	return r.reply(&conversationpb.Reply{Body: &conversationpb.Reply_Accepted{Accepted: &conversationpb.Accepted{
		RunId: run, UserMessage: &conversationpb.Message{Id: message, Role: conversationpb.Role_USER, RunId: run},
		Seq: r.state.GetLastSeq(), Title: r.state.GetTitle(), Position: max(1, r.position(r.state, run)),
	}}})
}

// position is the place of a run's message in the queue, from 1; 0 = it is not there.
func (*request) position(s *conversationpb.State, run string) uint32 {
	return uint32(1 + slices.IndexFunc(s.GetQueue(), func(q *conversationpb.Queued) bool { return q.GetMessage().GetRunId() == run }))
}

// queued is the message that waits for the turn of a run, nil = none.
func (r *request) queued(run string) *conversationpb.Queued {
	if at := r.position(r.state, run); at > 0 {
		return r.state.GetQueue()[at-1]
	}
	return nil
}

// next begins the turn of the first message of the queue, in the append that ended the one before. It waits as long as a turn
// waits for a person or can be continued, a background run holds the conversation, or the budget is used up: whatever ends that
// comes here again.
func (r *request) next() {
	if len(r.Before.GetQueue()) == 0 { // nothing is queued by what ends a turn
		return
	}
	was, made := r.state, r.made
	defer func() { r.state, r.made = was, made }()
	r.state = r.State()
	s := r.state
	if s.GetLease() != nil || s.GetPaused() != nil || s.GetBackgroundRun() != "" || len(s.GetQueue()) == 0 || r.affordable(nil) != nil {
		return
	}
	q := proto.CloneOf(s.GetQueue()[0])
	lease, _ := r.take(q, !q.GetFirst())
	r.Effect(startTurn(s, lease, q.GetMessage()))
}

// dequeue takes a message back whose turn has not begun.
func (r *request) dequeue(q *conversationpb.Queued) *machine.Failure {
	run := q.GetMessage().GetRunId()
	r.emit(run, &conversationpb.Event{Body: &conversationpb.Event_MessageDequeued{MessageDequeued: &conversationpb.MessageDequeued{
		CommandId: r.Command.GetCommandId(), IssuedAt: r.Command.GetIssuedAt(), MessageId: q.GetMessage().GetId(),
	}}})
	r.Settle(run, turnReply(&conversationpb.TurnResult{
		RunId: run, UserMessage: q.GetMessage(), StopReason: conversationpb.StopReason_CANCELLED,
		Budget: r.state.GetBudget(), SpentNanoUsd: r.state.GetSpentNanoUsd(), Title: r.state.GetTitle(),
	}))
	return r.reply(cancelledReply(&conversationpb.Cancelled{Cancelled: true, RunId: run, Settled: true, State: r.State()}))
}

// messageQueued adds a message to the queue: behind all, or behind those that interrupt.
func messageQueued(next *conversationpb.State, q *conversationpb.Queued) {
	at := len(next.GetQueue())
	if q.GetFirst() {
		at = slices.IndexFunc(next.GetQueue(), func(before *conversationpb.Queued) bool { return !before.GetFirst() })
		if at < 0 {
			at = len(next.GetQueue())
		}
	}
	next.Queue = slices.Insert(slices.Clone(next.GetQueue()), at, q)
}

// messageDequeued remembers the command that queued the message, too: it was carried out.
func (m *rules) messageDequeued(next *conversationpb.State, event *conversationpb.Event, gone *conversationpb.MessageDequeued) {
	for _, q := range next.GetQueue() {
		if q.GetMessage().GetRunId() == event.GetRunId() {
			m.remember(next, &conversationpb.Outcome{
				CommandId: q.GetCommandId(), RunId: event.GetRunId(), UserMessageId: q.GetMessage().GetId(), Seq: event.GetSeq(),
				IssuedAt: q.GetIssuedAt(), IssuedBy: q.GetIssuedBy(), Queued: !q.GetFirst(),
			})
		}
	}
	unqueue(next, event.GetRunId())
	m.remember(next, &conversationpb.Outcome{
		CommandId: gone.GetCommandId(), RunId: event.GetRunId(), Seq: event.GetSeq(), IssuedAt: gone.GetIssuedAt(),
		IssuedBy: event.GetIssuedBy(),
	})
}

// unqueue takes the message of a run out of the queue, if it is there.
func unqueue(next *conversationpb.State, run string) {
	if len(next.GetQueue()) == 0 {
		return
	}
	next.Queue = slices.DeleteFunc(slices.Clone(next.GetQueue()), func(q *conversationpb.Queued) bool { return q.GetMessage().GetRunId() == run })
	if len(next.GetQueue()) == 0 {
		next.Queue = nil
	}
}
