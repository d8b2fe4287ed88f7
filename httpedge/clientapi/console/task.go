package console

import (
	"context"
	"strings"

	"parley/actors/core/entity"
	"parley/actors/core/failure"
	"parley/httpedge/a2a/tasks"
	"parley/httpedge/clientapi/render"
	"parley/httpedge/turns"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/nodepb"
)

// taskComments is how many of the newest comments are shown: more than a task may have.
const taskComments = 2000

type taskIn struct {
	ID string `path:"id"`
}

// taskOut is a background task. Its conversation is no session: what was said in it is not shown.
type taskOut struct {
	ID          string        `json:"id"`
	Status      string        `json:"status" enum:"pending,running,waiting_for_input,completed,failed,canceled"`
	Agent       string        `json:"agent"`
	User        *string       `json:"user"`
	Input       string        `json:"input"`
	Error       *string       `json:"error"`
	Result      *string       `json:"result"`
	Comments    []taskComment `json:"comments" doc:"Oldest first"`
	CreatedAt   string        `json:"created_at"`
	StartedAt   *string       `json:"started_at" doc:"Of the newest run"`
	CompletedAt *string       `json:"completed_at"`
}

type taskComment struct {
	ID        string `json:"id"`
	Role      string `json:"role" enum:"user,agent"`
	Content   string `json:"content"`
	CreatedAt string `json:"created_at"`
}

func (a *api) getTask(ctx context.Context, in *taskIn) (*taskOut, error) {
	view, err := a.task(ctx, in.ID, taskComments)
	if err != nil {
		return nil, err
	}
	task := view.GetTask()
	out := &taskOut{
		ID: task.GetId(), Status: strings.ToLower(task.GetStatus().String()), Agent: task.GetAgentId(), User: render.Nullable(task.GetUserId()),
		Input: task.GetInput(), Error: render.Nullable(task.GetError()), Comments: make([]taskComment, 0, len(view.GetComments())),
		CreatedAt: render.Time(task.GetCreatedAt()), StartedAt: render.NullableTime(task.GetStartedAt()), CompletedAt: render.NullableTime(task.GetCompletedAt()),
	}
	if result := view.GetResult(); result != nil {
		out.Result = &result.Content
	}
	for _, c := range view.GetComments() {
		out.Comments = append(out.Comments, taskComment{
			ID: c.GetId(), Role: strings.ToLower(c.GetRole().String()), Content: c.GetContent(), CreatedAt: render.Time(c.GetCreatedAt()),
		})
	}
	return out, nil
}

// task reads a background task that the caller may see.
func (a *api) task(ctx context.Context, id string, comments uint32) (*nodepb.TaskReply, error) {
	missing := failure.New(failurepb.Code_NOT_FOUND, failure.TaskNotFound)
	if !turns.Plausible(id) {
		return nil, missing
	}
	view, err := entity.Read[*nodepb.TaskReply](ctx, a.Entities, &nodepb.TaskQuery{Id: id, Comments: comments, Result: comments > 0})
	if err != nil {
		return nil, err
	}
	if conversationpb.AccessTo(view.GetTask(), a.Command(ctx, id, "find").GetCaller()) != conversationpb.AccessGranted {
		return nil, missing
	}
	return view, nil
}

// findTask finds a task of A2A, which is an answer in a session, or a background task.
func (a *api) findTask(ctx context.Context, id string) (*foundOut, error) {
	if session, _, is := tasks.ParseID(id); is {
		if state, err := a.Session(ctx, session); err == nil {
			return pageOf("task", id, "sessions", state.GetId()).in(state.GetId(), ""), nil
		}
	}
	if _, err := a.task(ctx, id, 0); err != nil {
		return nil, err
	}
	return pageOf("task", id, "tasks", id), nil
}
