package conversation

import (
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

const maxCommandID = 128 // bytes

// request is one command on its way through its rule.
type request struct {
	*Machine

	state   *conversationpb.State // nil = there is none
	command *conversationpb.Command
	env     machine.Env
	now     int64 // Unix milliseconds
	events  []proto.Message
	made    uint64 // how many of the first events only made way for a new turn
	limit   int64  // the budget's limit that a turn has reached, 0 = the one in force
}

func refuse(f *failure.Failure) (machine.Decision, *machine.Failure) { return machine.Decision{}, f }

// emit adds an event and gives it its number and time.
func (r *request) emit(runID string, event *conversationpb.Event) {
	event.Seq = r.state.GetLastSeq() + uint64(len(r.events)) + 1
	event.CreatedAt = r.now
	event.RunId = runID
	r.events = append(r.events, event)
}

// after is the state after the events emitted so far.
func (r *request) after() *conversationpb.State {
	return r.evolve(r.state, r.events)
}

// access refuses a caller who may not touch the conversation, or one that does not exist.
func (r *request) access() *machine.Failure {
	switch r.state.AccessOf(r.command.GetCaller()) {
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
func (r *request) by() string { return name(r.command.GetCaller().GetUserId()) }

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
	return r.outcomeOf(r.command.GetCommandId())
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
	return nil
}

// forgotten refuses a repeated command whose outcome may be among those that are not remembered any more: to carry it
// out might be the second time. Whoever gave it has to look. One that was issued after all that is forgotten is not
// among them, whatever the clocks say: they are compared with what the same clock said.
func (r *request) forgotten() *machine.Failure {
	if !r.command.GetRepeated() || r.state.GetForgottenAt() == 0 || r.command.GetIssuedAt() > r.state.GetForgottenAt() {
		return nil
	}
	return failure.New(failurepb.Code_UNAVAILABLE, failure.OutcomeForgotten)
}

func (*request) usedOtherwise() (machine.Decision, *machine.Failure) {
	return refuse(failure.New(failurepb.Code_VALIDATION, failure.CommandIDReused))
}

// checkCommandID refuses an id that could not be stored with the outcome.
func (r *request) checkCommandID() *machine.Failure {
	id := r.command.GetCommandId()
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

// vacant refuses while a turn runs, or waits for a person and is not to make way.
func (r *request) vacant() *machine.Failure {
	if r.state.GetStatus() == conversationpb.Status_WAITING && r.limits.PendingPolicy != pendingCancel {
		return r.actionPending()
	}
	return r.notRunning()
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
