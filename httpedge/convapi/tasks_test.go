package convapi_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/httpedge/endpoint/endpointtest"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/nodepb"
	"parley/proto/taskpb"
)

const task1 = "task_000000000000000000001"

// dug is a task that is over, with all its fields.
func dug(user string) *nodepb.TaskReply {
	return &nodepb.TaskReply{
		Task: &taskpb.State{
			Id: task1, TenantId: "t", ProjectId: "p", UserId: user, AgentId: "assistant", Input: "dig", Status: taskpb.Status_COMPLETED,
			CallbackUrl: "https://host/x", Metadata: []byte(`{"k":1}`), CreatedAt: 1000, UpdatedAt: 4000, StartedAt: 2000,
			CompletedAt: 4000, ConversationId: conv1, Comments: 2, HasResult: true,
			Files: []*conversationpb.FileRef{{Id: "file_1", Name: "map.txt", MimeType: "text/plain", Size: 3}},
		},
		Comments: []*taskpb.Comment{
			{Id: "comment_1_a", Number: 1, Role: taskpb.Role_AGENT, Content: "Where?", Metadata: []byte(`{"waitingForInput":true}`), CreatedAt: 2500},
			{Id: "comment_2_b", Number: 2, Role: taskpb.Role_USER, Content: "Here", CreatedAt: 3000},
		},
		Result: &taskpb.Result{
			Id: "taskres_1", Content: "dug", Metadata: []byte(`{"stopReason":"end_turn"}`), CreatedAt: 4000,
			Usage: &conversationpb.Usage{InputTokens: 3, OutputTokens: 2, Priced: true, CostNanoUsd: 1_000_000},
		},
	}
}

const dugJSON = `"id":"` + task1 + `","agentId":"assistant","status":"completed","callbackUrl":"https://host/x","input":"dig",
	"files":[{"id":"file_1","name":"map.txt","mimeType":"text/plain","size":3}],"metadata":{"k":1},"conversationId":"` + conv1 + `",
	"createdAt":"1970-01-01T00:00:01.000Z","updatedAt":"1970-01-01T00:00:04.000Z","startedAt":"1970-01-01T00:00:02.000Z",
	"completedAt":"1970-01-01T00:00:04.000Z"`

const dugComments = `[{"id":"comment_1_a","taskId":"` + task1 + `","role":"agent","content":"Where?","metadata":{"waitingForInput":true},"createdAt":"1970-01-01T00:00:02.500Z"},
	{"id":"comment_2_b","taskId":"` + task1 + `","role":"user","content":"Here","createdAt":"1970-01-01T00:00:03.000Z"}]`

const dugResult = `{"id":"taskres_1","taskId":"` + task1 + `","content":"dug","metadata":{"stopReason":"end_turn"},
	"usage":{"inputTokens":3,"outputTokens":2,"totalTokens":5,"costUsd":0.001},"createdAt":"1970-01-01T00:00:04.000Z"}`

func TestReadTasks(t *testing.T) {
	k := serve(t)
	k.tasks.Put(dug(""))
	for path, want := range map[string]string{
		"":          `{"task":{` + dugJSON + `,"comments":` + dugComments + `},"result":` + dugResult + `}`,
		"/result":   `{"result":` + dugResult + `}`,
		"/comments": `{"comments":` + dugComments + `,"total":2}`,
		"/status": `{"taskId":"` + task1 + `","status":"completed","createdAt":"1970-01-01T00:00:01.000Z",
			"updatedAt":"1970-01-01T00:00:04.000Z","startedAt":"1970-01-01T00:00:02.000Z","completedAt":"1970-01-01T00:00:04.000Z"}`,
	} {
		r := k.do("GET", "/tasks/"+task1+path, "")
		require.Equal(t, 200, r.status)
		require.JSONEq(t, want, string(r.raw), path)
	}
	r := k.do("GET", "/tasks", "")
	require.JSONEq(t, `{"tasks":[{`+dugJSON+`}],"total":1,"limit":20,"offset":0,"hasMore":false}`, string(r.raw))
}

func TestFreshTaskLeavesOutWhatIsNotSet(t *testing.T) {
	k := serve(t)
	k.tasks.Put(&nodepb.TaskReply{Task: &taskpb.State{
		Id: task1, TenantId: "t", ProjectId: "p", AgentId: "a", Input: "dig", Status: taskpb.Status_PENDING, ConversationId: conv1, CreatedAt: 1, UpdatedAt: 1,
	}})
	r := k.do("GET", "/tasks/"+task1, "")
	require.JSONEq(t, `{"task":{"id":"`+task1+`","agentId":"a","status":"pending","input":"dig","metadata":{},"conversationId":"`+conv1+`",
		"createdAt":"1970-01-01T00:00:00.001Z","updatedAt":"1970-01-01T00:00:00.001Z"}}`, string(r.raw))
	k.refused(404, "NOT_FOUND", "GET", "/tasks/"+task1+"/result", "")
	require.JSONEq(t, `{"comments":[],"total":0}`, string(k.do("GET", "/tasks/"+task1+"/comments", "").raw))
}

func TestTasksBelongToTheirUsers(t *testing.T) {
	k := serve(t, withAuth)
	k.tasks.Put(dug("ann"))
	bob := []string{"Authorization", "Bearer bob"}
	for _, path := range []string{"", "/status", "/result", "/comments"} {
		k.refused(403, "FORBIDDEN", "GET", "/tasks/"+task1+path, "", bob...)
		require.Equal(t, 200, k.do("GET", "/tasks/"+task1+path, "", "Authorization", "Bearer ann").status)
	}
	require.InDelta(t, 0, k.do("GET", "/tasks?userId=ann", "", bob...).at(t, "total"), 0)
	require.InDelta(t, 1, k.do("GET", "/tasks", "", "Authorization", "Bearer ann").at(t, "total"), 0)
	require.False(t, k.tasks.Queries()[0].Anybody)
}

func TestListTasks(t *testing.T) {
	k := serve(t)
	k.do("GET", "/tasks?agentId=a&status=waiting_for_input&limit=7&offset=3", "")
	k.do("GET", "/tasks?userId=u&limit=9999", "")
	asked := k.tasks.Queries()
	require.Equal(t, "a", asked[0].GetAgentId())
	require.Equal(t, taskpb.Status_WAITING_FOR_INPUT, asked[0].Status)
	require.EqualValues(t, 7, asked[0].Limit)
	require.EqualValues(t, 3, asked[0].Offset)
	require.True(t, asked[0].Anybody, "nobody is named, and the server does not ask who calls")
	require.Equal(t, "u", asked[1].GetUserId())
	require.False(t, asked[1].Anybody)
	require.EqualValues(t, k.config.MaxListPage, asked[1].Limit)
	k.refused(400, "VALIDATION_ERROR", "GET", "/tasks?status=done", "")
}

func TestUnknownTasks(t *testing.T) {
	k := serve(t)
	for _, id := range []string{"task_nnnnnnnnnnnnnnnnnnnnn", conv1, "task_%2e%2e", "x"} {
		for _, path := range []string{"", "/status", "/result", "/comments"} {
			k.refused(404, "NOT_FOUND", "GET", "/tasks/"+id+path, "")
		}
	}
	k.refused(404, "NOT_FOUND", "POST", "/tasks/"+conv1+"/cancel", "")
	k.refused(404, "NOT_FOUND", "POST", "/tasks/"+conv1+"/comments", `{"content":"x"}`)
	require.Empty(t, k.tasks.Commands())
}

// answerTasks makes every command on a task succeed.
func (k *kit) answerTasks() {
	k.tasks.OnAsk = func(_ context.Context, command *taskpb.Command) (*taskpb.Reply, error) {
		view := dug(command.GetCaller().GetUserId())
		view.Task.Id = command.GetTaskId()
		view.Task.Files = append(command.GetCreate().GetFiles(), conversationpb.Refs(command.GetCreate().GetStored())...)
		return &taskpb.Reply{Task: view.Task, Comment: &taskpb.Comment{Id: "comment_1_x", Role: taskpb.Role_USER, Content: command.GetAddComment().GetContent()}}, nil
	}
}

func TestCreateTask(t *testing.T) {
	k := serve(t)
	k.answerTasks()
	r := k.do("POST", "/tasks", `{"agentId":"assistant","input":"dig","callbackUrl":"https://host:8443/x?y=z","metadata":{"k": [1]}}`)
	require.Equal(t, 201, r.status, "%s", r.raw)
	command := k.tasks.Commands()[0]
	require.Equal(t, command.GetTaskId(), r.at(t, "task", "id"))
	require.Equal(t, "dig", command.GetCreate().GetInput())
	require.JSONEq(t, `{"k":[1]}`, string(command.GetCreate().GetMetadata()))
	require.Regexp(t, `^conv_`, command.GetCreate().GetConversationId())
	require.NotEmpty(t, command.GetCommandId())
	require.Empty(t, k.runtime.Commands(), "the conversation is the task's to make")
	for _, body := range []string{
		`{}`, `{"agentId":"assistant"}`, `{"agentId":"assistant","input":"  "}`, `{"input":"dig"}`,
		`{"agentId":"assistant","input":"dig","callbackUrl":"there"}`, `{"agentId":"assistant","input":"dig","callbackUrl":"ftp://host/"}`,
		`{"agentId":"assistant","input":"dig","callbackUrl":"http://10.0.0.1/"}`,
		`{"agentId":"assistant","input":"dig","callbackUrl":"https://host/` + strings.Repeat("x", 2048) + `"}`,
		`{"agentId":"assistant","input":"dig","callbackUrl":"https://me:pw@host/"}`, `{"agentId":"assistant","input":"dig","callbackUrl":"http:///x"}`,
		`{"agentId":"assistant","input":"dig","metadata":[]}`,
	} {
		k.refused(400, "VALIDATION_ERROR", "POST", "/tasks", body)
	}
	k.refused(404, "NOT_FOUND", "POST", "/tasks", `{"agentId":"nobody","input":"dig"}`)
}

// TestCreateAgain: a request whose answer was lost makes the same when it is repeated under its key, by the same command.
func TestCreateAgain(t *testing.T) {
	k := serve(t)
	k.answerTasks()
	k.reply(&conversationpb.Reply{Body: &conversationpb.Reply_State{State: endpointtest.Talk(conv1, "u", 0).State}})
	for _, key := range []string{"a", "a", "b", ""} {
		header := []string{"Idempotency-Key", key}
		if key == "" {
			header = nil
		}
		require.Equal(t, 201, k.do("POST", "/tasks", `{"agentId":"assistant","input":"dig"}`, header...).status)
		require.Equal(t, 201, k.do("POST", "/conversations", `{"agentId":"assistant"}`, header...).status)
	}
	tasks, conversations := k.tasks.Commands(), k.runtime.Commands()
	for i, same := range []bool{true, false, false} {
		check := require.NotEqual
		if same {
			check = require.Equal
		}
		check(t, tasks[i].GetTaskId(), tasks[i+1].GetTaskId())
		check(t, tasks[i].GetCommandId(), tasks[i+1].GetCommandId())
		check(t, conversations[i].GetConversationId(), conversations[i+1].GetConversationId())
		check(t, conversations[i].GetCommandId(), conversations[i+1].GetCommandId())
	}
	require.NotEqual(t, tasks[0].GetTaskId(), conversations[0].GetConversationId())
}

func TestTaskWithFiles(t *testing.T) {
	k := serve(t, withFiles)
	k.answerTasks()
	r := k.do("POST", "/tasks", `{"agentId":"filer","userId":"u","input":"dig a  hole","files":[`+inline("a.csv", "text/csv", "a;b")+`]}`)
	require.Equal(t, 201, r.status, "%s", r.raw)
	require.Equal(t, "a.csv", r.at(t, "task", "files", 0, "name"))
	require.Equal(t, "text/csv", r.at(t, "task", "files", 0, "mimeType"))
	create := k.tasks.Commands()[0].GetCreate()
	require.Empty(t, k.runtime.Commands(), "the conversation is the task's to make")
	require.Len(t, create.GetStored(), 1)
	require.Empty(t, create.GetFiles())
	bytes, made := k.files.Len(), len(k.tasks.Commands())

	k.refused(415, "unsupported_file_type", "POST", "/tasks", `{"agentId":"filer","input":"dig a hole","files":[`+inline("a.zip", "", "PK\x03\x04")+`]}`)
	require.Len(t, k.tasks.Commands(), made, "refused before anything is made")
	require.Equal(t, bytes, k.files.Len())
	k.tasks.OnAsk = func(context.Context, *taskpb.Command) (*taskpb.Reply, error) {
		return nil, fail(failurepb.Code_VALIDATION, "no")
	}
	k.refused(400, "VALIDATION_ERROR", "POST", "/tasks", `{"agentId":"filer","input":"dig a hole","files":[`+inline("a.csv", "", "a;b")+`]}`)
	require.Equal(t, bytes, k.files.Len(), "the bytes are dropped")
	k.tasks.OnAsk = func(context.Context, *taskpb.Command) (*taskpb.Reply, error) {
		return nil, fail(failurepb.Code_UNAVAILABLE, "perhaps")
	}
	k.refused(503, "unavailable", "POST", "/tasks", `{"agentId":"filer","input":"dig a hole","files":[`+inline("a.csv", "", "a;b")+`]}`)
	require.Greater(t, k.files.Len(), bytes, "the task may exist")
}

func TestCommentAndCancelTask(t *testing.T) {
	k := serve(t)
	k.answerTasks()
	r := k.do("POST", "/tasks/"+task1+"/comments", `{"content":"deeper","metadata":{"answers":{"Where?":"here"}}}`)
	require.Equal(t, 201, r.status, "%s", r.raw)
	require.Equal(t, "deeper", r.at(t, "comment", "content"))
	require.Equal(t, task1, r.at(t, "comment", "taskId"))
	require.Equal(t, task1, r.at(t, "task", "id"))
	require.JSONEq(t, `{"answers":{"Where?":"here"}}`, string(k.tasks.Commands()[0].GetAddComment().GetMetadata()))
	r = k.do("POST", "/tasks/"+task1+"/cancel", "")
	require.Equal(t, 200, r.status, "%s", r.raw)
	require.Equal(t, task1, r.at(t, "task", "id"))
	require.NotNil(t, k.tasks.Commands()[1].GetCancel())
	k.tasks.OnAsk = func(context.Context, *taskpb.Command) (*taskpb.Reply, error) {
		return nil, fail(failurepb.Code_INVALID_REQUEST, "content is required")
	}
	k.refused(400, "INVALID_REQUEST", "POST", "/tasks/"+task1+"/comments", `{}`)
	k.refused(400, "INVALID_REQUEST", "POST", "/tasks/"+task1+"/comments", `{"metadata":3}`)
	k.refused(400, "INVALID_REQUEST", "POST", "/tasks/"+task1+"/comments", `{"content":3}`)
	k.refused(400, "INVALID_REQUEST", "POST", "/tasks/"+task1+"/comments", `{`)
}

// TestAuthorizeAnswerOfTask: a comment that answers a question is a decision like any other.
func TestAuthorizeAnswerOfTask(t *testing.T) {
	j := &judge{refusal: fail(failurepb.Code_ACTION_FORBIDDEN, "not you")}
	k := serve(t, withAuth, func(k *kit) { k.authorizer = j })
	view := dug("ann")
	view.Task.Status = taskpb.Status_WAITING_FOR_INPUT
	view.Task.Waiting = &taskpb.Waiting{
		Pending:   []*conversationpb.PendingAction{{Id: "act_1", Kind: "user_question"}},
		Questions: []*taskpb.Question{{ActionId: "act_1", Text: "Where?"}},
	}
	k.tasks.Put(view)
	at, ann := "/tasks/"+task1+"/comments", []string{"Authorization", "Bearer ann"}
	k.refused(403, "FORBIDDEN", "POST", at, `{"content":"here"}`, "Authorization", "Bearer bob")
	require.Empty(t, j.decided)
	k.refused(403, "action_forbidden", "POST", at, `{"content":"here"}`, ann...)
	require.JSONEq(t, `{"Where?":"here"}`, string(j.decided[0].Resolution.GetAnswers().GetAnswers()))
	require.Equal(t, "ann", j.decided[0].OwnerID)
	k.refused(403, "action_forbidden", "POST", at, `{"content":"see","metadata":{"answers":{"Where?":"there"}}}`, ann...)
	require.JSONEq(t, `{"Where?":"there"}`, string(j.decided[1].Resolution.GetAnswers().GetAnswers()))
	require.Empty(t, k.tasks.Commands(), "nothing was sent")
}
