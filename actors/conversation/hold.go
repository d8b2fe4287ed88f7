package conversation

import (
	"unicode/utf8"

	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// hold keeps the conversation for a background run, or lets it go (document 1, "Background runs"). Until then only
// commands on the run's behalf begin a turn; whoever may decides its actions and cancels. A run that holds it already,
// or that wants to let go what it does not hold, is told so, and nothing happens.
func (r *request) hold(c *conversationpb.Hold) *machine.Failure {
	if c.GetRelease() {
		return r.release(c)
	}
	first, f := r.admit()
	switch {
	case f != nil:
		return f
	case first.GetRunId() != "":
		return r.usedOtherwise()
	case first != nil:
		return r.reply(stateReply(r.state))
	}
	run := c.GetRunId()
	if run == "" || len(run) > maxCommandID || !utf8.ValidString(run) {
		return failure.New(failurepb.Code_VALIDATION, failure.BadText).In("runId").Param("what", "a run id").Param("most", maxCommandID)
	}
	if r.state.GetBackgroundRun() == run {
		return r.reply(stateReply(r.state))
	}
	if f = r.held(); f != nil {
		return f
	}
	if f = r.holdable(c); f != nil {
		return f
	}
	return r.hand(c)
}

// holdable refuses what the run's first command would be refused.
func (r *request) holdable(c *conversationpb.Hold) *machine.Failure {
	if c.GetContinues() {
		return r.continuable(c.GetAgent())
	}
	if f := r.vacant(); f != nil {
		return f
	}
	return r.affordable(c.GetAgent())
}

func (r *request) release(c *conversationpb.Hold) *machine.Failure {
	if f := r.access(); f != nil {
		return f
	}
	if f := r.checkCommandID(); f != nil {
		return f
	}
	if c.GetRunId() == "" || r.state.GetBackgroundRun() != c.GetRunId() {
		return r.reply(stateReply(r.state))
	}
	return r.hand(c)
}

// hand gives the conversation to the run, or takes it back.
func (r *request) hand(c *conversationpb.Hold) *machine.Failure {
	r.emit("", &conversationpb.Event{Body: &conversationpb.Event_Held{Held: &conversationpb.Held{
		RunId: c.GetRunId(), Released: c.GetRelease(),
		CommandId: r.Command.GetCommandId(), IssuedAt: r.Command.GetIssuedAt(),
	}}})
	r.next()
	return r.reply(stateReply(r.State()))
}

// held refuses while a background run holds the conversation.
func (r *request) held() *machine.Failure {
	run := r.state.GetBackgroundRun()
	if run == "" {
		return nil
	}
	return failure.New(failurepb.Code_CONVERSATION_BUSY, failure.ConversationHeld).With("activeRunId", run)
}

// unheld refuses a command that would begin a turn while a background run holds the conversation on whose behalf it is
// not given; and one on behalf of a run that has let go, or lost its conversation, since.
func (r *request) unheld() *machine.Failure {
	switch r.Command.GetBackgroundRun() {
	case r.state.GetBackgroundRun():
		return nil
	case "":
		return r.held()
	}
	if f := r.held(); f != nil {
		return f
	}
	return failure.New(failurepb.Code_STALE_TURN, failure.ConversationNotHeld)
}

// handed notes for whom the conversation is kept. To let go needs no memory: it can be said again.
func (m *rules) handed(next *conversationpb.State, event *conversationpb.Event, held *conversationpb.Held) {
	if held.GetReleased() {
		next.BackgroundRun = ""
		return
	}
	next.BackgroundRun = held.GetRunId()
	m.remember(next, &conversationpb.Outcome{
		CommandId: held.GetCommandId(), Seq: event.GetSeq(), IssuedAt: held.GetIssuedAt(), IssuedBy: event.GetIssuedBy(),
	})
}
