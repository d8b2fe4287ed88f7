package conversationpb

// Where a conversation comes from (State.source).
const (
	SourceConversation = "conversation" // the conversation server
	SourceSession      = "session"      // the Client API
	SourceTask         = "task"         // a background task runs in it; it is in no list, and no session
)

// Runtime statuses of a session (document 1, "States and transitions": runtime_status).
const (
	RuntimeIdle           = "idle"
	RuntimeRunning        = "running"
	RuntimeRequiresAction = "requires_action"
	RuntimeBudgetPaused   = "budget_paused"
)

// Kinds of pending actions (document 2, "A. Pending action"), and types of what resolves them.
const (
	KindApproval = "tool_approval"
	KindQuestion = "user_question"
	KindClient   = "client_tool"
)

// RuntimeStatus is the conversation's status as the Client API names it.
func (x *State) RuntimeStatus() string {
	switch {
	case x.GetLease() != nil:
		return RuntimeRunning
	case x.GetStatus() == Status_WAITING:
		return RuntimeRequiresAction
	case x.GetContinuable() && x.GetStopReason() == StopReason_BUDGET_REACHED && x.GetBudget().GetOnReach() == OnReachPause:
		return RuntimeBudgetPaused
	}
	return RuntimeIdle
}

// WireName is why the last turn stopped, as the Client API names it (document 1, "Session": stop_reason); "" before the
// first turn and while one runs.
func (r StopReason) WireName() string {
	switch r {
	case StopReason_END_TURN:
		return "end_turn"
	case StopReason_REQUIRES_ACTION:
		return "requires_action"
	case StopReason_CANCELLED:
		return "cancelled"
	case StopReason_MAX_TURNS, StopReason_LIMIT:
		return "limit"
	case StopReason_BUDGET_REACHED:
		return "budget_reached"
	case StopReason_ERROR:
		return "error"
	default:
		return ""
	}
}

// IsSession says that the conversation is a session to those who may see it. Those of tasks are not.
func (x *State) IsSession() bool { return x != nil && x.GetSource() != SourceTask }

// ListRow is what lists show of the session.
func (x *State) ListRow() *ListRow {
	return &ListRow{
		Id: x.GetId(), UserId: x.GetUserId(), AgentId: x.GetAgentId(), Title: x.GetTitle(), Status: x.RuntimeStatus(),
		StopReason: x.GetStopReason().WireName(), SpentNanoUsd: x.GetSpentNanoUsd(), SpentUnknown: x.GetSpentUnknown(),
		Waiting: uint32(len(x.GetPending())), CreatedAt: x.GetCreatedAt(), UpdatedAt: x.GetUpdatedAt(), LastSeq: x.GetLastSeq(),
	}
}
