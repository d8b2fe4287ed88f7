package conversation

import (
	"parley/proto/conversationpb"
	"parley/proto/deliverypb"
)

// StartTurn starts the turn runner, detached from every connection. The messages it points to are shared with the
// state: read only.
type StartTurn struct {
	ConversationID, RunID, AgentID string
	TenantID, ProjectID, UserID    string
	// AgentVersion is the version of the agent that runs, see Lease.
	AgentVersion int64
	// ByUser and ByToken are who asked for the turn, and with which API token: whom its cost is put down to.
	ByUser, ByToken string
	// Epoch and Attempt tell this start from an earlier one of the same run; Epoch goes into Finish.
	Epoch   uint64
	Attempt uint32
	Mode    conversationpb.Mode
	// UserMessage is the message to answer. What was said before it are the messages numbered below HistoryBefore.
	UserMessage   *conversationpb.Message
	HistoryBefore uint64
	Budget        *conversationpb.Budget // nil = none
	SpentNanoUSD  int64
	// RuntimeContext is the conversation's, TurnContext, merged over it, the turn's own. Sealed by the edge; nil = none.
	RuntimeContext, TurnContext []byte
	// Steps are journalled already; those above ResumedAt since the turn was last resumed after a pause.
	Steps, ResumedAt uint32
	// Calls are those of the newest tool use, as the rules see them: the ones with need RUN that are not done are to be
	// run, with Args in the place of the model's when a person changed them.
	Calls []*conversationpb.OpenCall
	// Usage is of the model calls that are journalled, nil = none.
	Usage *conversationpb.Usage
	// Answer is the message that the turn stored when it paused, nil = none.
	Answer *conversationpb.Message
	// Untitled says that this is the first message of a conversation that has no title but that of its first message.
	Untitled bool
}

// ResumeTurn follows a reload of the activation in the epoch that started the turn: the runner may still be at it.
// Start it as StartTurn would unless a runner of this process has RunID at this Epoch.
type ResumeTurn struct {
	StartTurn
}

// MeterTurn tells the runner of a run that its conversation has another budget now, or none any more.
type MeterTurn struct {
	RunID string
}

// TellFeedback tells the agent's side that an answer was rated, or its rating taken back.
type TellFeedback struct {
	ConversationID, ProjectID, AgentID string
	Message                            *conversationpb.Message
	Feedback                           *conversationpb.Feedback
}

// TellPush makes an attempt to tell an address that a turn has ended or paused.
type TellPush struct {
	ConversationID, TenantID string

	Push    *conversationpb.Push
	Attempt *deliverypb.Delivery
}

// StopTurn makes the runner of a run stop at once and report. Stopping a run that does not run here does nothing.
type StopTurn struct {
	RunID  string
	Reason StopCause
}

// StopCause says why a turn is stopped.
type StopCause string

// The reasons to stop a turn.
const (
	CauseCancelled StopCause = "cancelled"
	CauseDeleted   StopCause = "deleted" // nobody takes its report any more
	CauseFenced    StopCause = "fenced"  // its turn was ended without it: its report will be refused
)
