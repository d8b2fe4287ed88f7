package kit

import (
	"cmp"
	"reflect"
	"slices"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/proto/failurepb"
	"parley/proto/logpb"
)

// State is the head record of an entity. Its message has the fields id and last_seq.
type State interface {
	proto.Message
	GetId() string
	GetLastSeq() uint64
}

// Event is what happened to an entity. Its message has the fields seq and created_at (Unix ms), which Emit fills in.
type Event interface {
	proto.Message
	GetSeq() uint64
}

// Phase names a row of a state table: where an entity is in its life, as far as its transitions depend on it.
type Phase string

const (
	// Absent is the phase of an entity that does not exist, or not any more.
	Absent Phase = "absent"
	// Same is a destination of a transition: the phase that it began in.
	Same Phase = "as before"
)

// Rules are the rules of one kind of entity as a machine.Machine: a table of transitions over the entity's phases. S, C and E are
// pointers to the messages of its state, its commands and its events. Name, Recover, Copy, Reply, Missing and Lapse are optional,
// and so is Project with Lapse. Fields must not be changed once Machine was called. Rules are safe for concurrent use.
type Rules[S State, C proto.Message, E Event] struct {
	// Prefix is the prefix of the entity's ids, without underscore.
	Prefix string
	// Name is the entity's name in failures, "" = its prefix.
	Name string
	// Phases are all that Phase returns; Absent goes without saying.
	Phases []Phase
	// Phase is where an entity that exists is in its life.
	Phase func(state S) Phase
	// Transitions is the state table.
	Transitions []Transition[S, C, E]
	// Missing is the failure of commands to an entity that does not exist, where no transition says otherwise.
	Missing func() *machine.Failure
	// Apply folds one event into a state, which it may change, and returns the state after. The state is nil before the first
	// event. The caller sets its last_seq.
	Apply func(state S, event E) S
	// Copy returns a copy of a state that Apply may change. Nil is proto.Clone; a state that is large and shares what Apply
	// only replaces has a cheaper one.
	Copy func(state S) S
	// Project adds to an append which rows of storage change: items, places in lists, counters. before is nil on create, after
	// on delete.
	Project func(before, after S, events []proto.Message, into *logpb.Append)
	// Lapse removes the entity at a time. Zero: it stays.
	Lapse Lapse[S, C]
	// Reply is what a command is answered with where its transition says nothing else. Nil: with nothing.
	Reply func(after S) proto.Message
	// Recover returns the first command of an entity that was just read from storage, or nil.
	Recover func(state S) C

	commands       []command[S, C, E]
	lastSeq        int // index of the field in the state's struct
	seq, createdAt int // in an event's
}

// command is one kind of command with its transitions.
type command[S State, C proto.Message, E Event] struct {
	name string
	has  func(C) bool
	rows []Transition[S, C, E]
}

// Entity returns an entity with these rules, for its package to complete.
func (r Rules[S, C, E]) Entity() Entity {
	var command C
	return Entity{Machine: r.Machine(), Command: command, Missing: r.Missing, Due: r.Lapse.times()}
}

// Machine returns the rules as the shell runs them.
func (r Rules[S, C, E]) Machine() *Machine[S, C, E] {
	r = r.withLapse()
	var state S
	var event E
	r.lastSeq = field(state, "LastSeq")
	r.seq, r.createdAt = field(event, "Seq"), field(event, "CreatedAt")
	for _, row := range r.Transitions {
		known := slices.IndexFunc(r.commands, func(c command[S, C, E]) bool { return c.name == row.command })
		if known < 0 {
			known = len(r.commands)
			r.commands = append(r.commands, command[S, C, E]{name: row.command, has: row.has})
		}
		r.commands[known].rows = append(r.commands[known].rows, row)
	}
	if shallow := r.Copy; shallow != nil {
		r.Copy = func(state S) S { // with the fields of a newer release, whatever the copy names
			copied := shallow(state)
			if unknown := state.ProtoReflect().GetUnknown(); len(unknown) > 0 {
				copied.ProtoReflect().SetUnknown(unknown)
			}
			return copied
		}
	} else {
		r.Copy = func(state S) S {
			copied, _ := proto.Clone(state).(S)
			return copied
		}
	}
	return &Machine[S, C, E]{r}
}

// field finds a field of a message's struct: to set it there costs nothing, by way of protoreflect two allocations.
func field(message proto.Message, name string) int {
	found, _ := reflect.TypeOf(message).Elem().FieldByName(name)
	return found.Index[0]
}

// stamp gives an event its number and time.
func (r *Rules[S, C, E]) stamp(event E, seq uint64, at int64) {
	message := reflect.ValueOf(event).Elem()
	message.Field(r.seq).SetUint(seq)
	message.Field(r.createdAt).SetInt(at)
}

// Machine is Rules as a machine.Machine.
type Machine[S State, C proto.Message, E Event] struct{ rules Rules[S, C, E] }

// Kind is the prefix of the entity's ids.
func (m *Machine[S, C, E]) Kind() string { return m.rules.Prefix }

// NewState returns an empty state.
func (*Machine[S, C, E]) NewState() proto.Message {
	var state S
	return state.ProtoReflect().New().Interface()
}

// Seq returns the number of the newest event.
func (*Machine[S, C, E]) Seq(state proto.Message) uint64 {
	s, _ := state.(S)
	return s.GetLastSeq()
}

// OnActivate returns the entity's recovery.
func (m *Machine[S, C, E]) OnActivate(state proto.Message, _ machine.Env) proto.Message {
	if m.rules.Recover == nil || state == nil {
		return nil
	}
	s, _ := state.(S)
	command := m.rules.Recover(s)
	if !command.ProtoReflect().IsValid() {
		return nil
	}
	return command
}

// Decide finds the transition of the command in the entity's phase and carries it out.
func (m *Machine[S, C, E]) Decide(state, message proto.Message, env machine.Env) (machine.Decision, *machine.Failure) {
	s, _ := state.(S)
	c, _ := message.(C)
	step := &Step[S, C, E]{
		Env: env, Now: env.Now.UnixMilli(), Command: c, Before: s, rules: &m.rules, after: s, existed: state != nil, shared: true,
	}
	if step.existed {
		step.next = s.GetLastSeq() + 1
	}
	step.Decision.Events = step.room[:0]
	phase := m.phase(state)
	row, known := m.find(c, phase)
	switch {
	case row != nil:
	case known && phase == Absent && m.rules.Missing != nil:
		return machine.Decision{}, m.rules.Missing()
	default:
		return machine.Decision{}, failure.New(failurepb.Code_VALIDATION, failure.UnknownCommand).
			Param("entity", "a "+cmp.Or(m.rules.Name, m.rules.Prefix))
	}
	if refused := row.do(step); refused != nil {
		return machine.Decision{}, refused
	}
	return step.decision(), nil
}

func (m *Machine[S, C, E]) phase(state proto.Message) Phase {
	if state == nil {
		return Absent
	}
	s, _ := state.(S)
	return m.rules.Phase(s)
}

// find returns the row of a command in a phase. known: the table has rows of the command, in this phase or others.
func (m *Machine[S, C, E]) find(c C, phase Phase) (row *Transition[S, C, E], known bool) {
	for i := range m.rules.commands {
		if !m.rules.commands[i].has(c) {
			continue
		}
		rows := m.rules.commands[i].rows
		for k := range rows {
			if slices.Contains(rows[k].from, phase) {
				return &rows[k], true
			}
		}
		return nil, true
	}
	return nil, false
}

// Evolve folds events into a copy of the state.
func (m *Machine[S, C, E]) Evolve(state proto.Message, events []proto.Message) proto.Message {
	if len(events) == 0 {
		return state
	}
	s, _ := state.(S)
	if state != nil {
		s = m.rules.Copy(s)
	}
	for _, message := range events {
		event, _ := message.(E)
		s = m.rules.apply(s, event)
	}
	return s
}

func (r *Rules[S, C, E]) apply(state S, event E) S {
	after := r.Apply(state, event)
	reflect.ValueOf(after).Elem().Field(r.lastSeq).SetUint(event.GetSeq())
	return after
}

// Project adds the rows of storage that change.
func (m *Machine[S, C, E]) Project(before, after proto.Message, events []proto.Message, into *logpb.Append) {
	was, _ := before.(S)
	is, _ := after.(S)
	m.rules.Project(was, is, events, into)
}
