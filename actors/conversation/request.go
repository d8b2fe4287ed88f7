package conversation

import (
	"unicode/utf8"

	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

const maxCommandID = 128 // bytes

// request is one command on its way through its rule.
type request struct {
	*rules
	*step

	state *conversationpb.State // that the rule decides on, what the opening made included; nil = there is none
	made  uint64                // the newest event that only made way for a new turn, 0 = none did
	limit int64                 // the budget's limit that a turn has reached, 0 = the one in force
	first bool                  // it interrupts: what waits makes way
}

// emit adds an event of a run, "" = of none, and what follows from it for those who are told of the run.
func (r *request) emit(runID string, event *conversationpb.Event) {
	event.RunId = runID
	if event.GetTurnStarted() == nil { // whose command may have come before
		event.IssuedBy = r.Command.GetIssuedBy()
	}
	r.Emit(event)
	if event.GetTurnEnded() != nil || event.GetTurnPaused() != nil {
		r.tell(runID)
	}
}

// reply answers the sender.
func (r *request) reply(reply *conversationpb.Reply) *machine.Failure {
	r.Decision.Reply = reply
	return nil
}

// wait has the sender wait until a key is settled.
func (r *request) wait(key string) *machine.Failure {
	r.Await(key)
	return nil
}

// access refuses a caller who may not touch the conversation, or one that does not exist.
func (r *request) access() *machine.Failure {
	switch r.state.AccessOf(r.Command.GetCaller()) {
	case conversationpb.AccessGranted:
		return nil
	case conversationpb.AccessDenied:
		return failure.New(failurepb.Code_FORBIDDEN, failure.AccessDenied)
	default:
		return conversationNotFound()
	}
}

func conversationNotFound() *machine.Failure {
	return failure.New(failurepb.Code_NOT_FOUND, failure.ConversationNotFound)
}

// by is who gave the command, as the log tells it. Who may touch anything may call themselves anything.
func (r *request) by() string { return name(r.Command.GetCaller().GetUserId()) }

// name is an id from outside as it is stored.
func name(id string) string { return clean(id[:min(len(id), maxUserID)]) }

// admit refuses who may not touch the conversation, and a command that cannot be carried out once. It returns what the
// command did when it came before: then it is to be answered, not carried out.
func (r *request) admit() (first *conversationpb.Outcome, f *machine.Failure) {
	if f := r.access(); f != nil {
		return nil, f
	}
	if first := r.outcome(); first != nil {
		return first, nil
	}
	if f := r.forgotten(); f != nil {
		return nil, f
	}
	return nil, r.checkCommandID()
}

// outcome finds what the command did when it came before.
func (r *request) outcome() *conversationpb.Outcome {
	return r.outcomeOf(r.Command.GetCommandId())
}

func (r *request) outcomeOf(id string) *conversationpb.Outcome {
	if id == "" {
		return nil
	}
	for _, o := range r.state.GetOutcomes() {
		if o.GetCommandId() == id {
			return o
		}
	}
	for _, q := range r.state.GetQueue() {
		if q.GetCommandId() == id {
			return &conversationpb.Outcome{
				CommandId: id, RunId: q.GetMessage().GetRunId(), UserMessageId: q.GetMessage().GetId(), Seq: r.state.GetLastSeq(),
				IssuedAt: q.GetIssuedAt(), IssuedBy: q.GetIssuedBy(), Queued: !q.GetFirst(),
			}
		}
	}
	return nil
}

// forgotten refuses a repeated command whose outcome may be among those that are not remembered any more: to carry it
// out might be the second time. Whoever gave it has to look. One that was issued after all that is forgotten is not
// among them, whatever the clocks say: they are compared with what the same clock said.
func (r *request) forgotten() *machine.Failure {
	if !r.Command.GetRepeated() {
		return nil
	}
	if at, some := forgottenOf(r.state, r.Command.GetIssuedBy()); !some || r.Command.GetIssuedAt() > at {
		return nil
	}
	return failure.New(failurepb.Code_UNAVAILABLE, failure.OutcomeForgotten)
}

func (*request) usedOtherwise() *machine.Failure {
	return failure.New(failurepb.Code_VALIDATION, failure.CommandIDReused)
}

// checkCommandID refuses an id that could not be stored with the outcome.
func (r *request) checkCommandID() *machine.Failure {
	id := r.Command.GetCommandId()
	if len(id) > maxCommandID || !utf8.ValidString(id) {
		return failure.New(failurepb.Code_VALIDATION, failure.BadText).In("commandId").Param("what", "a command id").Param("most", maxCommandID)
	}
	return nil
}

// What a new message does to a turn that waits for a person (document 2, "Errors": pendingActionPolicy).
const (
	pendingRefuse = "refuse"
	pendingCancel = "cancel" // it makes way
)

// free refuses while the conversation cannot take a turn (document 2, "Errors", 409). A turn that is to make way is
// given up by begin.
func (r *request) free() *machine.Failure {
	if f := r.unheld(); f != nil {
		return f
	}
	return r.vacant()
}

// vacant refuses while a turn runs, or waits for a person and is not to make way, or messages are queued before.
func (r *request) vacant() *machine.Failure {
	if r.first {
		return r.notRunning()
	}
	if r.state.GetStatus() == conversationpb.Status_WAITING && r.limits.PendingPolicy != pendingCancel {
		return r.actionPending()
	}
	if f := r.notRunning(); f != nil || len(r.state.GetQueue()) == 0 {
		return f
	}
	return failure.New(failurepb.Code_CONVERSATION_BUSY, failure.QueueBefore)
}

func (r *request) actionPending() *machine.Failure {
	return failure.New(failurepb.Code_ACTION_PENDING, failure.ActionPending).
		With("pendingActionIds", pendingIDs(r.state))
}

func (r *request) notRunning() *machine.Failure {
	lease := r.state.GetLease()
	if lease == nil {
		return nil
	}
	return failure.New(failurepb.Code_CONVERSATION_BUSY, failure.TurnRunning).With("activeRunId", lease.GetRunId())
}

func pendingIDs(s *conversationpb.State) []string {
	ids := make([]string, len(s.GetPending()))
	for i, action := range s.GetPending() {
		ids[i] = action.GetId()
	}
	return ids
}
