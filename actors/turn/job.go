package turn

import (
	"context"
	"errors"

	"parley/proto/conversationpb"
)

// Place is where a run belongs, and the epoch under which it was started.
type Place struct {
	Shard          uint32
	Epoch          uint64
	ConversationID string
}

// Job is one turn to run. What it points to is only read.
type Job struct {
	Place
	RunID, AgentID string
	// AgentVersion is the version of the agent that runs, see Agents.
	AgentVersion int64
	UserMessage  *conversationpb.Message
	// TenantID, ProjectID and UserID are whose conversation it is.
	TenantID, ProjectID, UserID string
	// ByUser and ByToken are who asked for the turn, and with which API token.
	ByUser, ByToken string
	Mode            conversationpb.Mode
	// HistoryBefore is the number below which the messages before UserMessage are.
	HistoryBefore uint64
	// Attempt is above 1 when an earlier runner of the turn was lost since it was last started or resumed.
	Attempt uint32
	// Steps are journalled already; those above ResumedAt since the turn was last resumed after a pause.
	Steps, ResumedAt uint32
	// Calls are those of the newest step that asked for tools, as the conversation sees them.
	Calls []*conversationpb.OpenCall
	// Usage is of the model calls that are journalled, nil = none.
	Usage *conversationpb.Usage
	// Answer is the message that the turn stored when it paused, nil = none.
	Answer *conversationpb.Message
	// Budget says that the conversation has one: money is asked for before it is spent.
	Budget bool
	// Untitled says that this is the first message of a conversation without a title.
	Untitled bool
	// RuntimeContext is the conversation's, TurnContext, merged over it, the turn's own. Sealed by the edge; nil = none.
	RuntimeContext, TurnContext []byte
	// Progress journals a step, or asks for money, and returns what the rules say. ErrFenced and ErrRefused are final,
	// other errors may be tried again.
	Progress func(ctx context.Context, progress *conversationpb.Progress) (*conversationpb.Progressed, error)
	// SetTitle stores a title that came after the turn's report; errors as those of Progress.
	SetTitle func(ctx context.Context, title *conversationpb.SetTitle) error
	// Report tells the conversation how the turn ended. ErrFenced and ErrRefused are final, other errors are tried
	// again.
	Report func(ctx context.Context, finish *conversationpb.Finish) error
}

// What Start and Job.Report return.
var (
	// ErrOverloaded: the node runs as many turns as it may.
	ErrOverloaded = errors.New("too many turns are running")
	// ErrStopping: the runner is draining.
	ErrStopping = errors.New("the runner is stopping")
	// ErrFenced: the run is not the conversation's any more. Nobody wants its report.
	ErrFenced = errors.New("the run was fenced")
	// ErrRefused: the conversation will never take this report.
	ErrRefused = errors.New("the report was refused")
)
