package convapi

import (
	"encoding/json"
	"strings"

	"parley/httpedge/endpoint/wire"
	"parley/proto/conversationpb"
	"parley/proto/taskpb"
)

// Tasks are few and small, so they are plain structs. Unset optional fields are left out.

type taskRecord struct {
	ID             string              `json:"id"`
	AgentID        string              `json:"agentId"`
	UserID         string              `json:"userId,omitempty" doc:"Owner"`
	Status         string              `json:"status" enum:"pending,running,waiting_for_input,completed,failed,canceled"`
	CallbackURL    string              `json:"callbackUrl,omitempty"`
	Input          string              `json:"input"`
	Files          []fileRefSchema     `json:"files,omitempty"`
	Comments       []taskCommentRecord `json:"comments,omitempty" doc:"Only when one task is read"`
	Metadata       json.RawMessage     `json:"metadata"`
	ConversationID string              `json:"conversationId" doc:"In which it runs: pending actions are resolved there"`
	CreatedAt      taskTime            `json:"createdAt" format:"date-time"`
	UpdatedAt      taskTime            `json:"updatedAt" format:"date-time"`
	StartedAt      *taskTime           `json:"startedAt,omitempty" format:"date-time" doc:"Of the newest run"`
	CompletedAt    *taskTime           `json:"completedAt,omitempty" format:"date-time"`
	Error          string              `json:"error,omitempty"`
}

type taskCommentRecord struct {
	ID        string          `json:"id"`
	TaskID    string          `json:"taskId"`
	Role      string          `json:"role" enum:"agent,user"`
	Content   string          `json:"content"`
	Metadata  json.RawMessage `json:"metadata,omitempty"`
	CreatedAt taskTime        `json:"createdAt" format:"date-time"`
}

type taskResultRecord struct {
	ID        string          `json:"id"`
	TaskID    string          `json:"taskId"`
	Content   string          `json:"content"`
	Metadata  json.RawMessage `json:"metadata"`
	Usage     *taskUsage      `json:"usage,omitempty"`
	CreatedAt taskTime        `json:"createdAt" format:"date-time"`
}

type taskEnvelopeOut struct {
	Task taskRecord `json:"task"`
}

type taskReadOut struct {
	Task   taskRecord        `json:"task"`
	Result *taskResultRecord `json:"result,omitempty"`
}

type taskListOut struct {
	Tasks   []taskRecord `json:"tasks"`
	Total   int          `json:"total"`
	Limit   int          `json:"limit"`
	Offset  int          `json:"offset"`
	HasMore bool         `json:"hasMore"`
}

type taskStatusOut struct {
	TaskID      string    `json:"taskId"`
	Status      string    `json:"status" enum:"pending,running,waiting_for_input,completed,failed,canceled"`
	CreatedAt   taskTime  `json:"createdAt" format:"date-time"`
	UpdatedAt   taskTime  `json:"updatedAt" format:"date-time"`
	StartedAt   *taskTime `json:"startedAt,omitempty" format:"date-time"`
	CompletedAt *taskTime `json:"completedAt,omitempty" format:"date-time"`
	Error       string    `json:"error,omitempty"`
}

type taskResultEnvelopeOut struct {
	Result taskResultRecord `json:"result"`
}

type taskCommentListOut struct {
	Comments []taskCommentRecord `json:"comments"`
	Total    int                 `json:"total"`
}

type taskCommentedOut struct {
	Comment taskCommentRecord `json:"comment"`
	Task    taskRecord        `json:"task"`
}

// taskTime is Unix milliseconds, on the wire ISO 8601 with milliseconds and Z.
type taskTime int64

// MarshalJSON implements json.Marshaler.
func (t taskTime) MarshalJSON() ([]byte, error) { return wire.AppendTime(nil, int64(t)), nil }

func optionalTime(at int64) *taskTime {
	if at == 0 {
		return nil
	}
	shown := taskTime(at)
	return &shown
}

// taskUsage is the usage of a turn.
type taskUsage struct{ usage *conversationpb.Usage }

// MarshalJSON implements json.Marshaler.
func (u taskUsage) MarshalJSON() ([]byte, error) { return appendUsage(nil, u.usage), nil }

// Described implements openapi.Described.
func (u taskUsage) Described() (value any, nullable bool) { return usageSchema{}, false }

func taskStatusText(status taskpb.Status) string { return strings.ToLower(status.String()) }

func rawObject(stored []byte) json.RawMessage {
	if len(stored) == 0 {
		return json.RawMessage("{}")
	}
	return stored
}

func recordOfTask(task *taskpb.State, comments []*taskpb.Comment) taskRecord {
	record := taskRecord{
		ID: task.GetId(), AgentID: task.GetAgentId(), UserID: task.GetUserId(), Status: taskStatusText(task.GetStatus()),
		CallbackURL: task.GetCallbackUrl(), Input: task.GetInput(), Metadata: rawObject(task.GetMetadata()),
		ConversationID: task.GetConversationId(), Comments: recordsOfComments(task.GetId(), comments),
		CreatedAt: taskTime(task.GetCreatedAt()), UpdatedAt: taskTime(task.GetUpdatedAt()),
		StartedAt: optionalTime(task.GetStartedAt()), CompletedAt: optionalTime(task.GetCompletedAt()), Error: task.GetError(),
	}
	for _, file := range task.GetFiles() {
		record.Files = append(record.Files, fileRefSchema{
			ID: file.GetId(), Name: file.GetName(), MimeType: file.GetMimeType(), Size: file.GetSize(),
		})
	}
	return record
}

func statusOfTask(task *taskpb.State) *taskStatusOut {
	return &taskStatusOut{
		TaskID: task.GetId(), Status: taskStatusText(task.GetStatus()), Error: task.GetError(),
		CreatedAt: taskTime(task.GetCreatedAt()), UpdatedAt: taskTime(task.GetUpdatedAt()),
		StartedAt: optionalTime(task.GetStartedAt()), CompletedAt: optionalTime(task.GetCompletedAt()),
	}
}

func recordOfComment(taskID string, comment *taskpb.Comment) taskCommentRecord {
	role := "user"
	if comment.GetRole() == taskpb.Role_AGENT {
		role = "agent"
	}
	return taskCommentRecord{
		ID: comment.GetId(), TaskID: taskID, Role: role, Content: comment.GetContent(),
		Metadata: comment.GetMetadata(), CreatedAt: taskTime(comment.GetCreatedAt()),
	}
}

func recordsOfComments(taskID string, comments []*taskpb.Comment) []taskCommentRecord {
	records := make([]taskCommentRecord, 0, len(comments))
	for _, comment := range comments {
		records = append(records, recordOfComment(taskID, comment))
	}
	return records
}

func recordOfResult(task *taskpb.State, result *taskpb.Result) *taskResultRecord {
	if result == nil {
		return nil
	}
	record := &taskResultRecord{
		ID: result.GetId(), TaskID: task.GetId(), Content: result.GetContent(), Metadata: rawObject(result.GetMetadata()),
		CreatedAt: taskTime(result.GetCreatedAt()),
	}
	if result.GetUsage() != nil {
		record.Usage = &taskUsage{result.GetUsage()}
	}
	return record
}
