package run

import (
	"parley/actors/kit"
	"parley/actors/machine"
	"parley/proto/runpb"
)

// Phases of a run.
const (
	admitting  kit.Phase = "admitting" // it has neither its place in the queue nor its conversation yet
	queued     kit.Phase = "queued"
	running    kit.Phase = "running"
	waiting    kit.Phase = "waiting" // for a person
	cancelling kit.Phase = "cancelling"
	ended      kit.Phase = "ended"   // but has not let go of queue and conversation yet
	settled    kit.Phase = "settled" // and can be read until it is removed
)

func phaseOf(s *runpb.State) kit.Phase {
	switch {
	case s.GetSettled():
		return settled
	case s.Over():
		return ended
	case !s.GetAdmitted():
		return admitting
	case s.GetCancelling():
		return cancelling
	}
	switch s.GetStatus() {
	case runpb.Status_RUNNING:
		return running
	case runpb.Status_REQUIRES_ACTION:
		return waiting
	default:
		return queued
	}
}

type (
	step  = kit.Step[*runpb.State, *runpb.Command, *runpb.Event]
	row   = kit.Transition[*runpb.State, *runpb.Command, *runpb.Event]
	table = kit.Rules[*runpb.State, *runpb.Command, *runpb.Event]
)

// rules are the rules under the given limits.
func rules(limits Limits) machine.Machine {
	return table{
		Prefix:      "run",
		Phases:      []kit.Phase{admitting, queued, running, waiting, cancelling, ended, settled},
		Phase:       phaseOf,
		Transitions: transitions(limits),
		Missing:     Missing,
		Apply:       limits.apply,
		Project:     limits.project,
		Reply:       replyOf,
		Recover: func(s *runpb.State) *runpb.Command {
			if !Driven(s) && !trying(s) {
				return nil
			}
			return &runpb.Command{RunId: s.GetId(), Body: &runpb.Command_Recover{Recover: &runpb.Recover{}}}
		},
	}.Machine()
}

// transitions is the state table. What is not a change of phase may still change the state: a place is taken or given back, a
// call is due.
func transitions(l Limits) []row {
	exists := []kit.Phase{admitting, queued, running, waiting, cancelling, ended, settled}
	open := []kit.Phase{admitting, queued, running, waiting, cancelling}
	over := []kit.Phase{ended, settled}
	return []row{
		kit.On((*runpb.Command).GetCreate, may(l, (*request).create)).From(kit.Absent).To(admitting),
		kit.On((*runpb.Command).GetCreate, may(l, (*request).again)).From(exists...),
		kit.On((*runpb.Command).GetAdmitted, on(l, (*request).admitted)).From(admitting).To(queued, cancelling, running, waiting, kit.Absent),
		kit.On((*runpb.Command).GetAdmitted, on(l, nothing[*runpb.Admitted])).From(queued, running, waiting, cancelling, ended, settled),
		kit.On((*runpb.Command).GetBegan, on(l, (*request).began)).From(queued).To(queued, running),
		kit.On((*runpb.Command).GetBegan, on(l, (*request).began)).From(admitting, cancelling),
		kit.On((*runpb.Command).GetBegan, on(l, nothing[*runpb.Began])).From(running, waiting, ended, settled),
		kit.On((*runpb.Command).GetPaused, on(l, (*request).paused)).From(running, waiting).To(waiting),
		kit.On((*runpb.Command).GetPaused, on(l, (*request).paused)).From(admitting, queued),
		kit.On((*runpb.Command).GetPaused, on(l, nothing[*runpb.Paused])).From(cancelling, ended, settled),
		kit.On((*runpb.Command).GetResumed, on(l, (*request).resumed)).From(waiting).To(running),
		kit.On((*runpb.Command).GetResumed, on(l, (*request).resumed)).From(admitting, queued, running, cancelling, ended, settled),
		kit.On((*runpb.Command).GetParked, on(l, (*request).parked)).From(exists...),
		kit.On((*runpb.Command).GetEnded, on(l, (*request).ended)).From(open...).To(ended),
		kit.On((*runpb.Command).GetEnded, on(l, nothing[*runpb.Ended])).From(over...),
		kit.On((*runpb.Command).GetSettled, on(l, (*request).settled)).From(ended).To(settled),
		kit.On((*runpb.Command).GetSettled, on(l, nothing[*runpb.Settled])).From(append(open, settled)...),
		kit.On((*runpb.Command).GetCancel, may(l, (*request).cancel)).From(queued, running, waiting).To(cancelling),
		kit.On((*runpb.Command).GetCancel, may(l, (*request).cancel)).From(admitting, cancelling, ended, settled),
		kit.On((*runpb.Command).GetAwait, may(l, (*request).await)).From(exists...),
		kit.On((*runpb.Command).GetPlaced, on(l, (*request).placed)).From(exists...),
		kit.On((*runpb.Command).GetLook, on(l, (*request).look)).From(exists...),
		kit.On((*runpb.Command).GetPosted, on(l, (*request).posted)).From(exists...),
		kit.On((*runpb.Command).GetRecover, on(l, (*request).recover)).From(exists...),
		kit.On((*runpb.Command).GetDue, on(l, (*request).due)).From(admitting, queued, running, waiting, cancelling, ended),
		kit.On((*runpb.Command).GetDue, on(l, (*request).due)).From(settled).To(settled, kit.Absent),
	}
}

// may is a rule that may refuse, on one that does not.
func may[B any](l Limits, rule func(*request, B) *machine.Failure) func(*step, B) *machine.Failure {
	return func(s *step, body B) *machine.Failure { return rule(&request{step: s, limits: l}, body) }
}

func on[B any](l Limits, rule func(*request, B)) func(*step, B) *machine.Failure {
	return may(l, func(r *request, body B) *machine.Failure {
		rule(r, body)
		return nil
	})
}

// nothing is what a command does that comes too late, or again: it is answered with the run as it is.
func nothing[B any](*request, B) {}

// Missing is the failure for a run that does not exist.
func Missing() *machine.Failure { return notFound() }

// Driven says that the run needs a driver now: there is something to be done, and it is not waited for.
func Driven(s *runpb.State) bool {
	switch {
	case s == nil || s.GetSettled():
		return false
	case s.Over(), !s.GetAdmitted(), s.GetCancelling(), s.GetPlaced():
		return true
	}
	return s.GetStatus() == runpb.Status_RUNNING
}
