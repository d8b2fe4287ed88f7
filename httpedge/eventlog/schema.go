package eventlog

import "encoding/json"

// The structs of this file describe events in the OpenAPI documents: events are written without them, and tests hold what is written
// against them.

// Variants is an event of each public type, with its data, as a surface shows it.
func Variants(dialect Dialect) map[string]any {
	variants := map[string]any{
		"action.cancelled":         eventOf[actionClosedData]{},
		"action.expired":           eventOf[actionClosedData]{},
		"action.requested":         eventOf[actionRequestedData]{},
		"action.resolved":          eventOf[actionResolvedData[resolutionData]]{},
		"agent.message":            eventOf[agentMessageData]{},
		"agent.partial":            eventOf[agentPartialData]{},
		"agent.tool_result":        eventOf[toolResultsData]{},
		"agent.tool_use":           eventOf[toolUseData]{},
		"budget.reached":           eventOf[budgetReachedData]{},
		"budget.reserved":          eventOf[budgetReservedData]{},
		"file.added":               eventOf[fileAddedData]{},
		"file.removed":             eventOf[filesRemovedData]{},
		"message.feedback":         eventOf[feedbackData]{},
		"message.queued":           eventOf[messageQueuedData]{},
		"message.unqueued":         eventOf[messageUnqueuedData]{},
		"session.cancel_requested": eventOf[cancelRequestedData]{},
		"session.recovered":        eventOf[recoveredData]{},
		"session.status_idle":      eventOf[turnEndedData]{},
		"session.status_running":   eventOf[turnStartedData]{},
		"session.status_waiting":   eventOf[turnPausedData]{},
		"session.truncated":        eventOf[truncatedData]{},
		"session.updated":          eventOf[updatedData[budgetData]]{},
		"session.usage":            eventOf[usageSettledData]{},
		"tool.forgotten":           eventOf[toolData]{},
		"tool.remembered":          eventOf[toolData]{},
		"user.message":             eventOf[userMessageData]{},
	}
	if dialect == Client {
		variants["action.resolved"] = eventOf[actionResolvedData[clientResolutionData]]{}
		variants["session.updated"] = eventOf[updatedData[clientBudgetData]]{}
		variants["session.usage"] = eventOf[turnUsageData]{}
	}
	return variants
}

// eventOf is an event whose data is of one type.
type eventOf[Data any] struct {
	Seq       uint64 `json:"seq" doc:"Place in the log, from 1 without a gap"`
	Type      string `json:"type"`
	Data      Data   `json:"data"`
	RunID     string `json:"run_id,omitempty" doc:"Of the turn"`
	CreatedAt string `json:"created_at" format:"date-time"`
}

type userMessageData struct {
	Content    string          `json:"content"`
	MessageID  string          `json:"message_id"`
	Metadata   json.RawMessage `json:"metadata,omitempty" doc:"The client's object"`
	Edited     bool            `json:"edited,omitempty"`
	EditedFrom string          `json:"edited_from,omitempty" doc:"Id of the message that this one replaced"`
	Title      string          `json:"title,omitempty" doc:"That the message gives its conversation"`
	Files      []fileData      `json:"files,omitempty"`
}

type messageQueuedData struct {
	userMessageData

	Interrupts bool `json:"interrupts,omitempty" doc:"It comes before the messages that wait already, and the turn under way is cancelled"`
}

type messageUnqueuedData struct {
	MessageID string `json:"message_id"`
}

type agentMessageData struct {
	Content         string     `json:"content"`
	MessageID       string     `json:"message_id"`
	StopReason      string     `json:"stop_reason" enum:"end_turn,requires_action,cancelled,max_turns,limit,budget_reached,error" doc:"The Client API says limit for max_turns"`
	Status          string     `json:"status,omitempty" enum:"completed,cancelled,incomplete,requires_action"`
	InReplyTo       string     `json:"in_reply_to,omitempty" doc:"Id of the user's message"`
	RegeneratedFrom string     `json:"regenerated_from,omitempty" doc:"Id of the answer that this one replaced"`
	Usage           *usageData `json:"usage,omitempty"`
}

type agentPartialData struct {
	Text  string     `json:"text" doc:"Of a model call that the budget cut"`
	Usage *usageData `json:"usage,omitempty"`
}

type usageData struct {
	InputTokens       int64    `json:"input_tokens"`
	OutputTokens      int64    `json:"output_tokens"`
	TotalTokens       int64    `json:"total_tokens"`
	CachedInputTokens int64    `json:"cached_input_tokens,omitempty"`
	CostUSD           *float64 `json:"cost_usd,omitempty" doc:"Only when the model has a price"`
}

type toolUseData struct {
	Text      string         `json:"text" doc:"What the model said beside"`
	ToolCalls []toolCallData `json:"tool_calls"`
	Usage     *usageData     `json:"usage,omitempty"`
}

type toolCallData struct {
	ToolCallID string          `json:"tool_call_id"`
	ToolName   string          `json:"tool_name"`
	Args       json.RawMessage `json:"args"`
}

type toolResultsData struct {
	Results []toolResultData `json:"results"`
}

type toolResultData struct {
	ToolCallID string          `json:"tool_call_id"`
	ToolName   string          `json:"tool_name"`
	Result     json.RawMessage `json:"result" any:"true" doc:"Text, an object or a list; {error} of a call that failed"`
}

type turnStartedData struct {
	Mode    string `json:"mode,omitempty" enum:"regenerate,edit,continue,resolve" doc:"None of the answer to a new message"`
	Attempt uint32 `json:"attempt,omitempty" doc:"1, and one more for each recovery"`
}

type turnPausedData struct {
	StopReason       string   `json:"stop_reason" enum:"requires_action"`
	MessageID        string   `json:"message_id" doc:"What the turn has said so far, as a message"`
	Content          string   `json:"content"`
	PendingActionIDs []string `json:"pending_action_ids"`
}

type turnEndedData struct {
	StopReason  string         `json:"stop_reason" enum:"end_turn,requires_action,cancelled,max_turns,limit,budget_reached,error" doc:"The Client API says limit for max_turns"`
	Usage       *usageData     `json:"usage,omitempty"`
	Error       *turnErrorData `json:"error,omitempty"`
	Continuable bool           `json:"continuable,omitempty"`
}

type turnErrorData struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

type recoveredData struct {
	Attempt uint32 `json:"attempt"`
	Node    string `json:"node,omitempty" doc:"That goes on with the turn"`
}

type cancelRequestedData struct{}

// updatedData holds what was changed. The budget has the names of its surface; null when it was removed.
type updatedData[Budget any] struct {
	Title          *string           `json:"title,omitempty"`
	TitleGenerated bool              `json:"title_generated,omitempty" doc:"The title is the server's"`
	Pinned         *bool             `json:"pinned,omitempty"`
	Metadata       json.RawMessage   `json:"metadata,omitempty"`
	Budget         *nullable[Budget] `json:"budget,omitempty"`
}

type budgetData struct {
	MaxCostUSD float64 `json:"maxCostUsd"`
	OnReach    string  `json:"onReach" enum:"pause,stop"`
}

type clientBudgetData struct {
	MaxCostUSD float64 `json:"max_cost_usd"`
	OnReach    string  `json:"on_reach" enum:"pause,stop"`
}

type budgetReservedData struct {
	ReservedUSD float64 `json:"reserved_usd" doc:"What the model call under way may cost"`
	SpentUSD    float64 `json:"spent_usd" doc:"Without it"`
}

type budgetReachedData struct {
	MaxCostUSD float64 `json:"max_cost_usd"`
	OnReach    string  `json:"on_reach" enum:"pause,stop"`
	SpentUSD   float64 `json:"spent_usd"`
}

type usageSettledData struct {
	Usage    *usageData `json:"usage,omitempty" doc:"Since the last such event of the turn"`
	SpentUSD float64    `json:"spent_usd" doc:"Of the conversation"`
}

type turnUsageData struct {
	usageSettledData

	TurnCostUSD float64 `json:"turn_cost_usd"`
}

type actionRequestedData struct {
	ActionID       string            `json:"action_id"`
	Kind           string            `json:"kind" enum:"tool_approval,user_question,client_tool"`
	ToolName       string            `json:"tool_name,omitempty"`
	ToolCallID     string            `json:"tool_call_id,omitempty"`
	Args           json.RawMessage   `json:"args"`
	Questions      []json.RawMessage `json:"questions,omitempty" doc:"Of a user_question"`
	Details        json.RawMessage   `json:"details" doc:"What the tool wants the person to know"`
	UnknownOutcome bool              `json:"unknown_outcome,omitempty" doc:"The tool may have run already: allow runs it again"`
	ExpiresAt      string            `json:"expires_at" format:"date-time"`
}

// actionClosedData is an action that waits no more.
type actionClosedData struct {
	ActionID   string `json:"action_id"`
	ToolCallID string `json:"tool_call_id,omitempty"`
	By         string `json:"by,omitempty" doc:"User who decided"`
}

// actionResolvedData holds a decision with the names of its surface.
type actionResolvedData[Resolution any] struct {
	actionClosedData

	Resolution *Resolution `json:"resolution,omitempty"`
}

// decisionData is what resolutions of both surfaces hold.
type decisionData struct {
	Type      string          `json:"type" enum:"tool_approval,user_question,client_tool"`
	Decision  string          `json:"decision,omitempty" enum:"allow,deny" doc:"tool_approval"`
	Comment   string          `json:"comment,omitempty" doc:"tool_approval"`
	Answers   json.RawMessage `json:"answers,omitempty" doc:"user_question: question to answer"`
	Cancelled bool            `json:"cancelled,omitempty" doc:"user_question: the person did not answer"`
	Output    json.RawMessage `json:"output,omitempty" any:"true" doc:"client_tool: any JSON value"`
	Error     string          `json:"error,omitempty" doc:"client_tool: why the tool failed"`
}

type resolutionData struct {
	decisionData

	ApprovedArgs       json.RawMessage `json:"approvedArgs,omitempty" doc:"tool_approval: the tool ran with these arguments instead"`
	RememberForSession bool            `json:"rememberForSession,omitempty" doc:"tool_approval: the tool needs no approval any more"`
}

type clientResolutionData struct {
	decisionData

	ApprovedArgs       json.RawMessage `json:"approved_args,omitempty" doc:"tool_approval: the tool ran with these arguments instead"`
	RememberForSession bool            `json:"remember_for_session,omitempty" doc:"tool_approval: the tool needs no approval any more"`
}

type truncatedData struct {
	MessageID string `json:"message_id" doc:"It and all after it are removed"`
	Removed   uint64 `json:"removed" doc:"How many messages"`
}

type feedbackData struct {
	MessageID string   `json:"message_id"`
	Rating    *string  `json:"rating" enum:"up,down" doc:"null: taken back"`
	Reasons   []string `json:"reasons,omitempty"`
	Comment   string   `json:"comment,omitempty"`
	UserID    string   `json:"user_id,omitempty"`
}

type fileData struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	MimeType string `json:"mime_type"`
	Size     int64  `json:"size" doc:"Bytes"`
}

type fileAddedData struct {
	File fileData `json:"file"`
}

type filesRemovedData struct {
	FileIDs []string `json:"file_ids"`
	Reason  string   `json:"reason,omitempty" enum:"deleted,expired"`
}

type toolData struct {
	ToolName string `json:"tool_name"`
}

// nullable is a value that may be null.
type nullable[Value any] struct{ value Value }

// Described implements openapi.Described.
func (n nullable[Value]) Described() (value any, nullable bool) { return n.value, true }
