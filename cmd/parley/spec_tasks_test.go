package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func taskStatus() shape {
	return oneOf("pending", "running", "waiting_for_input", "completed", "failed", "canceled")
}

func taskRecordShape(over fields) shape {
	return object(fields{
		"id": idOf("task"), "agentId": nonEmpty, "userId?": nonEmpty, "status": taskStatus(), "callbackUrl?": nonEmpty, "input": nonEmpty,
		"files?": listOf(anyObject), "comments?": listOf(taskComment(nil)), "metadata": anyObject, "conversationId": idOf("conv"),
		"createdAt": moment, "updatedAt": moment, "startedAt?": moment, "completedAt?": moment, "error?": nonEmpty,
	}.with(over))
}

func taskComment(over fields) shape {
	return object(fields{
		"id": like(`^comment_\d{13}_[\w-]+$`), "taskId": idOf("task"), "role": oneOf("agent", "user"), "content": nonEmpty,
		"metadata?": anyObject, "createdAt": moment,
	}.with(over))
}

func taskResult(over fields) shape {
	return object(fields{
		"id": idOf("taskres"), "taskId": idOf("task"), "content": nonEmpty, "metadata": anyObject, "usage?": usageRecord(nil), "createdAt": moment,
	}.with(over))
}

// newTask creates a task and returns its record. body is what it has besides agent and input.
func (p *process) newTask(t *testing.T, agent, input string, body map[string]any, headers ...string) tree {
	t.Helper()
	all := map[string]any{"agentId": agent, "input": input}
	for name, value := range body {
		all[name] = value
	}
	return p.ask(t, "POST", "/tasks", all, headers...).fits(201, object(fields{"task": taskRecordShape(fields{
		"status": exactly("pending"), "comments": nil, "startedAt": nil, "completedAt": nil, "error": nil,
	})})).at("task")
}

// becomes waits until a task has a status, and reads it.
func (p *process) becomes(t *testing.T, id, status string, headers ...string) tree {
	t.Helper()
	var last string
	require.Eventuallyf(t, func() bool {
		last = p.ask(t, "GET", "/tasks/"+id+"/status", nil, headers...).fits(200, anyObject).text("status")
		return last == status
	}, 30*time.Second, 5*time.Millisecond, "task never becomes %s", status)
	return p.ask(t, "GET", "/tasks/"+id, nil, headers...).fits(200, object(fields{"task": taskRecordShape(nil), "result?": taskResult(nil)}))
}

func (p *process) comment(t *testing.T, id, text string) answer {
	t.Helper()
	return p.ask(t, "POST", "/tasks/"+id+"/comments", map[string]string{"content": text})
}

func TestSpecTasks(t *testing.T) {
	t.Parallel()
	p := content(t)
	t.Run("task_runs_to_its_end", func(t *testing.T) {
		made := p.newTask(t, "open", "say done", map[string]any{"userId": "tasks", "metadata": map[string]any{"k": 1, "parley.x": 1}})
		require.NoError(t, exactly(map[string]int{"k": 1})(made.at("metadata").v))
		id := made.text("id")
		read := p.becomes(t, id, "completed")
		require.NoError(t, object(fields{"task": taskRecordShape(fields{
			"userId": exactly("tasks"), "startedAt": moment, "completedAt": moment, "error": nil, "comments": nil, "input": exactly("say done"),
		}), "result": taskResult(fields{"taskId": exactly(id), "content": exactly("done"), "usage": usageRecord(nil)})})(read.v))
		result := p.ask(t, "GET", "/tasks/"+id+"/result", nil).fits(200, object(fields{"result": taskResult(nil)}))
		require.Equal(t, read.at("result").v, result.at("result").v)
		p.ask(t, "GET", "/tasks/"+id+"/status", nil).fits(200, object(fields{
			"taskId": exactly(id), "status": exactly("completed"), "createdAt": exactly(read.text("task", "createdAt")), "updatedAt": moment,
			"startedAt": exactly(read.text("task", "startedAt")), "completedAt": exactly(read.text("task", "completedAt")),
		}))
		p.ask(t, "GET", "/tasks/"+id+"/comments", nil).fits(200, exactly(map[string]any{"comments": []any{}, "total": 0}))
	})
	t.Run("conversation_of_a_task", func(t *testing.T) {
		made := p.newTask(t, "open", "say done", map[string]any{"userId": "task conversation"})
		p.becomes(t, made.text("id"), "completed")
		conversation := made.text("conversationId")
		read := p.ask(t, "GET", "/conversations/"+conversation, nil).fits(200, conversationRead(messagesPage{100, "asc", false, false}))
		require.NoError(t, exactly(map[string]string{"parley.taskId": made.text("id")})(read.at("conversation", "metadata").v))
		require.Equal(t, "task conversation", read.text("conversation", "userId"))
		p.ask(t, "GET", "/conversations?userId=task+conversation", nil).fits(200, conversationPage(fields{"total": exactly(0)}))
		changed := p.ask(t, "PATCH", "/conversations/"+conversation, `{"metadata":{"parley.taskId":"other"}}`).fits(200, conversationRecord(nil))
		require.Equal(t, made.text("id"), changed.at("metadata").text("parley.taskId"), "the task link is the server's")
	})
	t.Run("question_waits_for_a_comment", func(t *testing.T) {
		id := p.newTask(t, "asking", "paint it", nil).text("id")
		read := p.becomes(t, id, "waiting_for_input")
		comments := read.at("task", "comments").list()
		require.Len(t, comments, 1)
		require.NoError(t, taskComment(fields{"role": exactly("agent"), "content": like(`Which colour\?`), "metadata": anyObject})(comments[0].v))
		require.True(t, read.flag("result", "metadata", "waitingForInput"))
		require.Nil(t, read.at("task", "completedAt").v)
		answered := p.comment(t, id, "blue").fits(201, object(fields{
			"comment": taskComment(fields{"role": exactly("user"), "content": exactly("blue")}), "task": taskRecordShape(fields{"status": exactly("pending")}),
		}))
		read = p.becomes(t, id, "completed")
		require.Contains(t, read.text("result", "content"), "thank you")
		list := p.ask(t, "GET", "/tasks/"+id+"/comments", nil).fits(200, object(fields{"comments": listOf(taskComment(nil)), "total": exactly(2)}))
		require.Equal(t, answered.text("comment", "id"), list.at("comments").list()[1].text("id"), "oldest first")
		require.Len(t, p.messages(t, read.text("task", "conversationId")), 2, "the comment answered the question")
	})
	t.Run("comment_has_a_completed_task_run_anew", func(t *testing.T) {
		id := p.newTask(t, "open", "say one", nil).text("id")
		first := p.becomes(t, id, "completed")
		task := p.comment(t, id, "say two").fits(201, anyObject).at("task")
		require.NoError(t, taskRecordShape(fields{"status": exactly("pending"), "completedAt": nil, "error": nil})(task.v))
		second := p.becomes(t, id, "completed")
		require.Equal(t, "two", second.text("result", "content"))
		require.NotEqual(t, first.text("result", "id"), second.text("result", "id"))
		require.Greater(t, second.text("task", "startedAt")+"~", first.text("task", "startedAt"))
	})
	t.Run("comment_of_a_running_task_waits", func(t *testing.T) {
		id := p.newTask(t, "open", "tell long stories", nil).text("id")
		task := p.becomes(t, id, "running").at("task")
		require.NotNil(t, task.at("startedAt").v)
		p.comment(t, id, "say enough").fits(201, anyObject)
		conversation := task.text("conversationId")
		require.Len(t, p.messages(t, conversation), 1)
		p.ask(t, "POST", "/conversations/"+conversation+"/cancel", nil).fits(200, anyObject)
		require.Equal(t, "enough", p.becomes(t, id, "completed").text("result", "content"))
	})
	t.Run("failed_task_says_why", func(t *testing.T) {
		id := p.newTask(t, "open", "fail please", nil).text("id")
		read := p.becomes(t, id, "failed")
		require.NotEmpty(t, read.text("task", "error"))
		require.Nil(t, read.at("result").v)
		p.ask(t, "GET", "/tasks/"+id+"/result", nil).refused(404, "NOT_FOUND")
		require.Equal(t, read.text("task", "error"), p.ask(t, "GET", "/tasks/"+id+"/status", nil).fits(200, anyObject).text("error"))
		p.comment(t, id, "say better").fits(201, anyObject)
		require.Nil(t, p.becomes(t, id, "completed").at("task", "error").v)
	})
	t.Run("files_of_a_task", func(t *testing.T) {
		id := p.newTask(t, "open", "read the attached", map[string]any{
			"files": []any{map[string]string{"name": "plan.txt", "content": "dGhlIHBsYW4=", "mimeType": "text/plain"}}, "userId": "task files",
		}).text("id")
		read := p.becomes(t, id, "completed")
		file := read.at("task", "files").list()[0]
		require.Equal(t, "plan.txt", file.text("name"))
		require.Equal(t, "the plan", p.ask(t, "GET", "/files/"+file.text("id")+"/content", nil).text)
		require.Contains(t, echo().about(t, "read the attached"), "the plan")
	})
	t.Run("running_task_is_canceled", func(t *testing.T) {
		id := p.newTask(t, "open", "tell long stories", nil).text("id")
		p.becomes(t, id, "running")
		p.ask(t, "POST", "/tasks/"+id+"/cancel", nil).fits(200, object(fields{"task": taskRecordShape(fields{"status": exactly("canceled")})}))
		conversation := p.becomes(t, id, "canceled").text("task", "conversationId")
		p.idle(t, conversation)
		again := p.ask(t, "POST", "/tasks/"+id+"/cancel", nil).fits(200, anyObject)
		require.Equal(t, "canceled", again.text("task", "status"))
		p.comment(t, id, "say on").fits(201, anyObject)
		require.Equal(t, "on", p.becomes(t, id, "completed").text("result", "content"))
	})
	t.Run("waiting_task_is_canceled", func(t *testing.T) {
		id := p.newTask(t, "asking", "paint it", nil).text("id")
		conversation := p.becomes(t, id, "waiting_for_input").text("task", "conversationId")
		p.ask(t, "POST", "/tasks/"+id+"/cancel", nil).fits(200, anyObject)
		p.becomes(t, id, "canceled")
		p.idle(t, conversation)
		require.Equal(t, "cancelled", p.messages(t, conversation)[1].text("status"))
	})
	t.Run("completed_task_is_not_canceled", func(t *testing.T) {
		id := p.newTask(t, "open", "say x", nil).text("id")
		before := p.becomes(t, id, "completed")
		after := p.ask(t, "POST", "/tasks/"+id+"/cancel", nil).fits(200, anyObject)
		require.Equal(t, before.text("task", "updatedAt"), after.text("task", "updatedAt"))
		require.Equal(t, "completed", after.text("task", "status"))
	})
	t.Run("tasks_are_listed_newest_first", func(t *testing.T) {
		var ids []string
		for n := range 5 {
			ids = append([]string{p.newTask(t, []string{"open", "quick"}[n%2], "say x", map[string]any{"userId": "task list"}).text("id")}, ids...)
			p.becomes(t, ids[0], "completed")
			p.tick(t)
		}
		list := func(query string) tree {
			return p.ask(t, "GET", "/tasks?userId=task+list"+query, nil).fits(200, object(fields{
				"tasks": listOf(taskRecordShape(fields{"comments": nil})), "total": integer, "limit": integer, "offset": integer, "hasMore": boolean,
			}))
		}
		require.Equal(t, ids, texts(list("").at("tasks").list(), "id"))
		page := list("&limit=2&offset=2")
		require.Equal(t, ids[2:4], texts(page.at("tasks").list(), "id"))
		require.NoError(t, exactly([]any{5, 2, 2, true})([]any{page.at("total").v, page.at("limit").v, page.at("offset").v, page.at("hasMore").v}))
		require.Equal(t, []string{ids[1], ids[3]}, texts(list("&agentId=quick").at("tasks").list(), "id"))
		require.Len(t, list("&status=completed").at("tasks").list(), 5)
		require.Empty(t, list("&status=failed").at("tasks").list())
		require.Equal(t, []string{ids[0]}, texts(list("&status=completed&agentId=open&limit=1").at("tasks").list(), "id"))
		p.ask(t, "GET", "/tasks?status=done", nil).refused(400, "VALIDATION_ERROR")
	})
	t.Run("task_with_a_used_up_budget_fails", func(t *testing.T) {
		id := p.newTask(t, "thrifty", "spend", nil).text("id")
		require.Contains(t, p.becomes(t, id, "failed").text("task", "error"), "budget")
	})
	t.Run("question_of_a_task_answered_in_its_conversation", func(t *testing.T) {
		id := p.newTask(t, "asking", "paint it", nil).text("id")
		read := p.becomes(t, id, "waiting_for_input")
		conversation := read.text("task", "conversationId")
		action := read.at("result", "metadata", "pendingActionIds").list()[0].v
		p.ask(t, "POST", fmt.Sprintf("/conversations/%s/actions/%s", conversation, action), `{"resolution":{"type":"user_question","answers":{"Which colour?":"red"}}}`).fits(200, anyObject)
		p.comment(t, id, "and quickly").fits(201, anyObject)
		p.becomes(t, id, "waiting_for_input") // the agent asks again whatever it is told
		require.Len(t, p.messages(t, conversation), 4, "what was no answer any more is the next message")
	})
	t.Run("waiting_conversation_in_a_bulk_delete", func(t *testing.T) {
		id := p.newConversation(t, "asking", "bulk")
		p.say(t, id, "hello")
		file := p.upload(t, id, "a.txt", "text/plain", []byte("x")).text("id")
		result := p.ask(t, "POST", "/conversations/bulk-delete", map[string]any{"ids": []string{id}}).fits(200, anyObject).at("results").list()[0]
		require.Equal(t, "deleted", result.text("status"), result.v)
		p.ask(t, "GET", "/files/"+file, nil).refused(404, "NOT_FOUND")
	})
	t.Run("tasks_survive_the_deletion_of_their_conversation", func(t *testing.T) {
		made := p.newTask(t, "open", "tell long stories", nil)
		p.becomes(t, made.text("id"), "running")
		p.ask(t, "DELETE", "/conversations/"+made.text("conversationId"), nil).empty(204)
		p.becomes(t, made.text("id"), "failed")
		p.comment(t, made.text("id"), "say again").fits(201, anyObject)
		require.Equal(t, "again", p.becomes(t, made.text("id"), "completed").text("result", "content"))
	})
}

func TestSpecTaskRefusals(t *testing.T) {
	t.Parallel()
	p := content(t)
	for _, c := range []refusal{
		{"no_agent", `{"input":"x"}`, 400, "VALIDATION_ERROR"},
		{"no_input", `{"agentId":"open"}`, 400, "VALIDATION_ERROR"},
		{"blank_input", `{"agentId":"open","input":" "}`, 400, "VALIDATION_ERROR"},
		{"number_as_input", `{"agentId":"open","input":1}`, 400, "VALIDATION_ERROR"},
		{"long_input", map[string]string{"agentId": "open", "input": strings.Repeat("x", 256<<10+1)}, 400, "VALIDATION_ERROR"},
		{"unknown_agent", `{"agentId":"nobody","input":"x"}`, 404, "NOT_FOUND"},
		{"callback_elsewhere", `{"agentId":"open","input":"x","callbackUrl":"ftp://host/x"}`, 400, "VALIDATION_ERROR"},
		{"callback_without_a_host", `{"agentId":"open","input":"x","callbackUrl":"https:///x"}`, 400, "VALIDATION_ERROR"},
		{"list_as_metadata", `{"agentId":"open","input":"x","metadata":[]}`, 400, "VALIDATION_ERROR"},
		{"files_for_an_agent_without", `{"agentId":"closed","input":"x","files":[{"name":"a","content":"YQ==","mimeType":"text/plain"}]}`, 403, "attachments_disabled"},
		{"files_of_a_wrong_type", `{"agentId":"narrow","input":"x","files":[{"name":"a","content":"YQ==","mimeType":"text/plain"}]}`, 415, "unsupported_file_type"},
		{"files_without_content", `{"agentId":"open","input":"x","files":[{"name":"a"}]}`, 400, "VALIDATION_ERROR"},
		{"no_body", nil, 400, "VALIDATION_ERROR"},
	} {
		t.Run("task_with_"+c.name, func(t *testing.T) {
			p.ask(t, "POST", "/tasks", c.body).refused(c.status, c.code)
		})
	}
	id := p.newTask(t, "open", "say x", nil).text("id")
	p.becomes(t, id, "completed")
	t.Run("comment_without_content", func(t *testing.T) {
		for _, body := range []string{`{}`, `{"content":""}`, `{"content":"  "}`} {
			p.ask(t, "POST", "/tasks/"+id+"/comments", body).refused(400, "INVALID_REQUEST")
		}
		p.becomes(t, id, "completed")
	})
	t.Run("unknown_tasks_are_404", func(t *testing.T) {
		for _, unknown := range []string{"task_AAAAAAAAAAAAAAAAAAAAA", "x", "conv_AAAAAAAAAAAAAAAAAAAAA"} {
			for _, route := range []string{"GET ", "GET /status", "GET /result", "GET /comments", "POST /comments", "POST /cancel"} {
				method, path, _ := strings.Cut(route, " ")
				p.ask(t, method, "/tasks/"+unknown+path, map[string]string{"POST": `{"content":"x"}`}[method]).refused(404, "NOT_FOUND")
			}
		}
	})
}

func TestSpecTaskOwnership(t *testing.T) {
	t.Parallel()
	p := shared.of(t, tokenConfig)
	ada, bob := bearer("ada-token"), bearer("bob-token")
	made := p.newTask(t, "quick", "x", map[string]any{"userId": "bob"}, ada...)
	require.Equal(t, "ada", made.text("userId"))
	t.Run("another_users_task_is_403", func(t *testing.T) {
		for _, route := range []string{"GET ", "GET /status", "GET /result", "GET /comments", "POST /comments", "POST /cancel"} {
			method, path, _ := strings.Cut(route, " ")
			p.ask(t, method, "/tasks/"+made.text("id")+path+"?userId=ada", `{"content":"x"}`, bob...).refused(403, "FORBIDDEN")
			p.ask(t, method, "/tasks/"+made.text("id")+path, `{"content":"x"}`).refused(401, "AUTH_REQUIRED")
		}
		p.becomes(t, made.text("id"), "completed", ada...) // it makes its conversation
		p.ask(t, "GET", "/conversations/"+made.text("conversationId"), nil, bob...).refused(403, "FORBIDDEN")
		require.Empty(t, p.ask(t, "GET", "/tasks?userId=ada", nil, bob...).fits(200, anyObject).at("tasks").list())
		require.Contains(t, texts(p.ask(t, "GET", "/tasks", nil, ada...).fits(200, anyObject).at("tasks").list(), "id"), made.text("id"))
	})
}

func TestSpecTaskCallbacks(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: builds the binary and runs processes")
	}
	p := newProcess(t, "tasks: {callback_secret: whsec_tasks}\n"+contentAgents())
	p.start()
	told := func(t *testing.T, requests <-chan heard, id, status string) {
		t.Helper()
		h := receive(t, requests)
		require.True(t, signedWith(h, "whsec_tasks"), h.signature)
		wanted := fields{"taskId": exactly(id), "status": exactly(status), "timestamp": moment}
		if status == "failed" {
			wanted["error"] = nonEmpty
		}
		require.NoError(t, object(wanted)(decode(t, h.body).v))
	}
	t.Run("each_state_is_told_signed", func(t *testing.T) {
		address, requests := listener(t, 0)
		id := p.newTask(t, "asking", "paint it", map[string]any{"callbackUrl": address + "/hook"}).text("id")
		told(t, requests, id, "waiting_for_input")
		p.comment(t, id, "blue").fits(201, anyObject)
		told(t, requests, id, "completed")
		failing := p.newTask(t, "open", "fail please", map[string]any{"callbackUrl": address + "/hook"}).text("id")
		told(t, requests, failing, "failed")
	})
	t.Run("refused_callback_is_repeated", func(t *testing.T) {
		address, requests := listener(t, 1)
		id := p.newTask(t, "open", "say x", map[string]any{"callbackUrl": address}).text("id")
		told(t, requests, id, "completed")
		told(t, requests, id, "completed")
	})
	t.Run("callback_to_a_forbidden_address_is_refused", func(t *testing.T) {
		strict := open(t) // which allows no address of its own network
		address, requests := listener(t, 0)
		for _, to := range []string{address, "http://10.0.0.1/", "http://169.254.169.254/latest", "http://localhost:1/"} {
			a := strict.ask(t, "POST", "/tasks", map[string]any{"agentId": "quick", "input": "x", "callbackUrl": to})
			a.refused(400, "VALIDATION_ERROR")
			require.Equal(t, "callbackUrl leads to an address that is not allowed", a.said())
		}
		require.Empty(t, requests)
	})
}

// TestSpecTaskRestart kills a process in the middle of tasks of every kind.
func TestSpecTaskRestart(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: builds the binary and runs processes")
	}
	p := newProcess(t, contentAgents())
	p.start()
	done := p.newTask(t, "open", "say done", nil).text("id")
	finished := p.becomes(t, done, "completed")
	waiting := p.newTask(t, "asking", "paint it", nil).text("id")
	p.becomes(t, waiting, "waiting_for_input")
	var running []string
	for n := range 3 {
		running = append(running, p.newTask(t, "steady", fmt.Sprint("go ", n), nil).text("id"))
		p.becomes(t, running[n], "running")
	}
	canceled := p.newTask(t, "slow", "go", nil).text("id")
	p.becomes(t, canceled, "running")
	p.ask(t, "POST", "/tasks/"+canceled+"/cancel", nil).fits(200, anyObject)
	fresh := p.newTask(t, "open", "say fresh", nil).text("id")
	id := p.newConversation(t, "open", "restart")
	file := p.upload(t, id, "a.bin", "application/octet-stream", randomBytes(700_000))
	turn := p.ask(t, "POST", "/conversations/"+id+"/messages", map[string]any{"message": "x", "fileIds": []string{file.text("id")}}).fits(200, anyObject)
	turn = p.about(t, id, turn.text("response", "id"), "regenerate", nil).fits(200, anyObject)
	p.about(t, id, turn.text("response", "id"), "feedback", `{"rating":"up"}`).fits(200, anyObject)
	turn = p.about(t, id, turn.text("message", "id"), "edit", `{"content":"y"}`).fits(200, anyObject)
	turn = p.about(t, id, turn.text("response", "id"), "regenerate", nil).fits(200, anyObject)
	p.about(t, id, turn.text("response", "id"), "feedback", `{"rating":"down","reasons":["other"]}`).fits(200, anyObject)
	before := p.ask(t, "GET", "/conversations/"+id, nil).fits(200, anyObject)
	p.kill()
	p.start()
	t.Run("content_reads_the_same_after_a_kill", func(t *testing.T) {
		require.Equal(t, before.v, p.ask(t, "GET", "/conversations/"+id, nil).fits(200, anyObject).v)
		require.Equal(t, file.v, p.ask(t, "GET", "/files/"+file.text("id"), nil).fits(200, anyObject).v)
		require.Equal(t, randomBytes(700_000), []byte(p.ask(t, "GET", "/files/"+file.text("id")+"/content", nil).text))
		p.about(t, id, turn.text("response", "id"), "regenerate", nil).fits(200, anyObject)
		p.ask(t, "DELETE", "/conversations/"+id, nil).empty(204)
		p.ask(t, "GET", "/files/"+file.text("id")+"/content", nil).refused(404, "NOT_FOUND")
	})
	t.Run("tasks_go_on_after_a_kill", func(t *testing.T) {
		require.Equal(t, finished.v, p.becomes(t, done, "completed").v)
		require.Equal(t, "fresh", p.becomes(t, fresh, "completed").text("result", "content"))
		p.becomes(t, canceled, "canceled")
		p.comment(t, waiting, "blue").fits(201, anyObject)
		require.Contains(t, p.becomes(t, waiting, "completed").text("result", "content"), "thank you")
		for _, id := range running {
			read := p.becomes(t, id, "completed")
			require.True(t, strings.HasSuffix(read.text("result", "content"), "w60"), read.text("result", "content"))
			require.Len(t, p.messages(t, read.text("task", "conversationId")), 2, "it ran once")
		}
	})
}
