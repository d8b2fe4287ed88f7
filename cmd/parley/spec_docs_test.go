package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// documented is a route as the document must show it.
type documented struct {
	operation  string
	parameters string // "in name" of each, in order
	statuses   string // besides 500 and 503, which any route may answer
}

func documentedRoutes() map[string]documented {
	const (
		list = ", query limit, query offset, query order"
		ours = ", header X-Read-Consistency" // not of document 2
	)
	return map[string]documented{
		"GET /agents":                           {"listAgents", "", "200"},
		"GET /agents/{agentId}":                 {"getAgent", "path agentId", "200 400 404"},
		"GET /conversations":                    {"listConversations", "query agentId, query userId, query limit, query offset, query orderBy, query order, query pinned" + ours, "200 400 401"},
		"POST /conversations":                   {"createConversation", "header Idempotency-Key", "201 400 403 404 409 413"},
		"GET /conversations/{id}":               {"getConversation", "path id, query limit, query before, query after, query order" + ours, "200 400 403 404"},
		"PATCH /conversations/{id}":             {"updateConversation", "path id", "200 400 403 404 413"},
		"DELETE /conversations/{id}":            {"deleteConversation", "path id", "204 400 403 404"},
		"POST /conversations/bulk-delete":       {"bulkDeleteConversations", "", "200 400 413"},
		"GET /conversations/{id}/messages":      {"listMessages", "path id" + list + ours, "200 400 403 404"},
		"POST /conversations/{id}/messages":     {"sendMessage", "path id, header Idempotency-Key", "200 202 400 402 403 404 409 413 415"},
		"POST /conversations/{id}/cancel":       {"cancelTurn", "path id, query runId", "200 202 400 403 404"},
		"GET /conversations/{id}/events":        {"listEvents", "path id, query after, query types, query limit" + ours, "200 400 403 404"},
		"GET /conversations/{id}/events/stream": {"streamEvents", "path id, query after, query types, header Last-Event-ID", "200 400 403 404"},
		"GET /docs/openapi.json":                {"getOpenAPI", "", "200"},

		"POST /conversations/{id}/messages/{messageId}/regenerate": {"regenerateAnswer", "path id, path messageId, header Idempotency-Key", "200 400 402 403 404 409 413"},
		"POST /conversations/{id}/messages/{messageId}/edit":       {"editMessage", "path id, path messageId, header Idempotency-Key", "200 400 402 403 404 409 413 415"},
		"POST /conversations/{id}/messages/{messageId}/feedback":   {"rateMessage", "path id, path messageId", "200 400 403 404 409 413"},
		"POST /conversations/{id}/actions/{actionId}":              {"resolveAction", "path id, path actionId, header Idempotency-Key", "200 202 400 403 404 409 410 413"},
		"POST /conversations/{id}/continue":                        {"continueTurn", "path id, header Idempotency-Key", "200 202 400 402 403 404 409 413"},
		"GET /conversations/{id}/remembered-tools":                 {"listRememberedTools", "path id" + ours, "200 400 403 404"},
		"DELETE /conversations/{id}/remembered-tools/{tool}":       {"forgetTool", "path id, path tool", "200 400 403 404"},
		"GET /conversations/{id}/export":                           {"exportConversation", "path id, query format, query tools, query locale, query print, query disposition", "200 400 403 404 501"},
		"GET /conversations/{id}/files":                            {"listFiles", "path id" + ours, "200 400 403 404"},

		"POST /files":                   {"uploadFile", "query name, query conversationId, query mimeType", "201 400 403 404 409 413 415"},
		"GET /files/{fileId}":           {"getFile", "path fileId", "200 400 403 404"},
		"GET /files/{fileId}/content":   {"downloadFile", "path fileId", "200 206 304 400 403 404 416"},
		"DELETE /files/{fileId}":        {"deleteFile", "path fileId", "200 400 403 404"},
		"POST /tasks":                   {"createTask", "header Idempotency-Key", "201 400 403 404 409 413 415"},
		"GET /tasks":                    {"listTasks", "query agentId, query userId, query status, query limit, query offset", "200 400"},
		"GET /tasks/{taskId}":           {"getTask", "path taskId", "200 400 403 404"},
		"GET /tasks/{taskId}/status":    {"getTaskStatus", "path taskId", "200 400 403 404"},
		"GET /tasks/{taskId}/result":    {"getTaskResult", "path taskId", "200 400 403 404"},
		"GET /tasks/{taskId}/comments":  {"getTaskComments", "path taskId", "200 400 403 404"},
		"POST /tasks/{taskId}/comments": {"addTaskComment", "path taskId, header Idempotency-Key", "201 400 403 404 409 413"},
		"POST /tasks/{taskId}/cancel":   {"cancelTask", "path taskId", "200 400 403 404"},
	}
}

// openAPI returns the document of a process.
func openAPI(t *testing.T, p *process, headers ...string) tree {
	t.Helper()
	a := p.ask(t, "GET", "/docs/openapi.json", nil, headers...)
	require.Equal(t, 200, a.status, a.text)
	require.Equal(t, "application/json", a.header.Get("Content-Type"))
	return decode(t, a.text)
}

func TestSpecDocument(t *testing.T) {
	t.Parallel()
	document := openAPI(t, open(t))
	t.Run("header_of_the_document", func(t *testing.T) {
		require.Equal(t, "3.0.3", document.text("openapi"))
		require.NotEmpty(t, document.text("info", "title"))
		require.Equal(t, "1.0.0", document.text("info", "version"))
		require.NoError(t, exactly([]map[string]string{{"url": "/api/agents"}})(document.at("servers").v))
		require.Equal(t, []string{"Agents", "Conversations", "Messages", "Actions", "Events", "Files", "Tasks", "Docs"}, texts(document.at("tags").list(), "name"))
		require.Empty(t, document.at("security").list(), "nobody authenticates here")
		require.Nil(t, document.at("components", "securitySchemes").v)
	})
	t.Run("every_route_is_there_and_no_other", func(t *testing.T) {
		wanted := documentedRoutes()
		paths, _ := document.at("paths").v.(map[string]any) // nil has no members
		for path, methods := range paths {
			item, _ := methods.(map[string]any) // nil has no members
			for method := range item {
				name := strings.ToUpper(method) + " " + path
				want, ok := wanted[name]
				require.Truef(t, ok, "%s is not a route of document 2", name)
				delete(wanted, name)
				isDocumented(t, tree{t, item[method]}, name, want)
			}
		}
		require.Empty(t, wanted, "routes without a place in the document")
	})
	t.Run("references_lead_somewhere", func(t *testing.T) {
		seen := 0
		walk(document.v, func(members map[string]any) {
			if reference, ok := members["$ref"].(string); ok {
				seen++
				require.NotNil(t, document.at(strings.Split(strings.TrimPrefix(reference, "#/"), "/")...).v, reference)
				require.Lenf(t, members, 1, "%s: nothing may stand beside a reference in 3.0", reference)
			}
		})
		require.Greater(t, seen, 30)
	})
	t.Run("errors_have_the_error_body", func(t *testing.T) {
		require.NoError(t, exactly([]string{"error", "code", "message"})(document.at("components", "schemas", "Error", "required").v))
		require.NoError(t, object(fields{"error": anyObject, "code": anyObject, "message": anyObject, "details": anyObject})(
			document.at("components", "schemas", "Error", "properties").v))
	})
	t.Run("schemas_name_the_fields_that_are_served", func(t *testing.T) { schemasNameTheFields(t, document) })
	t.Run("limits_are_the_configured_ones", func(t *testing.T) {
		for path, want := range map[string][2]int{
			"/conversations": {20, 100}, "/conversations/{id}": {100, 200}, "/conversations/{id}/messages": {100, 200}, "/conversations/{id}/events": {100, 1000},
		} {
			for _, parameter := range document.at("paths", path, "get", "parameters").list() {
				if parameter.text("name") == "limit" {
					require.InDelta(t, want[0], parameter.number("schema", "default"), 0, path)
					require.InDelta(t, want[1], parameter.number("schema", "maximum"), 0, path)
				}
			}
		}
	})
}

func isDocumented(t *testing.T, operation tree, name string, want documented) {
	t.Helper()
	require.Equal(t, want.operation, operation.text("operationId"), name)
	require.NotEmpty(t, operation.text("summary"), name)
	require.Len(t, operation.at("tags").list(), 1, name)
	var parameters []string
	if operation.at("parameters").v != nil {
		for _, parameter := range operation.at("parameters").list() {
			parameters = append(parameters, parameter.text("in")+" "+parameter.text("name"))
			require.NotEmpty(t, parameter.text("schema", "type"), name)
			if parameter.text("in") == "path" {
				require.True(t, parameter.flag("required"), name)
			}
		}
	}
	require.Equal(t, want.parameters, strings.Join(parameters, ", "), name)
	var statuses []string
	responses, _ := operation.at("responses").v.(map[string]any) // nil has no members
	for status := range responses {
		response := operation.at("responses", status)
		require.NotEmpty(t, response.text("description"), name)
		if status >= "400" {
			require.Equal(t, "#/components/schemas/Error", response.text("content", "application/json", "schema", "$ref"), name)
		}
		if status != "500" && status != "503" {
			statuses = append(statuses, status)
		}
	}
	slices.Sort(statuses)
	require.Equal(t, want.statuses, strings.Join(statuses, " "), name)
	require.Contains(t, responses, "500", name)
	require.Contains(t, responses, "503", name)
	if strings.Contains(want.statuses, "413") {
		require.NotNil(t, operation.at("requestBody", "content", "application/json", "schema", "properties").v, name)
	}
	if strings.HasSuffix(name, "/stream") || slices.Contains([]string{"sendMessage", "regenerateAnswer", "editMessage", "resolveAction", "continueTurn"}, want.operation) {
		require.NotNil(t, operation.at("responses", "200", "content", "text/event-stream").v, name)
	}
}

// walk visits every object of a document.
func walk(value any, visit func(map[string]any)) {
	switch v := value.(type) {
	case map[string]any:
		visit(v)
		for _, inside := range v {
			walk(inside, visit)
		}
	case []any:
		for _, inside := range v {
			walk(inside, visit)
		}
	}
}

// schemasNameTheFields compares what the document promises with what is served.
func schemasNameTheFields(t *testing.T, document tree) {
	t.Helper()
	p := open(t)
	id := p.ask(t, "POST", "/conversations", `{"agentId":"priced","userId":"docs","title":"t","budget":{"maxCostUsd":1}}`).
		fits(201, anyObject).text("conversation", "id")
	turn := p.say(t, id, "hello")
	read := p.ask(t, "GET", "/conversations/"+id, nil).fits(200, anyObject)
	c := content(t)
	talk := c.newConversation(t, "open", "docs")
	file := c.upload(t, talk, "a.txt", "text/plain", []byte("x"))
	answer := c.ask(t, "POST", "/conversations/"+talk+"/messages", map[string]any{"message": "x", "fileIds": []string{file.text("id")}}).fits(200, anyObject)
	rated := c.about(t, talk, answer.text("response", "id"), "feedback", `{"rating":"up","comment":"x"}`).fits(200, anyObject)
	answer = c.about(t, talk, answer.text("response", "id"), "regenerate", nil).fits(200, anyObject)
	answer = c.about(t, talk, answer.text("message", "id"), "edit", `{"content":"y"}`).fits(200, anyObject)
	asked := c.newTask(t, "asking", "docs", map[string]any{"userId": "docs"}).text("id")
	waiting := c.becomes(t, asked, "waiting_for_input")
	used := c.say(t, c.newConversation(t, "handy", "docs"), "x").at("response")
	said := p.ask(t, "GET", "/conversations/"+id+"/events?types=user.message", nil).fits(200, anyObject).at("events").list()[0]
	pending := c.messages(t, waiting.text("task", "conversationId"))[1].at("metadata", "pendingActions")
	for name, served := range map[string]tree{
		"File": file, "FeedbackResult": rated, "Feedback": rated.at("feedback"), "FileRef": answer.at("message", "files").list()[0],
		"MessageMetadata": answer.at("message", "metadata"), "Task": waiting.at("task"), "TaskComment": waiting.at("task", "comments").list()[0],
		"TaskResult": waiting.at("result"), "TaskStatus": c.ask(t, "GET", "/tasks/"+asked+"/status", nil).fits(200, anyObject),
		"ToolCall": used.at("toolCalls").list()[0], "ToolCallDetail": used.at("metadata", "toolCallDetails").list()[0], "PendingAction": pending.list()[0],
		"Conversation": read.at("conversation"), "Runtime": read.at("conversation", "runtime"), "Budget": read.at("conversation", "budget"),
		"MessagesPage": read.at("messagesPage"), "Message": turn.at("response"), "TurnResult": turn, "Usage": turn.at("usage"),
		"Agent":            p.ask(t, "GET", "/agents/full", nil).fits(200, anyObject),
		"UserMessageEvent": said, "UserMessageData": said.at("data"),
	} {
		schema := document.at("components", "schemas", name)
		members, _ := served.v.(map[string]any) // nil has no members
		require.NotEmpty(t, members, name)
		for member := range members {
			require.NotNilf(t, schema.at("properties", member).v, "%s.%s is served and not in the document", name, member)
		}
		if schema.at("required").v == nil {
			continue
		}
		for _, required := range schema.at("required").list() {
			require.Containsf(t, members, required.v, "%s: promised and not served", name)
		}
	}
}

func TestSpecDocs(t *testing.T) {
	t.Parallel()
	p := open(t)
	page := p.ask(t, "GET", "/docs", nil)
	t.Run("docs_page_is_html", func(t *testing.T) {
		require.Equal(t, 200, page.status)
		require.Equal(t, "text/html; charset=utf-8", page.header.Get("Content-Type"))
		require.Contains(t, page.header.Get("Content-Security-Policy"), "default-src 'none'")
	})
	t.Run("docs_page_needs_no_network", func(t *testing.T) {
		assets := regexp.MustCompile(`(?:src|href)="([^"]+)"`).FindAllStringSubmatch(page.text, -1)
		require.NotEmpty(t, assets)
		for _, asset := range assets {
			require.NotContains(t, asset[1], "//", "another host")
			a := p.ask(t, "GET", "/"+asset[1], nil)
			require.Equal(t, 200, a.status, asset[1])
			require.NotEmpty(t, a.text, asset[1])
		}
		require.Contains(t, p.ask(t, "GET", "/docs/swagger-initializer.js", nil).text, "docs/openapi.json")
	})
	t.Run("docs_are_revalidated", func(t *testing.T) {
		for _, path := range []string{"/docs", "/docs/openapi.json", "/docs/swagger-ui-bundle.js"} {
			tag := p.ask(t, "GET", path, nil).header.Get("Etag")
			require.NotEmpty(t, tag, path)
			p.ask(t, "GET", path, nil, "If-None-Match", tag).empty(304)
		}
	})
	t.Run("unknown_docs_file_is_404", func(t *testing.T) {
		for _, file := range []string{"nothing.js", "index.html", "..%2F..%2Fgo.mod", "%2e%2e", "a/b.js"} {
			p.ask(t, "GET", "/docs/"+file, nil).refused(404, "NOT_FOUND")
		}
	})
}
