// Package conversationpb is the messages of conversations: state, events, commands, replies, live changes. Beside the
// generated code it holds the two pure rules that both sides of the log need: the public names of events, and who may
// touch a conversation.
package conversationpb

// Types of the public event log (document 2, section A, "Events").
const (
	TypeUserMessage     = "user.message"
	TypeAgentMessage    = "agent.message"
	TypeStatusRunning   = "session.status_running"
	TypeStatusIdle      = "session.status_idle"
	TypeRecovered       = "session.recovered"
	TypeCancelRequested = "session.cancel_requested"
	TypeUpdated         = "session.updated"
)

// PublicType is the type under which an event stands in the public log; "" means that it is not part of it.
func (x *Event) PublicType() string {
	switch x.GetBody().(type) {
	case *Event_UserMessage:
		return TypeUserMessage
	case *Event_TurnStarted:
		return TypeStatusRunning
	case *Event_AgentMessage:
		return TypeAgentMessage
	case *Event_TurnEnded:
		return TypeStatusIdle
	case *Event_TurnRecovered:
		return TypeRecovered
	case *Event_CancelRequested:
		return TypeCancelRequested
	case *Event_Updated:
		return TypeUpdated
	}
	return ""
}
