package webhook

import (
	"google.golang.org/protobuf/proto"

	"parley/actors/core/failure"
	"parley/actors/kit"
	"parley/actors/machine"
	"parley/proto/failurepb"
	"parley/proto/webhookpb"
)

// Phases of an endpoint's deliveries.
const (
	looking kit.Phase = "looking" // a courier is at them
	resting kit.Phase = "resting" // nothing is to be done before look_at
)

func phaseOf(s *webhookpb.State) kit.Phase {
	if s.GetLooking() {
		return looking
	}
	return resting
}

type (
	step  = kit.Step[*webhookpb.State, *webhookpb.Command, *webhookpb.Event]
	row   = kit.Transition[*webhookpb.State, *webhookpb.Command, *webhookpb.Event]
	table = kit.Rules[*webhookpb.State, *webhookpb.Command, *webhookpb.Event]
)

// Machine is the limits under which the rules decide. It holds no state and is safe for concurrent use.
type Machine struct{ limits Limits }

func rules(limits Limits) machine.Machine {
	m := &Machine{limits: limits}
	return table{
		Prefix: "wh", Phases: []kit.Phase{looking, resting}, Phase: phaseOf, Transitions: m.transitions(), Missing: Missing,
		Apply: apply, Project: project,
		Reply: func(after *webhookpb.State) proto.Message { return &webhookpb.Reply{State: after} },
		Recover: func(s *webhookpb.State) *webhookpb.Command {
			if !s.GetLooking() {
				return nil
			}
			return &webhookpb.Command{Id: s.GetId(), Body: &webhookpb.Command_Recover{Recover: &webhookpb.Recover{}}}
		},
	}.Machine()
}

// transitions is the state table.
func (m *Machine) transitions() []row {
	return []row{
		kit.On((*webhookpb.Command).GetAccept, m.accept).From(kit.Absent).To(looking, resting),
		kit.On((*webhookpb.Command).GetAccept, m.accept).From(looking, resting).To(kit.Same, looking),
		kit.On((*webhookpb.Command).GetRecord, m.record).From(kit.Absent).To(resting),
		kit.On((*webhookpb.Command).GetRecord, m.record).From(looking, resting),
		kit.On((*webhookpb.Command).GetRedeliver, m.redeliver).From(looking, resting).To(looking),
		kit.On((*webhookpb.Command).GetRedeliverFailed, m.redeliverFailed).From(looking, resting).To(kit.Same, looking),
		kit.On((*webhookpb.Command).GetReport, m.report).From(looking, resting).To(kit.Same, looking),
		kit.On((*webhookpb.Command).GetRest, rest).From(looking).To(looking, resting),
		kit.On((*webhookpb.Command).GetRest, same[*webhookpb.Rest]).From(resting),
		kit.On((*webhookpb.Command).GetTrim, m.trim).From(looking, resting),
		kit.On((*webhookpb.Command).GetTold, told).From(looking, resting),
		kit.On((*webhookpb.Command).GetChanged, changed).From(looking, resting).To(kit.Same, looking),
		kit.On((*webhookpb.Command).GetChanged, same[*webhookpb.Changed]).From(kit.Absent),
		kit.On((*webhookpb.Command).GetRemove, remove).From(looking, resting).To(kit.Absent),
		kit.On((*webhookpb.Command).GetRemove, same[*webhookpb.Remove]).From(kit.Absent),
		kit.On((*webhookpb.Command).GetDue, look[*webhookpb.Due]).From(resting).To(looking),
		kit.On((*webhookpb.Command).GetDue, same[*webhookpb.Due]).From(looking),
		kit.On((*webhookpb.Command).GetRecover, func(s *step, _ *webhookpb.Recover) *machine.Failure {
			s.Effect(looks(s))
			return nil
		}).From(looking),
		kit.On((*webhookpb.Command).GetRecover, same[*webhookpb.Recover]).From(resting),
	}
}

func same[B any](*step, B) *machine.Failure { return nil }

// Missing is the failure for an endpoint that was told nothing yet.
func Missing() *machine.Failure {
	return failure.New(failurepb.Code_NOT_FOUND, failure.EndpointNotFound)
}

func invalid() *machine.Failure {
	return failure.New(failurepb.Code_VALIDATION, failure.BadWebhookCommand)
}

// Look has a courier see what is to be done. Shared: only read.
type Look struct {
	Fresh   []*webhookpb.Delivery // were just accepted: it need not read them; none = something else has happened
	Reports uint64                // that were taken before
	// Generation is the newest of the endpoint's record that is known.
	Generation uint64
}

// look has a courier called.
func look[B any](s *step, _ B) *machine.Failure {
	s.Emit(&webhookpb.Event{Body: &webhookpb.Event_Called{Called: &webhookpb.Called{}}})
	s.Effect(looks(s))
	return nil
}

// looks is a Look at what is stored.
func looks(s *step) Look { return Look{Generation: s.State().GetGeneration()} }

// rest lets the courier go, if nothing has happened since it looked.
func rest(s *step, c *webhookpb.Rest) *machine.Failure {
	if s.Before.GetLastSeq() == c.GetSeq() && s.Before.GetWish() == nil {
		s.Emit(&webhookpb.Event{Body: &webhookpb.Event_Rested{Rested: &webhookpb.Rested{LookAt: c.GetLookAt()}}})
	}
	return nil
}

// told forgets a wish that was carried out.
func told(s *step, c *webhookpb.Told) *machine.Failure {
	if wish := s.Before.GetWish(); wish != nil && wish.GetNumber() == c.GetNumber() {
		s.Emit(&webhookpb.Event{Body: &webhookpb.Event_Told{Told: c}})
	}
	return nil
}

// changed takes over what a person has made of the record.
func changed(s *step, c *webhookpb.Changed) *machine.Failure {
	if c.GetGeneration() > s.Before.GetGeneration() {
		s.Emit(&webhookpb.Event{Body: &webhookpb.Event_Changed{Changed: c}})
		s.Effect(looks(s))
	}
	return nil
}

func remove(s *step, _ *webhookpb.Remove) *machine.Failure {
	s.Remove()
	s.Decision.Reply = &webhookpb.Reply{}
	return nil
}

// apply folds an event into the state.
func apply(s *webhookpb.State, event *webhookpb.Event) *webhookpb.State {
	switch body := event.GetBody().(type) {
	case *webhookpb.Event_Accepted:
		s = accepted(s, body.Accepted)
	case *webhookpb.Event_Moved:
		moved(s, body.Moved)
	case *webhookpb.Event_Rested:
		s.Looking, s.LookAt = false, body.Rested.GetLookAt()
	case *webhookpb.Event_Called:
		s.Looking = true
	case *webhookpb.Event_Trimmed:
		s.Settled -= min(s.GetSettled(), uint64(len(body.Trimmed.GetMarks())))
		s.TrimAt = body.Trimmed.GetTrimAt()
		s.Revision++
	case *webhookpb.Event_Changed:
		s.Generation, s.FailingSince = body.Changed.GetGeneration(), body.Changed.GetFailingSince()
		s.Wish, s.Looking = nil, true
	case *webhookpb.Event_Told:
		s.Wish = nil
	}
	return s
}
