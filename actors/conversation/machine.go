package conversation

import (
	"parley/actors/core/failure"
	"parley/actors/kit"
	"parley/actors/machine"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// Phases of a conversation. Whether a background run holds it is no phase: it may in each of them.
const (
	idle       kit.Phase = "idle"
	cut        kit.Phase = "cut"        // idle, and its last turn, which the budget cut, can be continued
	running    kit.Phase = "running"    // a turn runs
	cancelling kit.Phase = "cancelling" // the turn that runs has been cancelled, and has not ended yet
	waiting    kit.Phase = "waiting"    // the turn waits for a person
)

func phaseOf(s *conversationpb.State) kit.Phase {
	switch lease := s.GetLease(); {
	case lease.GetCancelling():
		return cancelling
	case lease != nil:
		return running
	case s.GetStatus() == conversationpb.Status_WAITING:
		return waiting
	case s.GetContinuable() && s.GetPaused() != nil:
		return cut
	}
	return idle
}

type (
	step  = kit.Step[*conversationpb.State, *conversationpb.Command, *conversationpb.Event]
	row   = kit.Transition[*conversationpb.State, *conversationpb.Command, *conversationpb.Event]
	table = kit.Rules[*conversationpb.State, *conversationpb.Command, *conversationpb.Event]
)

// rules are the limits under which commands are decided.
type rules struct {
	limits Limits
}

// New returns the rules of conversations under the given limits, which must be valid.
func New(limits Limits) machine.Machine {
	r := &rules{limits: limits}
	return table{
		Prefix:      "conv",
		Name:        "conversation",
		Phases:      []kit.Phase{idle, cut, running, cancelling, waiting},
		Phase:       phaseOf,
		Transitions: r.transitions(),
		Missing:     conversationNotFound,
		Apply:       r.apply,
		Copy:        fork,
		Project:     project,
		Recover: func(s *conversationpb.State) *conversationpb.Command {
			if s.GetLease() == nil && !Telling(s) {
				return nil
			}
			return &conversationpb.Command{
				ConversationId: s.GetId(),
				Body:           &conversationpb.Command_Recover{Recover: &conversationpb.Recover{}},
			}
		},
	}.Machine()
}

// transitions is the state table; the commands of a turn come first, because they are looked for in this order. The same phase
// after a command that has another one means that it was a repeat, or that it was not all that is needed.
func (m *rules) transitions() []row {
	exists := []kit.Phase{idle, cut, running, cancelling, waiting}
	send, regenerate, edit := once(again, (*request).send), once(again, (*request).regenerate), once(again, (*request).edit)
	resolve, answer := (*request).resolve, once(resumedAgain, (*request).answerCalls)
	continues := once(resumedAgain, (*request).continueTurn)
	cancel := func(rule rule[*conversationpb.Cancel]) rule[*conversationpb.Cancel] {
		return once((*request).cancelAgain, ofTurn(rule))
	}
	return []row{
		kit.On((*conversationpb.Command).GetSend, opens(m, send)).From(kit.Absent).To(running),
		kit.On((*conversationpb.Command).GetSend, opens(m, send)).From(idle, cut, waiting).To(running, kit.Same),
		kit.On((*conversationpb.Command).GetSend, opens(m, send)).From(running).To(cancelling, kit.Same),
		kit.On((*conversationpb.Command).GetSend, opens(m, send)).From(cancelling),
		kit.On((*conversationpb.Command).GetProgress, on(m, (*request).progress)).From(running).To(waiting, kit.Same),
		kit.On((*conversationpb.Command).GetProgress, on(m, (*request).progress)).From(idle, cut, cancelling, waiting),
		kit.On((*conversationpb.Command).GetFinish, on(m, (*request).finish)).From(running, cancelling).To(idle, cut, running, kit.Same),
		kit.Refuse((*conversationpb.Command).GetFinish, leaseLost).From(idle, cut, waiting),
		kit.On((*conversationpb.Command).GetAwaitRun, on(m, (*request).awaitRun)).From(exists...),
		kit.On((*conversationpb.Command).GetCreate, on(m, (*request).create)).From(kit.Absent).To(idle),
		kit.On((*conversationpb.Command).GetCreate, on(m, (*request).createAgain)).From(exists...),
		kit.On((*conversationpb.Command).GetCancel, on(m, cancel((*request).cancelRunning))).From(running).To(cancelling, kit.Same),
		kit.On((*conversationpb.Command).GetCancel, on(m, cancel((*request).cancelRunning))).From(cancelling),
		kit.On((*conversationpb.Command).GetCancel, on(m, cancel((*request).cancelWaiting))).From(waiting).To(idle, running, kit.Same),
		kit.On((*conversationpb.Command).GetCancel, on(m, cancel((*request).cancelNothing))).From(idle, cut),
		kit.On((*conversationpb.Command).GetCancelTimeout, on(m, (*request).cancelTimeout)).From(cancelling).To(idle, running, kit.Same),
		kit.On((*conversationpb.Command).GetCancelTimeout, on(m, (*request).tooLate)).From(kit.Absent, idle, cut, running, waiting),
		kit.On((*conversationpb.Command).GetResolve, on(m, resolve)).From(waiting).To(idle, running, kit.Same),
		kit.On((*conversationpb.Command).GetResolve, on(m, resolve)).From(idle, cut, running, cancelling),
		kit.On((*conversationpb.Command).GetAnswer, on(m, answer)).From(waiting).To(idle, running, kit.Same),
		kit.On((*conversationpb.Command).GetAnswer, on(m, answer)).From(idle, cut, running, cancelling),
		kit.On((*conversationpb.Command).GetContinue, on(m, continues)).From(cut).To(running, kit.Same),
		kit.On((*conversationpb.Command).GetContinue, on(m, continues)).From(idle, running, cancelling, waiting),
		kit.On((*conversationpb.Command).GetRecover, on(m, (*request).recover)).From(running, cancelling).To(idle, running, kit.Same),
		kit.On((*conversationpb.Command).GetRecover, on(m, (*request).recoverPushes)).From(idle, cut, waiting),
		kit.On((*conversationpb.Command).GetRecover, on(m, nothing[*conversationpb.Recover])).From(kit.Absent),
		kit.On((*conversationpb.Command).GetDue, on(m, (*request).due)).From(waiting).To(idle, running, kit.Same),
		kit.On((*conversationpb.Command).GetDue, on(m, (*request).due)).From(idle, cut, running, cancelling),
		kit.On((*conversationpb.Command).GetDue, on(m, nothing[*conversationpb.Due])).From(kit.Absent),
		kit.On((*conversationpb.Command).GetRegenerate, on(m, regenerate)).From(idle, cut, waiting).To(running, kit.Same),
		kit.On((*conversationpb.Command).GetRegenerate, on(m, regenerate)).From(running, cancelling),
		kit.On((*conversationpb.Command).GetEdit, opens(m, edit)).From(idle, cut, waiting).To(running, kit.Same),
		kit.On((*conversationpb.Command).GetEdit, opens(m, edit)).From(kit.Absent, running, cancelling),
		kit.On((*conversationpb.Command).GetHold, opens(m, (*request).hold)).From(kit.Absent).To(idle),
		kit.On((*conversationpb.Command).GetHold, opens(m, (*request).hold)).From(exists...).To(running, kit.Same),
		kit.On((*conversationpb.Command).GetUpdate, on(m, once((*request).updateAgain, (*request).update))).From(exists...).To(running, kit.Same),
		kit.On((*conversationpb.Command).GetSetTitle, on(m, (*request).setTitle)).From(exists...),
		kit.On((*conversationpb.Command).GetRate, on(m, (*request).rate)).From(exists...),
		kit.On((*conversationpb.Command).GetForget, on(m, (*request).forget)).From(exists...),
		kit.On((*conversationpb.Command).GetAddFile, on(m, (*request).addFile)).From(exists...),
		kit.On((*conversationpb.Command).GetRemoveFile, on(m, (*request).removeFile)).From(exists...),
		kit.On((*conversationpb.Command).GetSetPush, on(m, (*request).setPush)).From(exists...),
		kit.On((*conversationpb.Command).GetRemovePush, on(m, (*request).removePush)).From(exists...),
		kit.On((*conversationpb.Command).GetPushed, on(m, (*request).pushed)).From(exists...),
		kit.On((*conversationpb.Command).GetPushed, on(m, nothing[*conversationpb.Pushed])).From(kit.Absent),
		kit.On((*conversationpb.Command).GetDelete, on(m, (*request).delete)).From(exists...).To(kit.Absent),
		kit.On((*conversationpb.Command).GetDelete, on(m, (*request).deleteAgain)).From(kit.Absent),
	}
}

// rule decides a command by its body, each in the file of its name.
type rule[B any] func(*request, B) *machine.Failure

// on is a rule of a command that opens nothing.
func on[B any](m *rules, rule rule[B]) func(*step, B) *machine.Failure {
	return func(s *step, body B) *machine.Failure {
		r := &request{rules: m, step: s, state: s.Before}
		if s.Command.GetOpening() != nil && r.outcome() == nil {
			return failure.New(failurepb.Code_VALIDATION, failure.OpeningNotAllowed)
		}
		return rule(r, body)
	}
}

// opens is a rule of a command that may have an opening, and is decided on the state after that.
func opens[B any](m *rules, rule rule[B]) func(*step, B) *machine.Failure {
	return func(s *step, body B) *machine.Failure {
		r := &request{rules: m, step: s, state: s.Before}
		if f := r.open(s.Command.GetOpening()); f != nil {
			return f
		}
		return rule(r, body)
	}
}

// once is a rule of a command that is carried out once: a repeat is answered with what the first one did.
func once[B any](again func(*request, *conversationpb.Outcome, B) *machine.Failure, rule rule[B]) rule[B] {
	return func(r *request, body B) *machine.Failure {
		first, f := r.admit()
		switch {
		case f != nil:
			return f
		case first != nil:
			return again(r, first, body)
		}
		return rule(r, body)
	}
}

// nothing is what a command does in a phase in which there is nothing for it to do.
func nothing[B any](*request, B) *machine.Failure { return nil }
