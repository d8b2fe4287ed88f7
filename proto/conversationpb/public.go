// Package conversationpb is the messages of conversations: state, events, commands, replies, live changes. Beside the
// generated code it holds the pure rules that both sides of the log need: the public names of events, which of them
// end the text of a run, and who may touch a conversation.
package conversationpb

// Types of the public event log (document 2, section A, "Events").
const (
	TypeUserMessage     = "user.message"
	TypeAgentMessage    = "agent.message"
	TypeStatusRunning   = "session.status_running"
	TypeStatusWaiting   = "session.status_waiting"
	TypeStatusIdle      = "session.status_idle"
	TypeRecovered       = "session.recovered"
	TypeCancelRequested = "session.cancel_requested"
	TypeUpdated         = "session.updated"
	TypeTruncated       = "session.truncated"
	TypeSessionUsage    = "session.usage"
	TypeBudgetReserved  = "budget.reserved"
	TypeBudgetReached   = "budget.reached"
	TypeToolUse         = "agent.tool_use"
	TypeToolResult      = "agent.tool_result"
	TypePartial         = "agent.partial"
	TypeActionRequested = "action.requested"
	TypeActionResolved  = "action.resolved"
	TypeActionExpired   = "action.expired"
	TypeActionCancelled = "action.cancelled"
	TypeFeedback        = "message.feedback"
	TypeFileAdded       = "file.added"
	TypeFileRemoved     = "file.removed"
	TypeToolRemembered  = "tool.remembered"
	TypeToolForgotten   = "tool.forgotten"
)

// PublicTypes lists them. New ones are added at the end.
func PublicTypes() [24]string {
	return [...]string{
		TypeUserMessage, TypeAgentMessage, TypeStatusRunning, TypeStatusWaiting, TypeStatusIdle, TypeRecovered,
		TypeCancelRequested, TypeUpdated, TypeTruncated, TypeSessionUsage, TypeBudgetReserved, TypeBudgetReached,
		TypeToolUse, TypeToolResult, TypePartial, TypeActionRequested, TypeActionResolved, TypeActionExpired,
		TypeActionCancelled, TypeFeedback, TypeFileAdded, TypeFileRemoved, TypeToolRemembered, TypeToolForgotten,
	}
}

// How an action is closed (ActionClosed.how, ClosedAction.how).
const (
	HowResolved  = "resolved"
	HowExpired   = "expired"
	HowCancelled = "cancelled"
)

// PublicType is the type under which an event stands in the public log; "" means that it is not part of it.
func (x *Event) PublicType() string {
	switch body := x.GetBody().(type) {
	case *Event_UserMessage:
		return TypeUserMessage
	case *Event_TurnStarted, *Event_TurnResumed:
		return TypeStatusRunning
	case *Event_AgentMessage:
		return TypeAgentMessage
	case *Event_TurnEnded:
		return TypeStatusIdle
	case *Event_TurnPaused:
		return TypeStatusWaiting
	case *Event_TurnRecovered:
		return TypeRecovered
	case *Event_CancelRequested:
		return TypeCancelRequested
	case *Event_Updated:
		return TypeUpdated
	case *Event_ActionClosed:
		return body.ActionClosed.publicType()
	case *Event_ToolRemembered:
		if body.ToolRemembered.GetForgotten() {
			return TypeToolForgotten
		}
		return TypeToolRemembered
	}
	return x.contentType()
}

// contentType is PublicType of the events that move no state.
func (x *Event) contentType() string {
	switch x.GetBody().(type) {
	case *Event_ToolUse:
		return TypeToolUse
	case *Event_ToolResults:
		return TypeToolResult
	case *Event_Partial:
		return TypePartial
	case *Event_Reserved:
		return TypeBudgetReserved
	case *Event_SessionUsage:
		return TypeSessionUsage
	case *Event_BudgetReached:
		return TypeBudgetReached
	case *Event_ActionRequested:
		return TypeActionRequested
	case *Event_Truncated:
		return TypeTruncated
	case *Event_MessageChanged:
		return TypeFeedback
	case *Event_FileAdded:
		return TypeFileAdded
	case *Event_FilesRemoved:
		return TypeFileRemoved
	}
	return ""
}

func (x *ActionClosed) publicType() string {
	switch x.GetHow() {
	case HowExpired:
		return TypeActionExpired
	case HowCancelled:
		return TypeActionCancelled
	default:
		return TypeActionResolved
	}
}

// EndsText says that no text of the run can follow this event until it is started again: the turn ended, or paused for
// a person.
func (x *Event) EndsText() bool { return x.GetTurnEnded() != nil || x.GetTurnPaused() != nil }
