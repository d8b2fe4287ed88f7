package kit

import (
	"cmp"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"parley/actors/machine"
	"parley/proto/logpb"
)

// Lapse removes an entity once its time is over. The zero value means that it stays.
type Lapse[S State, C proto.Message] struct {
	// List is the name of the list of due times.
	List string
	// At is when the entity is removed, in Unix ms.
	At func(state S) int64
	// Due returns the command that the shell sends to an entity that is due. Transitions must not contain it: its rows are added. It
	// removes the entity, unless that has got more time meanwhile or is gone.
	Due func(id string) C
}

// times is the list for Entity.Due.
func (l Lapse[S, C]) times() Due {
	if l.Due == nil {
		return Due{}
	}
	return Due{List: l.List, Command: func(id string) proto.Message { return l.Due(id) }}
}

// withLapse adds the rows and the place in the list that follow from r.Lapse.
func (r Rules[S, C, E]) withLapse() Rules[S, C, E] {
	l, project := r.Lapse, r.Project
	if l.Due == nil {
		return r
	}
	body := bodyOf(l.Due(""))
	due := Transition[S, C, E]{
		command: string(body.Message().Name()),
		has:     func(c C) bool { return c.ProtoReflect().Has(body) },
	}
	remove, gone := due, due
	remove.from, remove.to = r.Phases, []Phase{Same, Absent}
	remove.do = func(s *Step[S, C, E]) *machine.Failure {
		if l.At(s.Before) <= s.Now {
			s.Remove()
		}
		return nil
	}
	gone.from, gone.to = []Phase{Absent}, []Phase{Same}
	gone.do = func(*Step[S, C, E]) *machine.Failure { return nil }
	r.Transitions = append(r.Transitions[:len(r.Transitions):len(r.Transitions)], remove, gone)
	r.Project = func(before, after S, events []proto.Message, into *logpb.Append) {
		machine.Relist(into, l.List, cmp.Or(after.GetId(), before.GetId()), l.At(before), l.At(after))
		if project != nil {
			project(before, after, events, into)
		}
	}
	return r
}

// bodyOf is the field of a command's oneof that is set.
func bodyOf(command proto.Message) (body protoreflect.FieldDescriptor) {
	command.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		if field.ContainingOneof() != nil {
			body = field
		}
		return body == nil
	})
	return body
}
