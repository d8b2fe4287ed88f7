package meter

import (
	"google.golang.org/protobuf/proto"

	"parley/actors/core/failure"
	"parley/actors/kit"
	"parley/actors/machine"
	"parley/proto/failurepb"
	"parley/proto/logpb"
	"parley/proto/meterpb"
)

// Prefix is that of the ids of meters.
const Prefix = "meter"

// ListDue is the list of all meters by the time at which they are forgotten.
const ListDue = "meter/due"

// MaxRows bounds the rows of a batch.
const MaxRows = 1024

const (
	day        = 24 * 60 * 60_000 // in milliseconds
	remembered = 31 * day
)

// New returns the kind of meters.
func New() kit.Entity {
	meters := rules().Entity()
	meters.Unkept, meters.WhileStopping = true, true
	return meters
}

// counting is the phase of a meter that has counted something.
const counting kit.Phase = "counting"

type (
	step  = kit.Step[*meterpb.State, *meterpb.Command, *meterpb.Event]
	row   = kit.Transition[*meterpb.State, *meterpb.Command, *meterpb.Event]
	table = kit.Rules[*meterpb.State, *meterpb.Command, *meterpb.Event]
)

func rules() table {
	return table{
		Prefix: Prefix,
		Phases: []kit.Phase{counting},
		Phase:  func(*meterpb.State) kit.Phase { return counting },
		Transitions: []row{
			kit.On((*meterpb.Command).GetCount, count).From(kit.Absent).To(counting),
			kit.On((*meterpb.Command).GetCount, count).From(counting),
		},
		Missing: func() *machine.Failure { return failure.New(failurepb.Code_NOT_FOUND, failure.EntityNotFound) },
		Apply:   apply,
		Project: project,
		Reply:   func(*meterpb.State) proto.Message { return &meterpb.Reply{} },
		Lapse: kit.Lapse[*meterpb.State, *meterpb.Command]{
			List: ListDue, At: (*meterpb.State).GetExpiresAt,
			Due: func(id string) *meterpb.Command {
				return &meterpb.Command{Id: id, Body: &meterpb.Command_Due{Due: &meterpb.Due{}}}
			},
		},
	}
}

// count counts a batch that is newer than the last one.
func count(s *step, c *meterpb.Count) *machine.Failure {
	if s.Command.GetId() == "" || c.GetBatch() == 0 || len(c.GetSums()) == 0 || len(c.GetSums()) > MaxRows {
		return failure.New(failurepb.Code_VALIDATION, failure.BadMeterBatch)
	}
	s.Decision.Reply = &meterpb.Reply{}
	if c.GetBatch() <= s.Before.GetBatch() {
		return nil
	}
	expires := s.Before.GetExpiresAt()
	if expires < s.Now+remembered-day { // once a day is enough: each move is a row of the list
		expires = s.Now + remembered
	}
	s.Emit(&meterpb.Event{Body: &meterpb.Event_Counted{Counted: &meterpb.Counted{
		Id: s.Command.GetId(), Batch: c.GetBatch(), Sums: c.GetSums(), ExpiresAt: expires,
	}}})
	return nil
}

// apply folds an event into the state.
func apply(s *meterpb.State, event *meterpb.Event) *meterpb.State {
	counted := event.GetCounted()
	if counted == nil {
		return s
	}
	if s == nil {
		s = &meterpb.State{Id: counted.GetId()}
	}
	s.Batch, s.ExpiresAt = counted.GetBatch(), counted.GetExpiresAt()
	return s
}

// project adds the batch to the sums of its projects.
func project(_, _ *meterpb.State, events []proto.Message, into *logpb.Append) {
	for _, message := range events {
		if event, is := message.(*meterpb.Event); is {
			into.Sums = append(into.Sums, event.GetCounted().GetSums()...)
		}
	}
}
