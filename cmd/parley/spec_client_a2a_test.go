package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// otherAgents makes agents of a tenant with the scripted provider that others reach over A2A, by what they do: answer at once, slowly, after a question, not at all.
func otherAgents(t *testing.T, n *tenant) map[string]string {
	t.Helper()
	made := map[string]string{"nobody": "no-such-agent"}
	ask := `{"questions":[{"question":"Where to?","options":[{"label":"Rome"},{"label":"Oslo"}]}]}`
	for name, script := range map[string]object1{
		"quick":  {"text": "one two three"},
		"slow":   {"tokens": 40, "tokenIntervalMs": 25},
		"asking": {"steps": []any{object1{"toolCalls": []any{object1{"name": "ask_user", "arguments": ask}}}, object1{"text": "Off we go"}}},
		"broken": {"steps": []any{object1{"errorCode": "invalid_request", "errorMessage": "the model broke"}}},
	} {
		model := n.done(t, "POST", "/models", object1{
			"name": "a2a " + name, "providerKey": "scripted", "category": "llm", "modelId": "m", "pricing": object1{}, "settings": object1{"script": script},
		}).text("model", "key")
		made[name] = n.newAgent(t, object1{
			"name": "a2a " + name, "config": object1{"modelKey": model, "askUser": true}, "metadata": object1{"a2a": object1{"enabled": true}},
		})
	}
	return made
}

// clientsOfA2A runs the official clients, unchanged: for Node.js of protocol 0.3 and 1.0, and for Go. One after the other: what asks
// to run beside others gets its turn after every test of the package that asked before.
func clientsOfA2A(t *testing.T, h apiCaller, agents map[string]string) {
	t.Helper()
	t.Run("node", func(t *testing.T) {
		var names []string
		for _, version := range []string{"v03", "v10"} {
			for _, name := range []string{"message", "stream", "subscribe", "question", "cancel", "errors", "two_at_once", "push"} {
				names = append(names, version+"_"+name)
			}
		}
		runCases(t, filepath.Join("testdata", "a2a"), []string{nodeWith(t, "a2a", "a2a-v03"), "clients.mjs"}, h, agents, names)
	})
	t.Run("go", func(t *testing.T) {
		client, err := goClient()
		require.NoError(t, err)
		runCases(t, ".", []string{client}, h, agents, []string{"go_message", "go_stream", "go_question", "go_refused", "go_push"})
	})
}

// goClient is the official Go client of A2A, behind the commands that runCases gives.
var goClient = sync.OnceValues(func() (string, error) { // built once, by whoever needs it first
	return built("a2a-client", func(binary string) ([]byte, error) {
		build := exec.CommandContext(context.Background(), "go", "build", "-trimpath", "-o", binary, ".")
		build.Dir = filepath.Join("testdata", "a2ago")
		build.Env = append(os.Environ(), "GOFLAGS=-mod=readonly", "GOWORK=off")
		return build.CombinedOutput()
	})
})

// TestClientA2A holds a process against the official clients of A2A and against what they do not do.
func TestClientA2A(t *testing.T) {
	t.Parallel()
	h := house(t)
	n := newTenant(t, h.p, "ON_PREMISE")
	n.scripted(t)
	agents := otherAgents(t, n)
	call := func(t *testing.T, method string, params object1, headers ...string) answer {
		t.Helper()
		return n.ask(t, "POST", "/a2a/"+agents["slow"], object1{"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, headers...)
	}
	said := func(text string) object1 { return object1{"message": object1{"parts": []any{object1{"text": text}}}} }
	t.Run("clients", func(t *testing.T) { clientsOfA2A(t, n.apiCaller, agents) })
	t.Run("a_client_that_leaves_takes_nothing_with_it", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, n.url("/a2a/"+agents["slow"]),
			strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"message/stream","params":{"message":{"parts":[{"text":"hi"}]}}}`))
		require.NoError(t, err)
		request.Header.Set("Authorization", "Bearer "+n.token)
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		first := make([]byte, 1024)
		read, err := response.Body.Read(first)
		require.NoError(t, err)
		cancel()
		_ = response.Body.Close()
		_, after, found := strings.Cut(string(first[:read]), `"id":"task_`)
		require.True(t, found, "%s", first[:read])
		id, _, _ := strings.Cut(after, `"`)
		require.Eventually(t, func() bool {
			return decode(t, call(t, "tasks/get", object1{"id": "task_" + id}).text).text("result", "status", "state") == "completed"
		}, waitLong, waitStep)
	})
	t.Run("too_large_and_too_deep", func(t *testing.T) {
		deep := strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000)
		a := n.ask(t, "POST", "/a2a/"+agents["slow"], `{"jsonrpc":"2.0","id":1,"method":"message/send","params":`+deep+`}`, "Content-Type", "application/json")
		require.Equal(t, 200, a.status)
		require.Contains(t, a.text, `"code":-32600`)
		require.Equal(t, http.StatusRequestEntityTooLarge, call(t, "message/send", said(strings.Repeat("x", 11<<20))).status)
		a = call(t, "message/send", said(strings.Repeat("x", 300<<10)))
		require.Equal(t, 200, a.status)
		require.Contains(t, a.text, `"code":-32602`)
	})
	t.Run("push_notifications", func(t *testing.T) { a2aPushes(t, n, agents) })
	t.Run("exposure_counts_at_once", func(t *testing.T) {
		path := "/a2a/" + agents["quick"] + "/.well-known/agent-card.json"
		n.done(t, "PATCH", "/agents/"+agents["quick"], object1{"metadata": object1{"a2a": object1{"enabled": false}}})
		missing := n.ask(t, "GET", "/a2a/nothing/.well-known/agent-card.json", nil)
		hidden := n.ask(t, "GET", path, nil)
		require.Equal(t, [2]any{404, missing.text}, [2]any{hidden.status, hidden.text})
		n.done(t, "PATCH", "/agents/"+agents["quick"], object1{"metadata": object1{"a2a": object1{"enabled": true}}, "status": "inactive"})
		require.Equal(t, 400, n.ask(t, "GET", path, nil).status)
		n.done(t, "PATCH", "/agents/"+agents["quick"], object1{"status": "active"})
		n.done(t, "POST", "/agents/"+agents["quick"]+"/publish", nil)
		card := n.ask(t, "GET", path, nil, "X-Forwarded-Proto", "https")
		require.Equal(t, 200, card.status)
		require.Contains(t, card.text, `"version":"1"`)
		require.Contains(t, card.text, fmt.Sprintf(`"url":"https://%s/api/client/v1/a2a/%s"`, h.p.listen, agents["quick"]))
	})
}

// a2aPushes is what the official clients do not do with push notifications.
func a2aPushes(t *testing.T, n *tenant, agents map[string]string) {
	t.Helper()
	r := newReceiver(t)
	call := func(t *testing.T, agent, method string, params object1) answer {
		t.Helper()
		a := n.ask(t, "POST", "/a2a/"+agents[agent], object1{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
		require.Equal(t, 200, a.status, a.text)
		return a
	}
	refused := func(t *testing.T, a answer, code int, words string) {
		t.Helper()
		require.Contains(t, a.text, fmt.Sprintf(`"code":%d`, code))
		require.Contains(t, a.text, words)
	}
	send := func(text string, push object1) object1 {
		return object1{"message": object1{"parts": []any{object1{"text": text}}}, "configuration": object1{"blocking": false, "pushNotificationConfig": push}}
	}
	to := func(path string) object1 {
		return object1{"url": r.URL + path, "token": "the-token", "authentication": object1{"schemes": []string{"Basic", "Bearer"}, "credentials": "the-proof"}}
	}
	t.Run("tried_again_until_it_is_taken", func(t *testing.T) {
		r.answers("/flaky", func(w http.ResponseWriter, nth int) {
			if nth == 1 {
				w.WriteHeader(http.StatusInternalServerError)
			}
		})
		task := decode(t, call(t, "quick", "message/send", send("hi", to("/flaky?key=hidden"))).text).at("result")
		posts := r.got(t, "/flaky", 2)
		require.Equal(t, posts[0].header.Get("X-Service-Event-Id"), posts[1].header.Get("X-Service-Event-Id"))
		require.Equal(t, posts[0].body, posts[1].body)
		require.Equal(t, []string{"the-token", "Basic the-proof"}, []string{posts[1].header.Get("X-A2A-Notification-Token"), posts[1].header.Get("Authorization")})
		told := decode(t, posts[1].body)
		require.Equal(t, []string{"task", task.text("id"), "completed"}, []string{told.text("kind"), told.text("id"), told.text("status", "state")})
		require.Equal(t, call(t, "quick", "tasks/get", object1{"id": task.text("id")}).text, `{"jsonrpc":"2.0","id":1,"result":`+posts[1].body+`}`)
		require.Eventually(t, func() bool { // told, it is forgotten
			return call(t, "quick", "tasks/pushNotificationConfig/list", object1{"id": task.text("id")}).text == `{"jsonrpc":"2.0","id":1,"result":[]}`
		}, waitLong, waitStep)
	})
	t.Run("redirects_are_not_followed", func(t *testing.T) {
		r.answers("/away", func(w http.ResponseWriter, nth int) {
			if nth == 1 {
				w.Header().Set("Location", r.URL+"/elsewhere")
				w.WriteHeader(http.StatusTemporaryRedirect)
			}
		})
		call(t, "quick", "message/send", send("hi", to("/away")))
		r.got(t, "/away", 2)
		require.Empty(t, r.posts("/elsewhere"))
	})
	t.Run("what_cannot_be_told_is_refused", func(t *testing.T) {
		for _, c := range []struct {
			push  object1
			words string
		}{
			{object1{"url": "http://10.0.0.1/x"}, "leads to an address that is not allowed"},
			{object1{"url": "http://169.254.169.254/"}, "leads to an address that is not allowed"},
			{object1{"url": "ftp://127.0.0.1/"}, "url must be"},
			{object1{"url": "https://me:secret@127.0.0.1/"}, "url must be"},
			{object1{"token": "x"}, "url must be"},
			{object1{"url": r.URL, "token": "a\r\nX-Other: b"}, "token must be"},
			{object1{"url": r.URL, "token": strings.Repeat("x", 30<<10)}, "token must be"},
			{object1{"url": r.URL, "id": strings.Repeat("x", 129)}, "id must be"},
			{object1{"url": r.URL, "authentication": object1{"schemes": []string{"Bearer"}}}, "needs a scheme and the credentials"},
			{object1{"url": r.URL, "authentication": object1{"schemes": []string{"Bear er"}, "credentials": "x"}}, "must be the name of one"},
		} {
			refused(t, call(t, "quick", "message/send", send("hi", c.push)), -32602, c.words)
			v10 := object1{"message": object1{"parts": []any{object1{"text": "hi"}}}, "configuration": object1{"taskPushNotificationConfig": c.push}}
			refused(t, call(t, "quick", "SendStreamingMessage", v10), -32602, c.words)
		}
	})
	t.Run("one_for_each_id_and_four_in_all", func(t *testing.T) {
		task := decode(t, call(t, "asking", "message/send", object1{"message": object1{"parts": []any{object1{"text": "where?"}}}}).text).at("result")
		require.Equal(t, "input-required", task.text("status", "state"))
		set := func(push object1) answer {
			return call(t, "asking", "tasks/pushNotificationConfig/set", object1{"taskId": task.text("id"), "pushNotificationConfig": push})
		}
		for _, id := range []string{"", "a", "b", "c", "", "c"} {
			one := to("/four/" + id + "?key=hidden")
			if id != "" {
				one["id"] = id
			}
			require.NotContains(t, set(one).text, "error")
		}
		fifth := to("/four/d")
		fifth["id"] = "d"
		refused(t, set(fifth), -32602, "4 push notification configs")
		list := call(t, "asking", "ListTaskPushNotificationConfigs", object1{"taskId": task.text("id")})
		require.Len(t, decode(t, list.text).at("result", "configs").list(), 4)
		session := n.ask(t, "GET", "/agents/sessions/"+task.text("contextId"), nil)
		log := n.ask(t, "GET", "/agents/sessions/"+task.text("contextId")+"/events", nil)
		require.Equal(t, []int{200, 200}, []int{session.status, log.status})
		for _, shown := range []string{list.text, session.text, log.text} {
			for _, secret := range []string{"the-token", "the-proof", "hidden"} {
				require.NotContains(t, shown, secret)
			}
		}
		refused(t, call(t, "quick", "tasks/pushNotificationConfig/list", object1{"id": task.text("id")}), -32001, "Task not found")
		refused(t, call(t, "asking", "tasks/pushNotificationConfig/get", object1{"id": task.text("id"), "pushNotificationConfigId": "d"}), -32001, "no such")
		require.Contains(t, call(t, "asking", "DeleteTaskPushNotificationConfig", object1{"taskId": task.text("id"), "id": "a"}).text, `"result":{}`)
		require.Contains(t, call(t, "asking", "tasks/pushNotificationConfig/delete", object1{"id": task.text("id"), "pushNotificationConfigId": "a"}).text, `"result":null`)
		call(t, "asking", "message/send", object1{"message": object1{"taskId": task.text("id"), "parts": []any{object1{"text": "Rome"}}}})
		for _, id := range []string{"", "b", "c"} {
			require.Contains(t, r.got(t, "/four/"+id, 1)[0].body, `"state":"completed"`)
		}
		require.Empty(t, r.posts("/four/a"))
		refused(t, set(fifth), -32004, "The task is over")
	})
}

// a2aThroughEveryNode sends each request of the official clients to another node.
func a2aThroughEveryNode(t *testing.T, n *tenant, members []*process) {
	t.Helper()
	agents := otherAgents(t, n)
	var others []string
	for _, p := range members[1:] {
		b := n.at(p)
		others = append(others, b.url(""))
		for _, agent := range agents {
			require.Eventually(t, func() bool {
				return agent == agents["nobody"] || b.ask(t, "GET", "/a2a/"+agent+"/.well-known/agent-card.json", nil).status == http.StatusOK
			}, waitLong, waitStep)
		}
	}
	agents["nodes"] = strings.Join(others, ",")
	clientsOfA2A(t, n.apiCaller, agents)
}

// a2aMeetsTheKill begins a task whose stream and conversation are at one node. Once that was killed, what it returns follows the task
// at one of the nodes that are left, from what it had said to its end, and reads it at another.
func a2aMeetsTheKill(t *testing.T, n *floor, victim apiCaller, session string) (after func(left []apiCaller)) {
	t.Helper()
	follow := func(b apiCaller, method string, params object1) *stream {
		return b.p.follow(t, "POST", b.url("/a2a/"+n.agents["reached"]), object1{"jsonrpc": "2.0", "id": 1, "method": method, "params": params},
			"Authorization", "Bearer "+n.token, "Accept", "text/event-stream")
	}
	heard := func(s *stream) tree { return decode(t, strings.TrimPrefix(s.block(), "data: ")) }
	r := newReceiver(t)
	first := follow(victim, "message/stream", object1{"message": object1{
		"contextId": session, "parts": []any{object1{"text": script(part{Text: "one two three", Hold: "a2a"})}},
	}, "configuration": object1{"pushNotificationConfig": object1{"url": r.URL + "/told"}}})
	task := heard(first).text("result", "id")
	require.Equal(t, "artifact-update", heard(first).text("result", "kind"), "it speaks")

	return func(left []apiCaller) {
		var again *stream
		var text string
		require.NoError(t, until(t.Context(), waitLong, func(context.Context) error {
			again = follow(left[0], "tasks/resubscribe", object1{"id": task})
			opening := heard(again)
			if opening.at("result").v == nil {
				return fmt.Errorf("not followed: %v", opening.v)
			}
			require.Equal(t, "working", opening.text("result", "status", "state"))
			if opening.at("result", "artifacts").v != nil {
				text = opening.at("result", "artifacts").list()[0].at("parts").list()[0].text("text")
			}
			return nil
		}))
		close(n.shop.gate("a2a"))
		for over := false; !over; {
			event := heard(again).at("result")
			if over = event.text("kind") == "status-update"; over {
				require.Equal(t, "completed", event.text("status", "state"))
				continue
			}
			if event.at("append").v != true {
				text = ""
			}
			text += event.at("artifact", "parts").list()[0].text("text")
		}
		require.Equal(t, "one two three", text)
		read := left[1].insist(t, "POST", "/a2a/"+n.agents["reached"], object1{"jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": object1{"id": task}})
		require.Contains(t, read.text, `"parts":[{"kind":"text","text":"one two three"}]`)
		require.Equal(t, read.text, `{"jsonrpc":"2.0","id":1,"result":`+r.got(t, "/told", 1)[0].body+`}`, "told by the next owner")
		require.Len(t, left[1].insist(t, "GET", "/agents/sessions/"+session+"/messages", nil).fits(200, anyObject).at("data").list(), 2, "sent once")
	}
}
