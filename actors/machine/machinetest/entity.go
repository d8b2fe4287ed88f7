package machinetest

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"parley/actors/kit"
	"parley/actors/machine"
	"parley/proto/logpb"
)

// Entity is one entity under test: what it is, what happened to it, what is stored of it.
type Entity struct {
	Machine machine.Machine
	State   proto.Message   // nil = there is none
	Journal []proto.Message // all events since it was created or given
	Rows    *Rows

	minted map[string]int
}

// NewEntity returns an entity that does not exist yet.
func NewEntity(rules machine.Machine) *Entity {
	return &Entity{Machine: rules, Rows: NewRows(), minted: map[string]int{}}
}

// NewID mints kind_1, kind_2, ... and is meant for Env.
func (e *Entity) NewID(kind string) string {
	e.minted[kind]++
	return fmt.Sprintf("%s_%d", kind, e.minted[kind])
}

// Give sets the state to start from, with the places in lists that follow from it.
func (e *Entity) Give(state proto.Message) error {
	minted := e.minted
	*e = *NewEntity(e.Machine)
	e.minted = minted
	e.State = state
	change := &logpb.Append{}
	e.Machine.Project(nil, state, nil, change)
	return e.Rows.Apply(change)
}

// Do decides and applies a command. The error says which promise of the contract was broken.
func (e *Entity) Do(command proto.Message, env machine.Env) (machine.Decision, *machine.Failure, error) {
	before := clone(e.State)
	decision, failure := e.Machine.Decide(e.State, command, env)
	if !same(before, e.State) {
		return decision, failure, fmt.Errorf("decide changed the state it was given")
	}
	if failure != nil {
		if used(decision) {
			return decision, failure, fmt.Errorf("a refusal came with a decision")
		}
		return decision, failure, nil
	}
	if decision.Reply != nil && decision.Wait != "" {
		return decision, nil, fmt.Errorf("a decision both replies and waits")
	}
	if decision.IfUnwritten != nil && (len(decision.Events) == 0 || len(decision.Urgent) == 0) {
		return decision, nil, fmt.Errorf("an answer for the unwritten, but nothing to write or nothing done before")
	}
	if len(decision.Events) > 0 || decision.Delete {
		err := e.apply(decision, env)
		if err != nil {
			return decision, nil, err
		}
	}
	if table, is := e.Machine.(kit.Table); is {
		return decision, nil, table.CheckStep(before, command, e.State)
	}
	return decision, nil, nil
}

func used(d machine.Decision) bool {
	return len(d.Events)+len(d.Urgent)+len(d.Effects)+len(d.Settle) > 0 || d.Create || d.Delete || d.Reply != nil ||
		d.Wait != "" || d.IfUnwritten != nil
}

// apply does what the shell does between deciding and answering.
func (e *Entity) apply(decision machine.Decision, env machine.Env) error {
	if decision.Create != (e.State == nil) {
		return fmt.Errorf("create is %v and the entity exists: %v", decision.Create, e.State != nil)
	}
	before := clone(e.State)
	if err := e.checkSeqs(decision); err != nil {
		return err
	}
	after := e.State
	if len(decision.Events) > 0 {
		after = e.Machine.Evolve(e.State, decision.Events)
	}
	if !same(before, e.State) {
		return fmt.Errorf("evolve changed the state it was given")
	}
	if err := e.checkFold(after, decision.Events); err != nil {
		return err
	}
	if err := e.checkUnknown(after, decision.Events); err != nil {
		return err
	}
	change := &logpb.Append{Create: decision.Create, Epoch: env.Epoch, DeleteEntity: decision.Delete}
	if decision.Delete {
		after = nil
	}
	e.Machine.Project(e.State, after, decision.Events, change)
	if err := marshal(change, after, decision.Events); err != nil {
		return err
	}
	if !same(before, e.State) {
		return fmt.Errorf("project changed the state it was given")
	}
	if err := e.Rows.Apply(change); err != nil {
		return fmt.Errorf("apply rows: %w", err)
	}
	e.State = after
	e.Journal = append(e.Journal, decision.Events...)
	if decision.Delete {
		e.Journal = nil
	}
	return nil
}

// checkSeqs: events are numbered on from the state's seq; a new entity's first event has number 0.
func (e *Entity) checkSeqs(decision machine.Decision) error {
	next := uint64(0)
	if e.State != nil {
		next = e.Machine.Seq(e.State) + 1
	}
	for _, event := range decision.Events {
		if got := seqOf(event); got != next {
			return fmt.Errorf("event has seq %d where %d is next: %s", got, next, Text(event))
		}
		next++
	}
	if len(decision.Events) == 0 {
		return nil
	}
	if got := e.Machine.Seq(e.Machine.Evolve(e.State, decision.Events)); got != next-1 {
		return fmt.Errorf("state has seq %d after event %d", got, next-1)
	}
	return nil
}

// checkFold: folding one by one, from what was stored and read again, gives the same state.
func (e *Entity) checkFold(after proto.Message, events []proto.Message) error {
	folded := clone(e.State)
	for _, event := range events {
		folded = e.Machine.Evolve(folded, []proto.Message{clone(event)})
	}
	if !same(folded, after) {
		return fmt.Errorf("events fold to %s one by one, to %s together", Text(folded), Text(after))
	}
	return nil
}

func seqOf(event proto.Message) uint64 {
	reflected := event.ProtoReflect()
	field := reflected.Descriptor().Fields().ByName("seq")
	if field == nil {
		return 0
	}
	return reflected.Get(field).Uint()
}

func clone(message proto.Message) proto.Message {
	if message == nil {
		return nil
	}
	return proto.Clone(message)
}

func same(a, b proto.Message) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return proto.Equal(a, b)
}
