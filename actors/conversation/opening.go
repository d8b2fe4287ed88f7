package conversation

import (
	"parley/actors/machine"
	"parley/proto/conversationpb"
)

// open does what comes before a command's body: it makes the conversation unless there is one, and adds files to it. The
// body is decided on the state after that, so everything that it checks holds for both. A repeat of a command that was carried
// out opens nothing.
func (r *request) open(opening *conversationpb.Opening) *machine.Failure {
	if opening == nil || r.outcome() != nil {
		return nil
	}
	if r.state == nil && opening.GetCreate() != nil {
		state, f := r.newConversation(opening.GetCreate())
		if f != nil {
			return f
		}
		r.created(state)
	}
	if len(opening.GetFiles()) == 0 {
		return nil
	}
	if f := r.access(); f != nil {
		return f
	}
	for _, file := range opening.GetFiles() {
		if r.known(file.GetId()) != nil {
			continue
		}
		if _, f := r.attach(file, opening.GetAgent()); f != nil {
			return f
		}
		r.state = r.State()
	}
	return nil
}

// created makes the conversation.
func (r *request) created(state *conversationpb.State) {
	r.emit("", &conversationpb.Event{Body: &conversationpb.Event_Created{Created: &conversationpb.Created{State: state}}})
	r.state = r.State()
}
