package task

import (
	"parley/actors/kit"
	"parley/actors/machine"
	"parley/proto/taskpb"
)

// Phases of a task. A run is open in pending, running and cancelling.
const (
	pending    kit.Phase = "pending" // also while an earlier run ends, or is cancelled, for which a comment has come
	running    kit.Phase = "running"
	waiting    kit.Phase = "waiting"    // for a person
	cancelling kit.Phase = "cancelling" // canceled for its readers, but its turn has not ended yet
	ended      kit.Phase = "ended"      // until somebody comments
)

func phaseOf(s *taskpb.State) kit.Phase {
	switch {
	case s.GetStatus() == taskpb.Status_RUNNING:
		return running
	case s.GetStatus() == taskpb.Status_PENDING:
		return pending
	case s.GetRun() != nil:
		return cancelling
	case s.GetWaiting() != nil:
		return waiting
	}
	return ended
}

type (
	step  = kit.Step[*taskpb.State, *taskpb.Command, *taskpb.Event]
	row   = kit.Transition[*taskpb.State, *taskpb.Command, *taskpb.Event]
	table = kit.Rules[*taskpb.State, *taskpb.Command, *taskpb.Event]
)

// rules are the rules under the given limits.
func rules(limits Limits) machine.Machine {
	return table{
		Prefix:      "task",
		Phases:      []kit.Phase{pending, running, waiting, cancelling, ended},
		Phase:       phaseOf,
		Transitions: transitions(limits),
		Missing:     notFound,
		Apply:       limits.apply,
		Project:     project,
		Reply:       replyOf,
		Recover: func(s *taskpb.State) *taskpb.Command {
			if s.GetRun() == nil && !s.GetCallback().GetTrying() {
				return nil
			}
			return &taskpb.Command{TaskId: s.GetId(), Body: &taskpb.Command_Recover{Recover: &taskpb.Recover{}}}
		},
	}.Machine()
}

// transitions is the state table. A repeat of a command changes nothing.
func transitions(l Limits) []row {
	exists := []kit.Phase{pending, running, waiting, cancelling, ended}
	return []row{
		kit.On((*taskpb.Command).GetCreate, on(l, (*request).create)).From(kit.Absent).To(pending),
		kit.On((*taskpb.Command).GetCreate, on(l, (*request).again)).From(exists...),
		kit.On((*taskpb.Command).GetAddComment, on(l, (*request).addComment)).From(exists...).To(pending, kit.Same),
		kit.On((*taskpb.Command).GetCancel, on(l, (*request).cancel)).From(pending, running, waiting).To(cancelling, kit.Same),
		kit.On((*taskpb.Command).GetCancel, on(l, (*request).cancel)).From(cancelling, ended),
		kit.On((*taskpb.Command).GetStarted, on(l, (*request).started)).From(pending).To(pending, running),
		kit.On((*taskpb.Command).GetStarted, on(l, (*request).started)).From(running, waiting, cancelling, ended),
		kit.On((*taskpb.Command).GetEnded, on(l, (*request).ended)).From(pending, running, waiting).To(waiting, ended, kit.Same),
		kit.On((*taskpb.Command).GetEnded, on(l, (*request).ended)).From(cancelling).To(ended, kit.Same),
		kit.On((*taskpb.Command).GetEnded, on(l, (*request).ended)).From(ended),
		kit.On((*taskpb.Command).GetResumed, on(l, (*request).resumed)).From(waiting).To(running, kit.Same),
		kit.On((*taskpb.Command).GetResumed, on(l, (*request).resumed)).From(pending, running, cancelling, ended),
		kit.On((*taskpb.Command).GetRecover, on(l, (*request).recover)).From(exists...),
		kit.On((*taskpb.Command).GetDue, on(l, (*request).due)).From(exists...),
		kit.On((*taskpb.Command).GetReported, on(l, (*request).reported)).From(exists...),
	}
}

// on is a rule under the limits.
func on[B any](l Limits, rule func(*request, B) *machine.Failure) func(*step, B) *machine.Failure {
	return func(s *step, body B) *machine.Failure { return rule(&request{step: s, limits: l}, body) }
}
