package clientapi_test

import (
	"bufio"
	"bytes"
	"fmt"
	"mime/multipart"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/httpedge/clientapi"
)

// TestCallbacksGoNowherePrivate: where a callback leads is judged before anything is made for it.
func TestCallbacksGoNowherePrivate(t *testing.T) {
	k := serveSessions(t)
	refused := k.do("ann", "POST", "/agents/responses", `{"model":"helper","input":"ask me","background":true,"callback_url":"http://10.0.0.1/"}`)
	require.Equal(t, 400, refused.status, "%s", refused.raw)
	require.Equal(t, "callback_url leads to an address that is not allowed", k.decode(refused.raw)["error"])
	require.Empty(t, k.decode(k.do("ann", "GET", "/agents/sessions", "").raw)["data"])
}

// TestSecretsStayInside: what goes into a runtime context or signs a callback is in no answer and nowhere in clear.
func TestSecretsStayInside(t *testing.T) {
	k := serveSessions(t)
	var answers bytes.Buffer
	ask := func(method, path, body string, header ...string) *heard {
		got := k.do("ann", method, path, body, header...)
		answers.Write(got.raw)
		return got
	}
	made := ask("POST", "/agents/sessions", `{"agent":"helper","runtime_context":{"headers":{"X-Key":"hush-one"}}}`)
	id := k.decode(made.raw)["id"]
	run := ask("POST", "/agents/responses", fmt.Sprintf(`{"model":"helper","input":"ask me","session_id":%q,"background":true,`+
		`"callback_url":"https://example.com/?k=shy-five","callback_secret":"hush-two-hush-two","runtime_context":{"connections":{"tool:x":{"headers":{"K":"hush-three"}}}}}`, id),
		"X-Service-Hdr-Y", "hush-four")
	require.Equal(t, 202, run.status, "%s", run.raw)
	for _, path := range []string{
		"/agents/sessions", fmt.Sprintf("/agents/sessions/%s", id), fmt.Sprintf("/agents/sessions/%s/events", id),
		fmt.Sprintf("/agents/sessions/%s/messages", id), fmt.Sprintf("/agents/runs/%s", k.decode(run.raw)["id"]),
	} {
		require.Equal(t, 200, ask("GET", path, "").status)
	}
	require.NotContains(t, answers.String(), "hush")
	require.NotContains(t, answers.String(), "shy-five", "the query of a callback")
	k.host.mu.Lock()
	defer k.host.mu.Unlock()
	for _, command := range k.host.commands {
		require.NotContains(t, command.String(), "hush")
	}
	for _, reply := range k.host.runs {
		require.NotContains(t, reply.String(), "hush")
	}
}

// TestWaitOutlastsADecision: a run whose rules have not heard yet that a person has acted is waited for on.
func TestWaitOutlastsADecision(t *testing.T) {
	k := serveSessions(t)
	run := k.decode(k.do("ann", "POST", "/agents/responses", `{"model":"helper","input":"hang on","background":true}`).raw)
	k.host.mu.Lock()
	k.host.unheard = 2
	k.host.mu.Unlock()
	var waiting sync.WaitGroup
	var waited *heard
	waiting.Go(func() {
		waited = k.do("ann", "GET", fmt.Sprintf("/agents/runs/%s/wait?timeout_ms=60000", run["id"]), "")
	})
	require.Eventually(t, func() bool {
		k.host.mu.Lock()
		defer k.host.mu.Unlock()
		return k.host.unheard == 0
	}, 30*time.Second, time.Millisecond)
	k.host.finish(fmt.Sprint(run["session_id"]))
	waiting.Wait()
	require.Equal(t, "succeeded", k.decode(waited.raw)["status"], "%s", waited.raw)
}

// TestCancelWhileAnswering: whoever waits for the answer is told that the turn was cancelled.
func TestCancelWhileAnswering(t *testing.T) {
	k := serveSessions(t)
	id := k.decode(k.do("ann", "POST", "/agents/sessions", `{"agent":"helper"}`).raw)["id"]
	var waiting sync.WaitGroup
	var response *heard
	waiting.Go(func() {
		response = k.do("ann", "POST", "/agents/responses", fmt.Sprintf(`{"model":"helper","input":"hang on","session_id":%q}`, id))
	})
	path := fmt.Sprintf("/agents/sessions/%s", id)
	require.Eventually(t, func() bool {
		return k.decode(k.do("ann", "GET", path, "").raw)["runtime_status"] == "running"
	}, 30*time.Second, 5*time.Millisecond)
	busy := k.do("ann", "POST", "/agents/responses", fmt.Sprintf(`{"model":"helper","input":"more","session_id":%q}`, id))
	require.Equal(t, 409, busy.status)
	require.Equal(t, "agent_run_conflict", k.decode(busy.raw)["code"])
	require.Equal(t, 409, k.do("ann", "DELETE", path, "").status, "a turn runs")
	budget := k.do("ann", "PATCH", path, `{"budget":{"max_cost_usd":1}}`)
	require.Equal(t, 200, budget.status, "%s", budget.raw)
	cancelled := k.do("ann", "POST", path+"/cancel", "")
	require.Equal(t, 200, cancelled.status, "%s", cancelled.raw)
	require.Equal(t, true, k.decode(cancelled.raw)["settled"])
	waiting.Wait()
	require.Equal(t, 200, response.status)
	require.Equal(t, "cancelled", k.decode(response.raw)["status"])
}

func TestEventStream(t *testing.T) {
	k := serveSessions(t)
	made := k.do("ann", "POST", "/agents/responses", `{"model":"helper","input":"Hello"}`)
	path := fmt.Sprintf("/agents/sessions/%s/events/stream", k.decode(made.raw)["session_id"])
	require.Equal(t, 404, k.do("bob", "GET", path, "").status)
	require.Equal(t, 400, k.do("ann", "GET", path+"?after=x", "").status)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, k.url+path+"?types=user.message,agent.message", http.NoBody)
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer ann")
	request.Header.Set("Last-Event-ID", "1")
	response, err := k.client.Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	require.Equal(t, "text/event-stream", response.Header.Get("Content-Type"))
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			event := k.decode([]byte(data))
			require.Equal(t, "agent.message", event["type"], "the user's message was seen already")
			return
		}
	}
	t.Fatal("the stream ended")
}

func TestUploadByForm(t *testing.T) {
	k := serveSessions(t)
	id := k.decode(k.do("ann", "POST", "/agents/sessions", `{"agent":"helper"}`).raw)["id"]
	var form bytes.Buffer
	writer := multipart.NewWriter(&form)
	require.NoError(t, writer.WriteField("purpose", "assistants"))
	part, err := writer.CreateFormFile("file", "notes.txt")
	require.NoError(t, err)
	_, err = part.Write([]byte("a few words"))
	require.NoError(t, err)
	require.NoError(t, writer.Close())
	path := fmt.Sprintf("/agents/sessions/%s/files", id)
	stored := k.do("ann", "POST", path, form.String(), "Content-Type", writer.FormDataContentType())
	require.Equal(t, 201, stored.status, "%s", stored.raw)
	file := k.decode(stored.raw)
	require.Equal(t, "notes.txt", file["name"])
	require.InDelta(t, 11, file["size"], 0)
	got := k.do("ann", "GET", fmt.Sprintf("%s/%s/content", path, file["id"]), "")
	require.Equal(t, "a few words", string(got.raw))
	part1 := k.do("ann", "GET", fmt.Sprintf("%s/%s/content", path, file["id"]), "", "Range", "bytes=2-4")
	require.Equal(t, 206, part1.status)
	require.Equal(t, "few", string(part1.raw))
	cut := k.do("ann", "POST", path, form.String()[:form.Len()-20], "Content-Type", writer.FormDataContentType())
	require.Equal(t, 400, cut.status, "a form without its end: %s", cut.raw)
}

// TestFormsOfTwoFiles: the second one is not left out in silence.
func TestFormsOfTwoFiles(t *testing.T) {
	k := serveSessions(t)
	id := k.decode(k.do("ann", "POST", "/agents/sessions", `{"agent":"helper"}`).raw)["id"]
	path := fmt.Sprintf("/agents/sessions/%s/files", id)
	for _, size := range []int{1, 60} {
		var form bytes.Buffer
		writer := multipart.NewWriter(&form)
		send := func() *heard {
			return k.do("ann", "POST", path, form.String(), "Content-Type", writer.FormDataContentType())
		}
		for _, name := range []string{"a.txt", "b.txt"} {
			part, err := writer.CreateFormFile("file", name)
			require.NoError(t, err)
			_, err = part.Write(bytes.Repeat([]byte("a"), size))
			require.NoError(t, err)
			require.NoError(t, writer.WriteField("purpose", "assistants"))
			require.Equal(t, 400, send().status, "a form without its end")
		}
		require.NoError(t, writer.Close())
		got := send()
		require.Equal(t, 400, got.status, "%s", got.raw)
		require.Equal(t, "the form has more than one file: send each by itself", k.decode(got.raw)["error"])
	}
	require.Empty(t, k.decode(k.do("ann", "GET", path, "").raw)["data"])
	form := "--x\r\nContent-Disposition: form-data; name=f; filename=a\r\n\r\nhi\r\n--x\r\nContent-Disposition: form-data; name=purpose\r\n\r\n1\r\n--x--"
	require.Equal(t, 201, k.do("ann", "POST", path, form, "Content-Type", "multipart/form-data; boundary=x").status)
}

// TestFileNamesAreNotWords: a file is told by its own name, whatever fields of ours it is named after.
func TestFileNamesAreNotWords(t *testing.T) {
	const name = "the conversation fileId onReach.txt"
	k := serveSessions(t)
	id := k.decode(k.do("ann", "POST", "/agents/sessions", `{"agent":"helper"}`).raw)["id"]
	path := fmt.Sprintf("/agents/sessions/%s/files", id)
	for content, want := range map[string]string{
		"":                       `file "` + name + `" is empty`,
		strings.Repeat("x", 100): `file "` + name + `" is larger than 64 bytes`,
	} {
		var form bytes.Buffer
		writer := multipart.NewWriter(&form)
		part, err := writer.CreateFormFile("file", name)
		require.NoError(t, err)
		_, err = part.Write([]byte(content))
		require.NoError(t, err)
		require.NoError(t, writer.Close())
		got := k.do("ann", "POST", path, form.String(), "Content-Type", writer.FormDataContentType())
		require.Equal(t, 400, got.status, "%s", got.raw)
		require.Equal(t, want, k.decode(got.raw)["error"])
	}
}

// TestPagesDoNotShift: whatever is made while somebody pages, each session that was there is read once.
func TestPagesDoNotShift(t *testing.T) {
	k := serveSessions(t)
	want := map[string]bool{}
	for range 7 {
		id, _ := k.decode(k.do("ann", "POST", "/agents/sessions", `{"agent":"plain"}`).raw)["id"].(string)
		want[id] = true
	}
	seen := map[string]bool{}
	for after := ""; ; {
		page := k.decode(k.do("ann", "GET", "/agents/sessions?limit=2&after="+after, "").raw)
		rows, _ := page["data"].([]any)
		for _, row := range rows {
			row, _ := row.(map[string]any)
			id, _ := row["id"].(string)
			require.True(t, want[id] && !seen[id], id)
			seen[id] = true
		}
		k.do("ann", "POST", "/agents/sessions", `{"agent":"plain"}`)
		more, _ := page["has_more"].(bool)
		if after, _ = page["next_cursor"].(string); !more {
			require.Empty(t, after)
			break
		}
	}
	require.Equal(t, want, seen)
}

// TestResolveWithUnknownFields: what a decision says and nobody understands is not left out.
func TestResolveWithUnknownFields(t *testing.T) {
	k := serveSessions(t)
	id := fmt.Sprint(k.decode(k.do("ann", "POST", "/agents/sessions", `{"agent":"helper"}`).raw)["id"])
	for _, name := range []string{"args", "approvedArgs"} {
		got := k.do("ann", "POST", "/agents/sessions/"+id+"/actions/act_1",
			`{"resolution":{"type":"tool_approval","decision":"allow","`+name+`":{"n":1}}}`)
		require.Equal(t, 400, got.status, "%s", got.raw)
		require.Equal(t, map[string]any{"error": `resolution has no field "` + name + `"`, "code": "invalid_request"}, k.decode(got.raw))
	}
}

// TestForeignIDs: what is another project's, another user's or nobody's is not there, whatever is asked of it.
func TestForeignIDs(t *testing.T) {
	k := serveSessions(t)
	run := k.decode(k.do("ann", "POST", "/agents/responses", `{"model":"helper","input":"ask me","background":true}`).raw)
	fill := strings.NewReplacer("{id}", fmt.Sprint(run["session_id"]), "{runId}", fmt.Sprint(run["id"]), "{fileId}", "file_1", "{actionId}", "act_1")
	asked := 0
	for _, route := range clientapi.New(clientapi.DefaultConfig(), clientapi.Parts{}).Surface().Routes {
		ours := strings.HasPrefix(route.Path, "/agents/sessions/{id}") || strings.HasPrefix(route.Path, "/agents/runs/{runId}")
		if !ours {
			continue
		}
		asked++
		body := `{"budget":null,"resolution":{"type":"user_question","cancelled":true},"file":{"name":"a.txt","content":"aGk="}}`
		if route.Method == "GET" {
			body = ""
		}
		for _, user := range []string{"bob", "ann@q", "boss@q"} {
			got := k.do(user, route.Method, fill.Replace(route.Path), body)
			require.Equal(t, 404, got.status, "%s %s as %s: %s", route.Method, route.Path, user, got.raw)
			code := k.decode(got.raw)["code"]
			require.True(t, code == "session_not_found" || code == "run_not_found", code)
		}
		require.Equal(t, 401, k.do("", route.Method, fill.Replace(route.Path), body).status)
	}
	require.Equal(t, 15, asked)
}

// TestTalksAreSessions: a conversation of the conversation server is a session, too; a task's is not.
func TestTalksAreSessions(t *testing.T) {
	k := serveSessions(t)
	talk := k.decode(k.do("ann", "GET", "/agents/sessions/"+k.talkOf("ann", "conversation"), "").raw)
	require.Equal(t, map[string]any{"a": "x"}, talk["metadata"], "pairs of texts only")
	require.Equal(t, 404, k.do("ann", "GET", "/agents/sessions/"+k.talkOf("ann", "task"), "").status)
	require.Equal(t, 404, k.do("boss", "GET", "/agents/sessions/"+k.talkOf("bob", "task"), "").status)
}
