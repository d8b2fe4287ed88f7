package body

import (
	"encoding/json"

	"parley/httpedge/eventlog"
)

// The structs of this file describe the wire records: the API document is generated from them, and a property test
// compares the output of the append functions with that of encoding/json. Answers are not rendered through them.

type (
	usd     int64 // nano-dollars, on the wire a number of dollars
	isoTime int64 // Unix milliseconds, on the wire ISO 8601 with milliseconds and Z
)

// Described implements openapi.Described.
func (usd) Described() (value any, nullable bool) { return float64(0), false }

type budgetSchema struct {
	MaxCostUSD usd    `json:"maxCostUsd"`
	OnReach    string `json:"onReach" enum:"pause,stop"`
}

type runtimeSchema struct {
	Status           string   `json:"status" enum:"idle,running,waiting"`
	StopReason       string   `json:"stopReason,omitempty" enum:"end_turn,requires_action,cancelled,max_turns,limit,budget_reached,error"`
	LastEventSeq     uint64   `json:"lastEventSeq"`
	PendingActionIDs []string `json:"pendingActionIds"`
}

type conversationEnvelopeSchema struct {
	Conversation conversationSchema `json:"conversation"`
}

type conversationListSchema struct {
	Conversations []conversationSchema `json:"conversations"`
	Total         int                  `json:"total"`
	Limit         int                  `json:"limit"`
	Offset        int                  `json:"offset"`
	HasMore       bool                 `json:"hasMore"`
}

type conversationReadSchema struct {
	Conversation   conversationSchema    `json:"conversation"`
	Messages       []messageSchema       `json:"messages"`
	MessagesPage   messagesPageSchema    `json:"messagesPage"`
	PendingActions []pendingActionSchema `json:"pendingActions,omitempty"`
}

type messagesPageSchema struct {
	Limit         int    `json:"limit"`
	Order         string `json:"order" enum:"asc,desc"`
	HasMoreBefore bool   `json:"hasMoreBefore"`
	HasMoreAfter  bool   `json:"hasMoreAfter"`
}

type pendingActionSchema struct {
	ID             string            `json:"id"`
	Kind           string            `json:"kind" enum:"tool_approval,user_question,client_tool"`
	Status         string            `json:"status" enum:"pending"`
	RunID          string            `json:"runId,omitempty"`
	ToolName       string            `json:"toolName,omitempty"`
	ToolCallID     string            `json:"toolCallId,omitempty"`
	Args           json.RawMessage   `json:"args"`
	Questions      []json.RawMessage `json:"questions,omitempty" doc:"Of a user_question"`
	Details        json.RawMessage   `json:"details" doc:"What the tool wants the person to know"`
	UnknownOutcome bool              `json:"unknownOutcome,omitempty" doc:"The tool may have run already: allow runs it again"`
	RequestedAt    isoTime           `json:"requestedAt" format:"date-time"`
	CreatedAt      isoTime           `json:"createdAt" format:"date-time"`
	ExpiresAt      isoTime           `json:"expiresAt" format:"date-time"`
}

type messageSchema struct {
	ID             string           `json:"id"`
	ConversationID string           `json:"conversationId"`
	Role           string           `json:"role" enum:"user,assistant"`
	Content        string           `json:"content"`
	Status         string           `json:"status,omitempty" enum:"completed,cancelled,incomplete,requires_action,running" doc:"Assistants; running: of a turn that goes on, not stored"`
	Name           string           `json:"name,omitempty"`
	ToolCalls      []toolCallSchema `json:"toolCalls,omitempty"`
	Files          []fileRefSchema  `json:"files,omitempty"`
	Metadata       messageMetadata  `json:"metadata" doc:"The client's object with the server's keys in it"`
	CreatedAt      isoTime          `json:"createdAt" format:"date-time"`
	UpdatedAt      isoTime          `json:"updatedAt" format:"date-time"`
}

// messageMetadata is an object with the server's keys of messageMetadataSchema and keys of the client.
type messageMetadata json.RawMessage

// MarshalJSON implements json.Marshaler.
func (m messageMetadata) MarshalJSON() ([]byte, error) { return json.RawMessage(m).MarshalJSON() }

// Described implements openapi.Described.
func (m messageMetadata) Described() (value any, nullable bool) {
	return messageMetadataSchema{}, false
}

type messageMetadataSchema struct {
	Status          string                 `json:"status,omitempty" doc:"Assistants, as the message's own"`
	StopReason      string                 `json:"stopReason,omitempty" enum:"end_turn,requires_action,cancelled,max_turns,limit,budget_reached,error"`
	PreviousContent []string               `json:"previousContent,omitempty" doc:"Newest last, at most 5"`
	RegeneratedFrom string                 `json:"regeneratedFrom,omitempty" doc:"Id of the answer that this one replaced"`
	PendingActions  []pendingActionSchema  `json:"pendingActions,omitempty" doc:"While the turn waits"`
	Feedback        *feedbackSchema        `json:"feedback,omitempty"`
	Edited          bool                   `json:"edited,omitempty"`
	EditedFrom      string                 `json:"editedFrom,omitempty" doc:"Id of the message that this one replaced"`
	ToolCallDetails []toolCallDetailSchema `json:"toolCallDetails,omitempty"`
	ToolCallSeconds float64                `json:"toolCallDurationSeconds,omitempty" doc:"How long the tools of the answer ran, added up"`
}

type toolCallDetailSchema struct {
	ID     string          `json:"id"`
	Name   string          `json:"name"`
	Args   json.RawMessage `json:"args"`
	Result json.RawMessage `json:"result,omitempty" any:"true" doc:"Text, an object or a list; {error} of a call that failed"`
}

type feedbackSchema struct {
	Rating    *string  `json:"rating" enum:"up,down"`
	Reasons   []string `json:"reasons"`
	Comment   string   `json:"comment,omitempty"`
	UserID    string   `json:"userId,omitempty"`
	CreatedAt isoTime  `json:"createdAt" format:"date-time"`
	UpdatedAt isoTime  `json:"updatedAt" format:"date-time"`
}

type feedbackResultSchema struct {
	Feedback  feedbackSchema `json:"feedback"`
	MessageID string         `json:"messageId"`
}

type fileRefSchema struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	MimeType string `json:"mimeType"`
	Size     int64  `json:"size"`
}

type toolCallSchema struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments" doc:"JSON text"`
	Result    string `json:"result,omitempty"`
	Error     string `json:"error,omitempty"`
}

type messageListSchema struct {
	Messages []messageSchema `json:"messages"`
	Total    int             `json:"total"`
	Limit    int             `json:"limit"`
	Offset   int             `json:"offset"`
	HasMore  bool            `json:"hasMore"`
}

type usageSchema struct {
	InputTokens       int64 `json:"inputTokens"`
	OutputTokens      int64 `json:"outputTokens"`
	TotalTokens       int64 `json:"totalTokens"`
	CachedInputTokens int64 `json:"cachedInputTokens,omitempty"`
	CostUSD           *usd  `json:"costUsd,omitempty" doc:"Only when the model has a price"`
}

type turnResultSchema struct {
	Message           messageSchema         `json:"message" doc:"The stored user message"`
	Response          messageSchema         `json:"response" doc:"Empty, and not stored, when the turn left no answer"`
	Usage             *usageSchema          `json:"usage,omitempty"`
	StopReason        string                `json:"stopReason" enum:"end_turn,requires_action,cancelled,max_turns,limit,budget_reached,error"`
	RunID             string                `json:"runId"`
	Status            string                `json:"status,omitempty" enum:"requires_action,cancelled,incomplete" doc:"Only when the turn did not simply complete"`
	PendingActions    []pendingActionSchema `json:"pendingActions,omitempty"`
	Budget            *budgetSchema         `json:"budget,omitempty"`
	SpentUSD          *usd                  `json:"spentUsd,omitempty"`
	ConversationTitle string                `json:"conversationTitle,omitempty"`
	Error             *turnErrorSchema      `json:"error,omitempty" doc:"Why the model could not answer (stopReason error)"`
}

// QueuedMessage is the answer to a message that waits for its turn.
type QueuedMessage struct {
	RunID     string `json:"runId" doc:"Of the turn to come"`
	MessageID string `json:"messageId"`
	Status    string `json:"status" enum:"queued"`
	Position  int64  `json:"position" doc:"In the queue, from 1"`
}

// resumedTurnSchema also describes the answer when the turn outlasts the wait: an empty response, runId and status only.
type resumedTurnSchema struct {
	Response          messageSchema         `json:"response" doc:"Empty, and not stored, when the turn left no answer"`
	Usage             *usageSchema          `json:"usage,omitempty"`
	StopReason        string                `json:"stopReason,omitempty" enum:"end_turn,requires_action,cancelled,max_turns,limit,budget_reached,error"`
	RunID             string                `json:"runId"`
	Status            string                `json:"status,omitempty" enum:"requires_action,cancelled,incomplete,running" doc:"Only when the turn did not simply complete"`
	PendingActions    []pendingActionSchema `json:"pendingActions,omitempty"`
	Budget            *budgetSchema         `json:"budget,omitempty"`
	SpentUSD          *usd                  `json:"spentUsd,omitempty"`
	ConversationTitle string                `json:"conversationTitle,omitempty"`
	Error             *turnErrorSchema      `json:"error,omitempty" doc:"Why the model could not answer (stopReason error)"`
}

type turnErrorSchema struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

type cancelSchema struct {
	Cancelled          bool          `json:"cancelled"`
	RunID              string        `json:"runId,omitempty"`
	Settled            bool          `json:"settled" doc:"Nothing of the run can appear any more"`
	CancelledActionIDs *[]string     `json:"cancelledActionIds,omitempty"`
	StopReason         string        `json:"stopReason,omitempty" enum:"cancelled"`
	Runtime            runtimeSchema `json:"runtime"`
}

type eventPageSchema struct {
	Events  []eventSchema `json:"events"`
	HasMore bool          `json:"hasMore"`
	LastSeq uint64        `json:"lastSeq" doc:"Newest seq of the whole log"`
}

// eventSchema is an event of any type.
type eventSchema struct{}

// Union implements openapi.Union.
func (eventSchema) Union() (property string, variants map[string]any) {
	return "type", eventlog.Variants(eventlog.Conversation)
}
