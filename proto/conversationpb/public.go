// Package conversationpb is the messages of conversations: state, events, commands, replies, live changes. Beside the
// generated code it holds the pure rules that both sides of the log need: the public types of events, which of them
// end the text of a run, and who may touch a conversation.
package conversationpb

import (
	"reflect"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"
)

// How an action is closed (ActionClosed.how, ClosedAction.how).
const (
	HowResolved  = "resolved"
	HowExpired   = "expired"
	HowCancelled = "cancelled"
)

// publicTypes are the public types of each member of Event.body, as the option public_type in conversation.proto gives them.
var publicTypes = sync.OnceValue(func() map[reflect.Type][]string { //nolint:gochecknoglobals // computed once, never changed
	types := map[reflect.Type][]string{}
	event := new(Event)
	bodies := event.ProtoReflect().Descriptor().Oneofs().ByName("body").Fields()
	for i := range bodies.Len() {
		names, _ := proto.GetExtension(bodies.Get(i).Options(), E_PublicType).([]string)
		event.ProtoReflect().Mutable(bodies.Get(i)) // makes it the member that is set
		types[reflect.TypeOf(event.GetBody())] = names
	}
	return types
})

// PublicTypes lists the types of the public event log (document 2, section A, "Events"), sorted, each once.
func PublicTypes() []string {
	var all []string
	for _, names := range publicTypes() {
		all = append(all, names...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// PublicType is the type under which an event stands in the public log; "" means that it is not part of it.
func (x *Event) PublicType() string {
	names := publicTypes()[reflect.TypeOf(x.GetBody())]
	if len(names) == 0 {
		return ""
	}
	switch body := x.GetBody().(type) {
	case *Event_ActionClosed: // action.resolved, action.expired, action.cancelled
		return names[max(0, slices.Index([]string{HowResolved, HowExpired, HowCancelled}, body.ActionClosed.GetHow()))]
	case *Event_ToolRemembered:
		if body.ToolRemembered.GetForgotten() {
			return names[1]
		}
	}
	return names[0]
}

// EndsText says that no text of the run can follow this event until it is started again: the turn ended, or paused for
// a person.
func (x *Event) EndsText() bool { return x.GetTurnEnded() != nil || x.GetTurnPaused() != nil }
