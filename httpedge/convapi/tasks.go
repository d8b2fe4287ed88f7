package convapi

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"

	"parley/actors/core/entity"
	"parley/actors/core/failure"
	"parley/httpedge/convapi/body"
	"parley/httpedge/endpoint"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/nodepb"
	"parley/proto/taskpb"
)

// taskRoutes declares the routes of background tasks (document 5, section 5).
func (a *API) taskRoutes() []endpoint.Route {
	const (
		notFound    = failurepb.Code_NOT_FOUND
		forbidden   = failurepb.Code_FORBIDDEN
		invalid     = failurepb.Code_VALIDATION
		noFiles     = failurepb.Code_ATTACHMENTS_DISABLED
		tooMany     = failurepb.Code_TOO_MANY_FILES
		badType     = failurepb.Code_UNSUPPORTED_FILE_TYPE
		storageFull = failurepb.Code_STORAGE_FULL
		storageFail = failurepb.Code_STORAGE_FAILED
	)
	tasks, c := endpoint.Tag("Tasks"), a.config
	unsaid := endpoint.Errors(failurepb.Code_GUARDRAIL_BLOCKED, failurepb.Code_GUARDRAIL_MISSING)
	return []endpoint.Route{
		endpoint.On("POST /tasks", "task:write", a.createTask, endpoint.Idempotent(),
			tasks, endpoint.Summary("Give an agent a task to work on in the background"), endpoint.Status(201),
			endpoint.MaxBody(c.MaxFileBody),
			endpoint.Errors(invalid, noFiles, notFound, tooMany, badType, storageFull, storageFail), unsaid),
		endpoint.On("GET /tasks", "task:read", a.listTasks,
			tasks, endpoint.Summary("List tasks, the newest first"),
			endpoint.Page("limit", c.ListPage, c.MaxListPage), endpoint.Errors(invalid)),
		endpoint.On("GET /tasks/{taskId}", "task:read", a.getTask,
			tasks, endpoint.Summary("Read a task with its comments and, when there is one, its result"),
			endpoint.Errors(invalid, forbidden, notFound)),
		endpoint.On("GET /tasks/{taskId}/status", "task:read", a.getTaskStatus,
			tasks, endpoint.Summary("Read how far a task is"), endpoint.Errors(invalid, forbidden, notFound)),
		endpoint.On("GET /tasks/{taskId}/result", "task:read", a.getTaskResult,
			tasks, endpoint.Summary("Read the result of a task's newest run"), endpoint.Errors(invalid, forbidden, notFound)),
		endpoint.On("GET /tasks/{taskId}/comments", "task:read", a.getTaskComments,
			tasks, endpoint.Summary("List the comments on a task, oldest first"), endpoint.Errors(invalid, forbidden, notFound)),
		endpoint.On("POST /tasks/{taskId}/comments", "task:write", a.addTaskComment, endpoint.Once(),
			tasks, endpoint.Summary("Comment on a task: it answers the agent's question, or has it work anew"), endpoint.Status(201),
			endpoint.InvalidAs(failurepb.Code_INVALID_REQUEST),
			endpoint.Errors(failurepb.Code_INVALID_REQUEST, forbidden, failurepb.Code_ACTION_FORBIDDEN, notFound, failurepb.Code_CONVERSATION_BUSY,
				storageFull, storageFail), unsaid),
		endpoint.On("POST /tasks/{taskId}/cancel", "task:write", a.cancelTask,
			tasks, endpoint.Summary("Cancel a task that is not over; one that is over stays as it is"),
			endpoint.Errors(invalid, forbidden, notFound, storageFull, storageFail)),
	}
}

type createTaskIn struct {
	AgentID     string        `json:"agentId" required:"true"`
	Input       string        `json:"input" required:"true" doc:"What the agent is to do"`
	UserID      string        `json:"userId" doc:"Owner; used only when no identity was established"`
	Files       []fileInput   `json:"files" doc:"Stored with the task; the agent's rules for attachments hold"`
	CallbackURL string        `json:"callbackUrl" doc:"Told by a signed POST when the task completes, fails or waits for input"`
	Metadata    body.Metadata `json:"metadata"`
}

// Validate implements endpoint.Validator.
func (in *createTaskIn) Validate() *failure.Failure {
	switch {
	case in.AgentID == "":
		return failure.New(failurepb.Code_VALIDATION, failure.Required).In("agentId")
	case strings.TrimSpace(in.Input) == "":
		return failure.New(failurepb.Code_VALIDATION, failure.Required).In("input")
	case in.CallbackURL == "":
		return nil
	}
	const longest = 2048
	if len(in.CallbackURL) > longest {
		return failure.New(failurepb.Code_VALIDATION, failure.TooLong).In("callbackUrl").Param("maxBytes", longest)
	}
	target, err := url.Parse(in.CallbackURL)
	if err != nil || target.Hostname() == "" || target.User != nil || target.Scheme != "http" && target.Scheme != "https" {
		return failure.New(failurepb.Code_VALIDATION, failure.AbsoluteHTTPURL).In("callbackUrl")
	}
	return nil
}

// createTask creates a task. The bytes of its files are stored first; its conversation adds them with its first message.
func (a *API) createTask(ctx context.Context, in *createTaskIn) (*body.TaskEnvelopeOut, error) {
	agent, ok := a.agents.Agent(endpoint.CallerFrom(ctx).ProjectID, in.AgentID)
	if !ok {
		return nil, notFound(failure.AgentNotFound)
	}
	if in.CallbackURL != "" && a.checkCallback != nil {
		if err := a.checkCallback(ctx, in.CallbackURL); err != nil {
			return nil, failure.New(failurepb.Code_VALIDATION, failure.CallbackRefused).In("callbackUrl").Param("problem", err)
		}
	}
	command := a.taskCommand(ctx, endpoint.MintID(ctx, a.ids, "task", ""))
	command.CommandId = endpoint.CommandID(ctx, a.ids, "create") // as for conversations
	if a.config.UserIDFromBody && !command.Caller.Identified && in.UserID != "" {
		command.Caller.UserId = endpoint.OutsideUser(in.UserID)
	}
	create := &taskpb.Create{
		AgentId: in.AgentID, Input: in.Input, CallbackUrl: in.CallbackURL, Metadata: in.Metadata,
		ConversationId: a.ids.NewIDFor("conv", command.GetTaskId()),
	}
	command.Body = &taskpb.Command_Create{Create: create}
	stored, err := a.storeInline(ctx, create.GetConversationId(), nil, agent, in.Files)
	if err != nil {
		return nil, err
	}
	create.Stored = stored
	reply, err := a.askTask(ctx, command)
	if err != nil {
		a.filer.Drop(ctx, stored, err)
		return nil, err
	}
	return &body.TaskEnvelopeOut{Task: body.RecordOfTask(reply.GetTask(), nil)}, nil
}

// taskCommand returns a command of the request's caller on a task.
func (a *API) taskCommand(ctx context.Context, id string) *taskpb.Command {
	return &taskpb.Command{TaskId: id, CommandId: a.ids.NewID("cmd"), Caller: callerOf(ctx)}
}

func (a *API) askTask(ctx context.Context, command *taskpb.Command) (*taskpb.Reply, error) {
	return entity.Ask[*taskpb.Reply](ctx, a.entities, command.GetTaskId(), command)
}

type listTasksIn struct {
	AgentID string `query:"agentId" doc:"Only tasks of this agent"`
	UserID  string `query:"userId" doc:"Whose tasks; honoured only when the request carries no identity"`
	Status  string `query:"status" enum:"pending,running,waiting_for_input,completed,failed,canceled"`
	Limit   int    `query:"limit"`
	Offset  int    `query:"offset"`
}

// listTasks lists the caller's tasks, or all tasks where the server does not authenticate callers and the query names no user.
func (a *API) listTasks(ctx context.Context, in *listTasksIn) (*body.TaskListOut, error) {
	caller := endpoint.CallerFrom(ctx) // includes the query's userId where it is trusted
	page, err := entity.Read[*taskpb.TasksReply](ctx, a.entities, &taskpb.TasksQuery{
		TenantId: caller.TenantID, ProjectId: caller.ProjectID,
		Anybody: caller.UserID == "" && caller.Trusted, UserId: caller.UserID, AgentId: in.AgentID,
		Status: taskpb.Status(taskpb.Status_value[strings.ToUpper(in.Status)]),
		Limit:  int64(in.Limit), Offset: int64(in.Offset),
	})
	if err != nil {
		return nil, err
	}
	out := &body.TaskListOut{
		Tasks: make([]body.TaskRecord, 0, len(page.Tasks)), Total: int(page.GetTotal()), Limit: in.Limit, Offset: in.Offset,
		HasMore: in.Offset+len(page.Tasks) < int(page.GetTotal()),
	}
	for _, task := range page.Tasks {
		out.Tasks = append(out.Tasks, body.RecordOfTask(task, nil))
	}
	return out, nil
}

type taskIn struct {
	ID string `path:"taskId"`
}

// maxTaskComments is how many of the newest comments are shown: more than a task may have.
const maxTaskComments = 2000

func (a *API) getTask(ctx context.Context, in *taskIn) (*body.TaskReadOut, error) {
	view, err := a.readableTask(ctx, in.ID, maxTaskComments, true)
	if err != nil {
		return nil, err
	}
	return &body.TaskReadOut{Task: body.RecordOfTask(view.Task, view.Comments), Result: body.RecordOfResult(view.Task, view.Result)}, nil
}

func (a *API) getTaskStatus(ctx context.Context, in *taskIn) (*body.TaskStatusOut, error) {
	view, err := a.readableTask(ctx, in.ID, 0, false)
	if err != nil {
		return nil, err
	}
	return body.StatusOfTask(view.Task), nil
}

func (a *API) getTaskResult(ctx context.Context, in *taskIn) (*body.TaskResultEnvelopeOut, error) {
	view, err := a.readableTask(ctx, in.ID, 0, true)
	switch {
	case err != nil:
		return nil, err
	case view.Result == nil:
		return nil, notFound(failure.ResultNotFound)
	}
	return &body.TaskResultEnvelopeOut{Result: *body.RecordOfResult(view.Task, view.Result)}, nil
}

func (a *API) getTaskComments(ctx context.Context, in *taskIn) (*body.TaskCommentListOut, error) {
	view, err := a.readableTask(ctx, in.ID, maxTaskComments, false)
	if err != nil {
		return nil, err
	}
	return &body.TaskCommentListOut{Comments: body.RecordsOfComments(in.ID, view.Comments), Total: int(view.Task.GetComments())}, nil
}

// readableTask returns a task if the caller may see it.
func (a *API) readableTask(ctx context.Context, id string, comments int, result bool) (*nodepb.TaskReply, error) {
	if !plausibleTask(id) {
		return nil, notFound(failure.TaskNotFound)
	}
	view, err := entity.Read[*nodepb.TaskReply](ctx, a.entities, &nodepb.TaskQuery{Id: id, Comments: uint32(comments), Result: result})
	if err != nil {
		return nil, err
	}
	switch conversationpb.AccessTo(view.Task, callerOf(ctx)) {
	case conversationpb.AccessGranted:
		return view, nil
	case conversationpb.AccessDenied:
		return nil, failure.New(failurepb.Code_FORBIDDEN, failure.AccessDenied)
	default:
		return nil, notFound(failure.TaskNotFound)
	}
}

// plausibleTask says whether a text has the form of a task id.
func plausibleTask(id string) bool { return strings.HasPrefix(id, "task_") && plausible(id) }

type addTaskCommentIn struct {
	ID       string        `path:"taskId"`
	Content  string        `json:"content" required:"true"`
	Metadata body.Metadata `json:"metadata" doc:"An object answers, from question to answer, answers several questions at once"`
}

func (a *API) addTaskComment(ctx context.Context, in *addTaskCommentIn) (*body.TaskCommentedOut, error) {
	if !plausibleTask(in.ID) {
		return nil, notFound(failure.TaskNotFound)
	}
	if err := a.mayAnswer(ctx, in); err != nil {
		return nil, err
	}
	command := a.taskCommand(ctx, in.ID)
	command.Body = &taskpb.Command_AddComment{AddComment: &taskpb.AddComment{Content: in.Content, Metadata: in.Metadata}}
	reply, err := a.askTask(ctx, command)
	if err != nil {
		return nil, err
	}
	return &body.TaskCommentedOut{
		Comment: body.RecordOfComment(in.ID, reply.GetComment()), Task: body.RecordOfTask(reply.GetTask(), nil),
	}, nil
}

// mayAnswer asks the Authorizer to permit a comment that answers the agent's questions, as for any other answer.
func (a *API) mayAnswer(ctx context.Context, in *addTaskCommentIn) error {
	if a.authorizer == nil {
		return nil
	}
	view, err := a.readableTask(ctx, in.ID, 0, false)
	if err != nil {
		return err
	}
	task := view.Task
	if len(task.GetWaiting().GetQuestions()) == 0 {
		return nil // other pending actions are cancelled
	}
	for _, action := range task.GetWaiting().GetPending() {
		said, err := in.answers(task.GetWaiting(), action.GetId())
		if err != nil {
			return err
		}
		err = a.authorizer.AuthorizeResolve(ctx, &endpoint.ActionDecision{
			ConversationID: task.GetConversationId(), AgentID: task.GetAgentId(), OwnerID: task.GetUserId(),
			ActionID: action.GetId(), Action: action, Resolution: &conversationpb.Resolve{
				ActionId:   action.GetId(),
				Resolution: &conversationpb.Resolve_Answers{Answers: &conversationpb.UserAnswers{Answers: said}},
			},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// answers converts a comment to answers to an action's questions: the same text for each, unless the metadata has separate ones.
func (in *addTaskCommentIn) answers(waiting *taskpb.Waiting, actionID string) ([]byte, error) {
	var given struct {
		Answers map[string]json.RawMessage `json:"answers"`
	}
	if json.Unmarshal(in.Metadata, &given) == nil && len(given.Answers) > 0 {
		return json.Marshal(given.Answers)
	}
	answers := map[string]string{}
	for _, question := range waiting.GetQuestions() {
		if question.GetActionId() == actionID {
			answers[question.GetText()] = in.Content
		}
	}
	return json.Marshal(answers)
}

func (a *API) cancelTask(ctx context.Context, in *taskIn) (*body.TaskEnvelopeOut, error) {
	if !plausibleTask(in.ID) {
		return nil, notFound(failure.TaskNotFound)
	}
	command := a.taskCommand(ctx, in.ID)
	command.Body = &taskpb.Command_Cancel{Cancel: &taskpb.Cancel{}}
	reply, err := a.askTask(ctx, command)
	if err != nil {
		return nil, err
	}
	return &body.TaskEnvelopeOut{Task: body.RecordOfTask(reply.GetTask(), nil)}, nil
}
