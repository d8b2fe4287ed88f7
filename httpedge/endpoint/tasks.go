package endpoint

import (
	"context"

	"parley/actors/core/entity"
	"parley/proto/nodepb"
	"parley/proto/taskpb"
)

// Tasks is what handlers need of background tasks. A refusal is a *machine.Failure.
type Tasks interface {
	// Ask routes a command to its task's owner and returns the reply.
	Ask(ctx context.Context, command *taskpb.Command) (*taskpb.Reply, error)
	// Task reads a task of one moment, with as many of its newest comments, oldest first, and its result as asked for. A
	// NOT_FOUND failure when there is none.
	Task(ctx context.Context, id string, comments int, result bool) (*TaskView, error)
	// List lists tasks, the newest first. Their comments and results are not read.
	List(ctx context.Context, query TaskQuery) (*TaskPage, error)
}

// TaskView is a task and what belongs to it. Result is nil when it has none, or was not asked for.
type TaskView struct {
	Task     *taskpb.State
	Comments []*taskpb.Comment
	Result   *taskpb.Result
}

// TaskQuery selects tasks of one project.
type TaskQuery struct {
	TenantID, ProjectID string
	Anybody             bool   // of whomever; else those of UserID
	UserID              string // empty = those without an owner
	AgentID             string // empty = any
	Status              taskpb.Status
	Limit, Offset       int
}

// TaskPage is a page of tasks.
type TaskPage struct {
	Tasks []*taskpb.State
	Total int
}

// NewTasks returns background tasks over a client.
func NewTasks(client entity.Client) Tasks { return &tasks{client} }

// tasks is a client as Tasks.
type tasks struct{ client entity.Client }

// Ask implements Tasks.
func (t *tasks) Ask(ctx context.Context, command *taskpb.Command) (*taskpb.Reply, error) {
	return entity.Ask[*taskpb.Reply](ctx, t.client, command.GetTaskId(), command)
}

// Task implements Tasks.
func (t *tasks) Task(ctx context.Context, id string, comments int, result bool) (*TaskView, error) {
	reply, err := entity.Read[*nodepb.TaskReply](ctx, t.client, &nodepb.TaskQuery{Id: id, Comments: uint32(comments), Result: result})
	if err != nil {
		return nil, err
	}
	return &TaskView{Task: reply.GetTask(), Comments: reply.GetComments(), Result: reply.GetResult()}, nil
}

// List implements Tasks.
func (t *tasks) List(ctx context.Context, query TaskQuery) (*TaskPage, error) {
	reply, err := entity.Read[*taskpb.TasksReply](ctx, t.client, &taskpb.TasksQuery{
		TenantId: query.TenantID, ProjectId: query.ProjectID, Anybody: query.Anybody, UserId: query.UserID, AgentId: query.AgentID,
		Status: query.Status, Limit: int64(query.Limit), Offset: int64(query.Offset),
	})
	if err != nil {
		return nil, err
	}
	return &TaskPage{Tasks: reply.GetTasks(), Total: int(reply.GetTotal())}, nil
}
