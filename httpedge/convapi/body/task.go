package body

import (
	"encoding/json"
	"strings"

	"parley/httpedge/endpoint/wire"
	"parley/proto/conversationpb"
	"parley/proto/taskpb"
)

// Tasks are few and small, so they are plain structs. Unset optional fields are left out.

// TaskRecord is a task.
type TaskRecord struct {
	ID             string              `json:"id"`
	AgentID        string              `json:"agentId"`
	UserID         string              `json:"userId,omitempty" doc:"Owner"`
	Status         string              `json:"status" enum:"pending,running,waiting_for_input,completed,failed,canceled"`
	CallbackURL    string              `json:"callbackUrl,omitempty"`
	Input          string              `json:"input"`
	Files          []fileRefSchema     `json:"files,omitempty"`
	Comments       []TaskCommentRecord `json:"comments,omitempty" doc:"Only when one task is read"`
	Metadata       json.RawMessage     `json:"metadata"`
	ConversationID string              `json:"conversationId" doc:"In which it runs: pending actions are resolved there"`
	CreatedAt      taskTime            `json:"createdAt" format:"date-time"`
	UpdatedAt      taskTime            `json:"updatedAt" format:"date-time"`
	StartedAt      *taskTime           `json:"startedAt,omitempty" format:"date-time" doc:"Of the newest run"`
	CompletedAt    *taskTime           `json:"completedAt,omitempty" format:"date-time"`
	Error          string              `json:"error,omitempty"`
}

// TaskCommentRecord is a comment on a task.
type TaskCommentRecord struct {
	ID        string          `json:"id"`
	TaskID    string          `json:"taskId"`
	Role      string          `json:"role" enum:"agent,user"`
	Content   string          `json:"content"`
	Metadata  json.RawMessage `json:"metadata,omitempty"`
	CreatedAt taskTime        `json:"createdAt" format:"date-time"`
}

// TaskResultRecord is the result of a run of a task.
type TaskResultRecord struct {
	ID        string          `json:"id"`
	TaskID    string          `json:"taskId"`
	Content   string          `json:"content"`
	Metadata  json.RawMessage `json:"metadata"`
	Usage     *taskUsage      `json:"usage,omitempty"`
	CreatedAt taskTime        `json:"createdAt" format:"date-time"`
}

// TaskEnvelopeOut answers what creates or cancels a task.
type TaskEnvelopeOut struct {
	Task TaskRecord `json:"task"`
}

// TaskReadOut is a task with its comments and result.
type TaskReadOut struct {
	Task   TaskRecord        `json:"task"`
	Result *TaskResultRecord `json:"result,omitempty"`
}

// TaskListOut is a page of tasks.
type TaskListOut struct {
	Tasks   []TaskRecord `json:"tasks"`
	Total   int          `json:"total"`
	Limit   int          `json:"limit"`
	Offset  int          `json:"offset"`
	HasMore bool         `json:"hasMore"`
}

// TaskStatusOut is how far a task is.
type TaskStatusOut struct {
	TaskID      string    `json:"taskId"`
	Status      string    `json:"status" enum:"pending,running,waiting_for_input,completed,failed,canceled"`
	CreatedAt   taskTime  `json:"createdAt" format:"date-time"`
	UpdatedAt   taskTime  `json:"updatedAt" format:"date-time"`
	StartedAt   *taskTime `json:"startedAt,omitempty" format:"date-time"`
	CompletedAt *taskTime `json:"completedAt,omitempty" format:"date-time"`
	Error       string    `json:"error,omitempty"`
}

// TaskResultEnvelopeOut is the result of a task.
type TaskResultEnvelopeOut struct {
	Result TaskResultRecord `json:"result"`
}

// TaskCommentListOut is the comments on a task.
type TaskCommentListOut struct {
	Comments []TaskCommentRecord `json:"comments"`
	Total    int                 `json:"total"`
}

// TaskCommentedOut answers a new comment.
type TaskCommentedOut struct {
	Comment TaskCommentRecord `json:"comment"`
	Task    TaskRecord        `json:"task"`
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
func (u taskUsage) MarshalJSON() ([]byte, error) { return AppendUsage(nil, u.usage), nil }

// Described implements openapi.Described.
func (u taskUsage) Described() (value any, nullable bool) { return usageSchema{}, false }

func taskStatusText(status taskpb.Status) string { return strings.ToLower(status.String()) }

func rawObject(stored []byte) json.RawMessage {
	if len(stored) == 0 {
		return json.RawMessage("{}")
	}
	return stored
}

// RecordOfTask returns a task as it is shown, with the given comments.
func RecordOfTask(task *taskpb.State, comments []*taskpb.Comment) TaskRecord {
	record := TaskRecord{
		ID: task.GetId(), AgentID: task.GetAgentId(), UserID: task.GetUserId(), Status: taskStatusText(task.GetStatus()),
		CallbackURL: task.GetCallbackUrl(), Input: task.GetInput(), Metadata: rawObject(task.GetMetadata()),
		ConversationID: task.GetConversationId(), Comments: RecordsOfComments(task.GetId(), comments),
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

// StatusOfTask returns how far a task is.
func StatusOfTask(task *taskpb.State) *TaskStatusOut {
	return &TaskStatusOut{
		TaskID: task.GetId(), Status: taskStatusText(task.GetStatus()), Error: task.GetError(),
		CreatedAt: taskTime(task.GetCreatedAt()), UpdatedAt: taskTime(task.GetUpdatedAt()),
		StartedAt: optionalTime(task.GetStartedAt()), CompletedAt: optionalTime(task.GetCompletedAt()),
	}
}

// RecordOfComment returns a comment as it is shown.
func RecordOfComment(taskID string, comment *taskpb.Comment) TaskCommentRecord {
	role := "user"
	if comment.GetRole() == taskpb.Role_AGENT {
		role = "agent"
	}
	return TaskCommentRecord{
		ID: comment.GetId(), TaskID: taskID, Role: role, Content: comment.GetContent(),
		Metadata: comment.GetMetadata(), CreatedAt: taskTime(comment.GetCreatedAt()),
	}
}

// RecordsOfComments returns comments as they are shown.
func RecordsOfComments(taskID string, comments []*taskpb.Comment) []TaskCommentRecord {
	records := make([]TaskCommentRecord, 0, len(comments))
	for _, comment := range comments {
		records = append(records, RecordOfComment(taskID, comment))
	}
	return records
}

// RecordOfResult returns a result as it is shown; nil = there is none.
func RecordOfResult(task *taskpb.State, result *taskpb.Result) *TaskResultRecord {
	if result == nil {
		return nil
	}
	record := &TaskResultRecord{
		ID: result.GetId(), TaskID: task.GetId(), Content: result.GetContent(), Metadata: rawObject(result.GetMetadata()),
		CreatedAt: taskTime(result.GetCreatedAt()),
	}
	if result.GetUsage() != nil {
		record.Usage = &taskUsage{result.GetUsage()}
	}
	return record
}
