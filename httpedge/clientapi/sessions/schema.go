package sessions

import (
	"encoding/json"
	"reflect"

	"parley/httpedge/clientapi/render"
	"parley/httpedge/eventlog"
)

type sessionListSchema struct {
	Object     string       `json:"object" enum:"list"`
	Data       []sessionRow `json:"data"`
	HasMore    bool         `json:"has_more"`
	NextCursor *string      `json:"next_cursor"`
}

type sessionRow struct{}

// Described implements openapi.Described.
func (sessionRow) Described() (value any, nullable bool) {
	return reflect.Zero(rows().Type()).Interface(), false
}

type deletedSession struct {
	ID      string `json:"id"`
	Object  string `json:"object" enum:"agent.session"`
	Deleted bool   `json:"deleted"`
}

type sessionEventsSchema struct {
	Object  string        `json:"object" enum:"list"`
	Data    []eventSchema `json:"data"`
	HasMore bool          `json:"has_more"`
	LastSeq uint64        `json:"last_seq" doc:"Newest seq of the whole log"`
}

// eventSchema is an event of any type.
type eventSchema struct{}

// Union implements openapi.Union.
func (eventSchema) Union() (property string, variants map[string]any) {
	return "type", eventlog.Variants(eventlog.Client)
}

type cancelledSessionSchema struct {
	Cancelled          bool          `json:"cancelled"`
	Settled            bool          `json:"settled" doc:"Nothing of the turn can appear any more"`
	TurnID             string        `json:"turn_id,omitempty"`
	RunID              string        `json:"run_id,omitempty" doc:"Background run that was cancelled with it"`
	CancelledActionIDs []string      `json:"cancelled_action_ids"`
	Session            sessionRecord `json:"session"`
}

// resumedSchema is a turn that goes on.
type resumedSchema struct {
	ID        string `json:"id"`
	Object    string `json:"object" enum:"response,agent.run"`
	Status    string `json:"status" doc:"in_progress; of a run, its own"`
	SessionID string `json:"session_id"`
	TurnID    string `json:"turn_id,omitempty"`
}

type sessionMessagesSchema struct {
	Object        string                 `json:"object" enum:"list"`
	Data          []sessionMessageSchema `json:"data"`
	HasMoreBefore bool                   `json:"has_more_before" doc:"Older messages exist"`
	HasMoreAfter  bool                   `json:"has_more_after" doc:"Newer messages exist"`
}

type sessionMessageSchema struct {
	ID             string                      `json:"id"`
	Object         string                      `json:"object" enum:"agent.session.message"`
	SessionID      string                      `json:"session_id"`
	Role           string                      `json:"role" enum:"user,assistant"`
	Content        string                      `json:"content"`
	Status         string                      `json:"status,omitempty" doc:"Assistants: completed, cancelled, incomplete, requires_action"`
	StopReason     string                      `json:"stop_reason,omitempty" doc:"Assistants"`
	InReplyTo      string                      `json:"in_reply_to,omitempty" doc:"Assistants: id of the user message"`
	ToolCalls      []messageCallSchema         `json:"tool_calls,omitempty"`
	Usage          *render.ResponseUsageSchema `json:"usage,omitempty"`
	PendingActions []render.ActionSchema       `json:"pending_actions,omitempty"`
	Files          []fileRefSchema             `json:"files,omitempty"`
	Metadata       json.RawMessage             `json:"metadata"`
	CreatedAt      *render.ISOTime             `json:"created_at" format:"date-time"`
	UpdatedAt      *render.ISOTime             `json:"updated_at" format:"date-time"`
}

type messageCallSchema struct {
	ID     string          `json:"id"`
	Name   string          `json:"name"`
	Args   json.RawMessage `json:"args"`
	Result json.RawMessage `json:"result,omitempty" any:"true" doc:"Text, an object or a list; {error} of a call that failed"`
}

type fileRefSchema struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	MimeType string `json:"mime_type"`
	Size     int64  `json:"size"`
}

type sessionFilesSchema struct {
	Object string       `json:"object" enum:"list"`
	Data   []fileRecord `json:"data"`
}

type deletedFile struct {
	ID      string `json:"id"`
	Object  string `json:"object" enum:"agent.session.file"`
	Deleted bool   `json:"deleted"`
}
