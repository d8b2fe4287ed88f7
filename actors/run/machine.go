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

// Machine is the limits under which the rules decide. It holds no state and is safe for concurrent use.
type Machine struct {
	limits Limits
}

// rules are the rules under the given limits.
func rules(limits Limits) machine.Machine {
	m := &Machine{limits: limits}
	return table{
		Prefix:      "run",
		Phases:      []kit.Phase{admitting, queued, running, waiting, cancelling, ended, settled},
		Phase:       phaseOf,
		Transitions: m.transitions(),
		Missing:     Missing,
		Apply:       m.apply,
		Project:     m.project,
		Recover: func(s *runpb.State) *runpb.Command {
			if !Driven(s) {
				return nil
			}
			return &runpb.Command{RunId: s.GetId(), Body: &runpb.Command_Recover{Recover: &runpb.Recover{}}}
		},
	}.Machine()
}

// transitions is the state table. What is not a change of phase may still change the state: a place is taken or given back, a
// call is due.
func (m *Machine) transitions() []row {
	exists := []kit.Phase{admitting, queued, running, waiting, cancelling, ended, settled}
	open := []kit.Phase{admitting, queued, running, waiting, cancelling}
	over := []kit.Phase{ended, settled}
	return []row{
		kit.On((*runpb.Command).GetCreate, may(m, (*request).create)).From(kit.Absent).To(admitting),
		kit.On((*runpb.Command).GetCreate, may(m, (*request).again)).From(exists...),
		kit.On((*runpb.Command).GetAdmitted, on(m, (*request).admitted)).From(admitting).To(queued, cancelling, running, waiting, kit.Absent),
		kit.On((*runpb.Command).GetAdmitted, on(m, same[*runpb.Admitted])).From(queued, running, waiting, cancelling, ended, settled),
		kit.On((*runpb.Command).GetBegan, on(m, (*request).began)).From(queued).To(queued, running),
		kit.On((*runpb.Command).GetBegan, on(m, (*request).began)).From(admitting, cancelling),
		kit.On((*runpb.Command).GetBegan, on(m, same[*runpb.Began])).From(running, waiting, ended, settled),
		kit.On((*runpb.Command).GetPaused, on(m, (*request).paused)).From(running, waiting).To(waiting),
		kit.On((*runpb.Command).GetPaused, on(m, (*request).paused)).From(admitting, queued),
		kit.On((*runpb.Command).GetPaused, on(m, same[*runpb.Paused])).From(cancelling, ended, settled),
		kit.On((*runpb.Command).GetResumed, on(m, (*request).resumed)).From(waiting).To(running),
		kit.On((*runpb.Command).GetResumed, on(m, (*request).resumed)).From(admitting, queued, running, cancelling, ended, settled),
		kit.On((*runpb.Command).GetParked, on(m, (*request).parked)).From(exists...),
		kit.On((*runpb.Command).GetEnded, on(m, (*request).ended)).From(open...).To(ended),
		kit.On((*runpb.Command).GetEnded, on(m, same[*runpb.Ended])).From(over...),
		kit.On((*runpb.Command).GetSettled, on(m, (*request).settled)).From(ended).To(settled),
		kit.On((*runpb.Command).GetSettled, on(m, same[*runpb.Settled])).From(append(open, settled)...),
		kit.On((*runpb.Command).GetCancel, may(m, (*request).cancel)).From(queued, running, waiting).To(cancelling),
		kit.On((*runpb.Command).GetCancel, may(m, (*request).cancel)).From(admitting, cancelling, ended, settled),
		kit.On((*runpb.Command).GetAwait, may(m, (*request).await)).From(exists...),
		kit.On((*runpb.Command).GetPlaced, on(m, (*request).placed)).From(exists...),
		kit.On((*runpb.Command).GetLook, on(m, (*request).look)).From(exists...),
		kit.On((*runpb.Command).GetPosted, on(m, (*request).posted)).From(exists...),
		kit.On((*runpb.Command).GetRecover, on(m, (*request).recover)).From(exists...),
		kit.On((*runpb.Command).GetDue, on(m, (*request).due)).From(admitting, queued, running, waiting, cancelling, ended),
		kit.On((*runpb.Command).GetDue, on(m, (*request).due)).From(settled).To(settled, kit.Absent),
	}
}

// may is a rule that may refuse, on one that does not.
func may[B any](m *Machine, rule func(*request, B) (machine.Decision, *machine.Failure)) func(*step, B) *machine.Failure {
	return func(s *step, body B) (refused *machine.Failure) {
		s.Decision, refused = rule(&request{Machine: m, step: s, state: s.Before, command: s.Command, now: s.Now}, body)
		return refused
	}
}

func on[B any](m *Machine, rule func(*request, B) machine.Decision) func(*step, B) *machine.Failure {
	return may(m, func(r *request, body B) (machine.Decision, *machine.Failure) { return rule(r, body), nil })
}

// same answers with the run as it is.
func same[B any](r *request, _ B) machine.Decision { return r.decide() }

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
