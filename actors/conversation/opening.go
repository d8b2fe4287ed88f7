package conversation

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// open decides what a command does before its body: it makes the conversation unless there is one, and adds files to it. The
// body is decided on the state after that, so everything that it checks holds for both. A repeat of a command that was carried
// out opens nothing.
func (r *request) open(opening *conversationpb.Opening) (events []proto.Message, f *machine.Failure) {
	if opening == nil || r.outcome() != nil {
		return nil, nil
	}
	switch r.command.GetBody().(type) {
	case *conversationpb.Command_Send, *conversationpb.Command_Edit, *conversationpb.Command_Hold:
	default:
		return nil, failure.New(failurepb.Code_VALIDATION, failure.OpeningNotAllowed)
	}
	if r.state == nil && opening.GetCreate() != nil {
		state, f := r.newConversation(opening.GetCreate())
		if f != nil {
			return nil, f
		}
		events = append(events, r.created(state))
		r.state = r.evolve(nil, events)
	}
	if len(opening.GetFiles()) == 0 {
		return events, nil
	}
	if f := r.access(); f != nil {
		return nil, f
	}
	for _, file := range opening.GetFiles() {
		if r.known(file.GetId()) != nil {
			continue
		}
		if _, f := r.attach(file, opening.GetAgent()); f != nil {
			return nil, f
		}
		added := r.events
		events, r.events = slices.Concat(events, added), nil
		r.state = r.evolve(r.state, added)
	}
	return events, nil
}

// created is the event of a new conversation.
func (r *request) created(state *conversationpb.State) *conversationpb.Event {
	return &conversationpb.Event{
		CreatedAt: r.now, Body: &conversationpb.Event_Created{Created: &conversationpb.Created{State: state}},
	}
}
