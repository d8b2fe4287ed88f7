package kit

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"parley/actors/machine"
)

// Transition is one row of a state table: what a command does to an entity in some phases. On and Refuse make them.
type Transition[S State, C proto.Message, E Event] struct {
	command string // name of its body's message
	has     func(C) bool
	from    []Phase
	to      []Phase
	refuses bool
	do      func(*Step[S, C, E]) *machine.Failure
}

// On is a command whose body is the given one of its oneof, carried out by a function of the body's type.
func On[S State, C proto.Message, E Event, T any, B interface {
	*T
	proto.Message
}](body func(C) B, do func(*Step[S, C, E], B) *machine.Failure) Transition[S, C, E] {
	row := named[S, C, E](body)
	row.do = func(step *Step[S, C, E]) *machine.Failure { return do(step, body(step.Command)) }
	return row
}

// Refuse is a command that is refused whatever it says.
func Refuse[S State, C proto.Message, E Event, T any, B interface {
	*T
	proto.Message
}](body func(C) B, why func(*Step[S, C, E]) *machine.Failure) Transition[S, C, E] {
	row := named[S, C, E](body)
	row.do, row.refuses = why, true
	return row
}

func named[S State, C proto.Message, E Event, T any, B interface {
	*T
	proto.Message
}](body func(C) B) Transition[S, C, E] {
	var empty B
	return Transition[S, C, E]{
		command: string(empty.ProtoReflect().Descriptor().Name()),
		has:     func(c C) bool { return body(c) != nil },
		to:      []Phase{Same},
	}
}

// From says in which phases the row applies.
func (t Transition[S, C, E]) From(phases ...Phase) Transition[S, C, E] {
	t.from = phases
	return t
}

// To says in which phases the entity may be afterwards. Without it, it stays in its own.
func (t Transition[S, C, E]) To(phases ...Phase) Transition[S, C, E] {
	t.to = phases
	return t
}

// Table is what tests know of a state table, whatever its types.
type Table interface {
	// Check says what the table does not say: a phase and command without a row, or with two; a phase that is none; a row
	// that is never used.
	Check() error
	// CheckStep says whether the table allows the phase that a command has led to. after is nil when the entity has ended.
	CheckStep(before, command, after proto.Message) error
	// Markdown prints the table, a row for each command and its phases.
	Markdown() string
}

// Check implements Table.
func (m *Machine[S, C, E]) Check() error {
	phases := append([]Phase{Absent}, m.rules.Phases...)
	for _, row := range m.rules.Transitions {
		for _, phase := range slices.Concat(row.from, row.to) {
			if phase != Same && !slices.Contains(phases, phase) {
				return fmt.Errorf("%s: there is no phase %q", row.command, phase)
			}
		}
	}
	bodies := bodiesOf[C]()
	for _, body := range bodies {
		if err := m.checkRows(body, phases); err != nil {
			return err
		}
	}
	if len(bodies) != len(m.rules.commands) {
		return fmt.Errorf("%d commands have rows, of %d that there are", len(m.rules.commands), len(bodies))
	}
	return nil
}

// checkRows looks for the one row of a command in each phase.
func (m *Machine[S, C, E]) checkRows(body C, phases []Phase) error {
	name := bodyName(body)
	known := slices.IndexFunc(m.rules.commands, func(c command[S, C, E]) bool { return c.has(body) })
	if known < 0 {
		return fmt.Errorf("%s: no row says what it does", name)
	}
	for _, phase := range phases {
		found := 0
		for _, row := range m.rules.commands[known].rows {
			if slices.Contains(row.from, phase) {
				found++
			}
		}
		if found == 0 && phase == Absent && m.rules.Missing != nil {
			continue
		}
		if found != 1 {
			return fmt.Errorf("%s of an entity that is %s: %d rows instead of one", name, phase, found)
		}
	}
	return nil
}

// bodiesOf makes a command of every kind.
func bodiesOf[C proto.Message]() (all []C) {
	var empty C
	fields := empty.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if field.ContainingOneof() == nil || field.Kind() != protoreflect.MessageKind {
			continue
		}
		message := empty.ProtoReflect().New()
		message.Set(field, message.NewField(field))
		command, _ := message.Interface().(C)
		all = append(all, command)
	}
	return all
}

func bodyName(command proto.Message) string {
	if body := bodyOf(command); body != nil {
		return string(body.Name())
	}
	return "an empty command"
}

// CheckStep implements Table.
func (m *Machine[S, C, E]) CheckStep(before, message, after proto.Message) error {
	c, _ := message.(C)
	from, to := m.phase(before), m.phase(after)
	row, _ := m.find(c, from)
	switch {
	case row == nil:
		return fmt.Errorf("%s of an entity that is %s was not refused", bodyName(message), from)
	case row.refuses:
		return fmt.Errorf("%s of an entity that is %s was not refused, as the table says", row.command, from)
	case slices.Contains(row.to, to), from == to && slices.Contains(row.to, Same):
		return nil
	}
	return fmt.Errorf("%s led from %s to %s, which the table does not allow", row.command, from, to)
}

// Markdown implements Table.
func (m *Machine[S, C, E]) Markdown() string {
	var b strings.Builder
	b.WriteString("| command | an entity that is | is afterwards |\n|---|---|---|\n")
	for _, command := range m.rules.commands {
		for _, row := range command.rows {
			to := joined(row.to)
			if row.refuses {
				to = "refused"
			}
			fmt.Fprintf(&b, "| %s | %s | %s |\n", command.name, joined(row.from), to)
		}
		if m.rules.Missing != nil && !slices.ContainsFunc(command.rows, func(row Transition[S, C, E]) bool {
			return slices.Contains(row.from, Absent)
		}) {
			fmt.Fprintf(&b, "| %s | %s | refused |\n", command.name, Absent)
		}
	}
	return b.String()
}

func joined(phases []Phase) string {
	names := make([]string, len(phases))
	for i, phase := range phases {
		names[i] = string(phase)
	}
	return strings.Join(names, ", ")
}
