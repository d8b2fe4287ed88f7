package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestClientResponses: POST /agents/responses and /responses, their requests and what they answer.
func TestClientResponses(t *testing.T) {
	t.Parallel()
	n := onFloor(t)
	t.Run("whole_response", func(t *testing.T) {
		response := n.respond(t, "quick", "a b c", nil).fits(200, responseShape(fields{
			"model": exactly(n.agents["quick"]), "status": exactly("completed"), "stop_reason": exactly("end_turn"), "error": exactly(nil),
			"output": listOf(object(fields{
				"id": like(`^msg_`), "type": exactly("message"), "role": exactly("assistant"), "status": exactly("completed"),
				"content": exactly([]any{object1{"type": "output_text", "text": "one two three", "annotations": []any{}}}),
			})),
			"previous_response_id": exactly(nil), "version": exactly(nil), "spent_usd": exactly(0.003),
		}))
		require.Equal(t, "resp_"+response.text("session_id"), response.text("id"))
		require.InDelta(t, time.Now().Unix(), response.number("created_at"), 60)
		usage := response.at("usage")
		require.InDelta(t, 3, usage.number("output_tokens"), 0, "real numbers")
		require.Positive(t, usage.number("input_tokens"))
		require.InDelta(t, usage.number("input_tokens")+3, usage.number("total_tokens"), 0)
		require.InDelta(t, 0.003, usage.number("cost_usd"), 1e-9)
		session := n.get(t, "/agents/sessions/"+response.text("session_id")).fits(200, sessionShape(fields{
			"title": exactly("a b c"), "stop_reason": exactly("end_turn"), "spent_usd": exactly(0.003),
		}))
		require.Equal(t, n.agents["quick"], session.text("agent"))
	})
	said := func(t *testing.T, input any) string {
		t.Helper()
		id := n.session(t, "quick", nil)
		n.respond(t, "quick", "", object1{"input": input, "session_id": id}).fits(200, responseShape(nil))
		return n.done(t, "GET", "/agents/sessions/"+id+"/messages", nil).at("data").list()[0].text("content")
	}
	item := func(role string, content any) object1 { return object1{"role": role, "content": content} }
	text := func(text string) object1 { return object1{"type": "input_text", "text": text} }
	for name, c := range map[string]struct {
		input any
		want  string
	}{
		"text":                  {"hello", "hello"},
		"item":                  {[]any{item("user", "hello")}, "hello"},
		"last_item_of_the_user": {[]any{item("user", "first"), item("user", "second"), item("assistant", "third")}, "second"},
		"parts_are_joined":      {[]any{item("user", []any{text("one"), text("two")})}, "one\ntwo"},
		"system_items_are_not":  {[]any{item("system", "obey"), item("user", "hello")}, "hello"},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, said(t, c.input)) })
	}
	t.Run("continued", func(t *testing.T) {
		first := n.respond(t, "quick", "one", nil).fits(200, responseShape(nil))
		id, response := first.text("session_id"), first.text("id")
		for i, naming := range []object1{
			{"previous_response_id": response},
			{"session_id": id},
			{"conversation": id},
			{"conversation": object1{"id": id}},
			{"previous_response_id": response, "session_id": id, "conversation": object1{"id": id}},
			{"previous_response_id": response, "conversation": id, "session_id": nil},
			{"session_id": id, "previous_response_id": ""},
		} {
			again := n.respond(t, "quick", "more", naming).fits(200, responseShape(fields{"id": exactly(response), "session_id": exactly(id)}))
			want, _ := naming["previous_response_id"].(string)
			if want == "" {
				require.Nil(t, again.at("previous_response_id").v)
			} else {
				require.Equal(t, want, again.text("previous_response_id"), "as the request carried it")
			}
			require.Len(t, n.done(t, "GET", "/agents/sessions/"+id+"/messages", nil).at("data").list(), 2*i+4)
		}
		require.Equal(t, "one", n.read(t, id).text("title"), "the first message named it")
	})
	t.Run("first_message_names_a_session", func(t *testing.T) {
		id := n.session(t, "quick", nil)
		n.respond(t, "quick", " hello\n there ", object1{"session_id": id}).fits(200, responseShape(nil))
		require.Equal(t, "hello there", n.read(t, id).text("title"))
		id = n.session(t, "quick", object1{"title": "mine"})
		n.respond(t, "quick", "hello", object1{"session_id": id}).fits(200, responseShape(nil))
		require.Equal(t, "mine", n.read(t, id).text("title"))
	})
	t.Run("sent_on_the_conversation_server", func(t *testing.T) {
		id := n.session(t, "quick", nil)
		n.p.say(t, id, "from there", "Authorization", "Bearer "+n.token)
		n.respond(t, "quick", "from here", object1{"session_id": id}).fits(200, responseShape(nil))
		require.Equal(t, []string{"from there", "one two three", "from here", "one two three"},
			texts(n.done(t, "GET", "/agents/sessions/"+id+"/messages", nil).at("data").list(), "content"))
	})
	t.Run("paused_turn", func(t *testing.T) {
		response := n.respond(t, "worker", script(part{Text: "May I?", Calls: []wanted{wipe("re-1")}}), nil).fits(200, responseShape(fields{
			"status": exactly("requires_action"), "stop_reason": exactly("requires_action"), "error": exactly(nil),
		}))
		require.Equal(t, "May I?", response.said())
		require.Equal(t, "incomplete", response.at("output").list()[0].text("status"))
		require.Equal(t, []string{"wipe"}, texts(response.at("pending_actions").list(), "tool_name"))
		require.Positive(t, response.at("usage").number("output_tokens"))
	})
	t.Run("failed_model", func(t *testing.T) {
		response := n.respond(t, "broken", "go", nil).fits(200, responseShape(fields{
			"status": exactly("failed"), "stop_reason": exactly("error"), "error": object(fields{"type": nonEmpty, "code": nonEmpty, "message": nonEmpty}),
		}))
		require.Equal(t, "error", n.read(t, response.text("session_id")).text("stop_reason"))
		require.Equal(t, "idle", n.read(t, response.text("session_id")).text("runtime_status"))
	})
	t.Run("limit", func(t *testing.T) {
		order := script(part{Text: "Once", Calls: []wanted{use("add", object1{"a": 5, "b": 6})}}, part{Text: "more", Calls: []wanted{use("add", object1{"a": 7, "b": 8})}})
		response := n.respond(t, "hasty", order, nil).fits(200, responseShape(fields{"stop_reason": exactly("limit"), "status": exactly("completed"), "error": exactly(nil)}))
		require.Equal(t, "limit", n.read(t, response.text("session_id")).text("stop_reason"))
		ended := n.wait(t, n.run(t, "hasty", order, nil).text("id"))
		require.Equal(t, []string{"succeeded", "limit"}, []string{ended.text("status"), ended.text("result", "stop_reason")})
	})
	t.Run("usage_counts_every_call_of_the_model", func(t *testing.T) {
		response := n.respond(t, "worker", script(part{Text: "I add.", Calls: []wanted{use("add", object1{"a": 1, "b": 2})}, Usage: []int64{100, 10, 40}}), nil).
			fits(200, responseShape(nil))
		require.NoError(t, exactly(object1{
			"input_tokens": 110, "output_tokens": 11, "total_tokens": 121, "input_tokens_details": object1{"cached_tokens": 40}, "cost_usd": 0.0121,
		})(response.at("usage").v))
		require.InDelta(t, 0.0121, response.number("spent_usd"), 1e-9)
	})
	t.Run("runtime_context_is_never_shown", func(t *testing.T) {
		secret := "very-secret-value"
		given := object1{"headers": object1{"X-Key": secret}, "connections": object1{"tool:add": object1{"headers": object1{"X-Other": secret}}}, "metadata": object1{"note": secret}}
		a := n.respond(t, "worker", script(part{Text: "x", Calls: []wanted{use("add", object1{"a": 3, "b": 4})}}), object1{"runtime_context": given}, "X-Service-Hdr-X-Form", secret)
		id := a.fits(200, responseShape(nil)).text("session_id")
		run := n.run(t, "quick", "hi", object1{"runtime_context": given})
		require.Equal(t, "succeeded", n.wait(t, run.text("id")).text("status"))
		for _, text := range []string{
			a.text, n.get(t, "/agents/sessions/"+id).text, n.get(t, "/agents/sessions/"+id+"/events").text, n.get(t, "/agents/sessions/"+id+"/messages").text,
			n.get(t, "/agents/sessions").text, n.get(t, "/agents/runs/"+run.text("id")).text, n.get(t, "/agents/sessions/"+run.text("session_id")+"/events").text,
		} {
			require.NotContains(t, text, secret)
		}
		require.Empty(t, n.shop.uses("add", `"a":3`)[0].header.Get("X-Key"), "a tool that does not let it pass gets nothing")
		for _, odd := range []any{"x", 3, []any{}, object1{"headers": "x"}, object1{"headers": object1{"Bad Name": "v", "Host": "x", "A": "b\nc"}}, nil} {
			n.respond(t, "quick", "hi", object1{"runtime_context": odd}).fits(200, responseShape(nil)) // dropped, never an error
		}
	})
}

// TestClientResponseRefusals: the order of checks and their words (document 3, 8.1).
func TestClientResponseRefusals(t *testing.T) {
	t.Parallel()
	n := onFloor(t)
	n.agent(t, "asleep", object1{"modelKey": "quick"}, nil)
	n.done(t, "PATCH", "/agents/"+n.agents["asleep"], object1{"status": "inactive"})
	mine, others := n.session(t, "quick", nil), n.session(t, "talker", nil)
	elsewhere := newTenant(t, n.p, "ON_PREMISE").newAssistant(t)
	const (
		noModel    = "model field is required and must contain the agent key"
		badVersion = "version must be a positive integer"
		noInput    = "input field is required (string or array of message items)"
		noPrevious = "previous_response_id does not match a valid conversation"
		noSession  = "Session not found"
	)
	quick, invalid := n.agents["quick"], "invalid_request"
	for _, c := range []struct {
		name       string
		body       any
		status     int
		code, text string
	}{
		// each has every fault of those that come after it
		{"model_first", object1{"version": 0}, 400, invalid, noModel},
		{"model_number", object1{"model": 3, "version": 0}, 400, invalid, noModel},
		{"model_empty", object1{"model": "", "version": 0}, 400, invalid, noModel},
		{"then_version", object1{"model": "nobody", "version": 0}, 400, invalid, badVersion},
		{"version_text", object1{"model": "nobody", "version": "1"}, 400, invalid, badVersion},
		{"version_fraction", object1{"model": "nobody", "version": 1.5}, 400, invalid, badVersion},
		{"version_negative", object1{"model": "nobody", "version": -1}, 400, invalid, badVersion},
		{"then_agent", object1{"model": "nobody"}, 404, "agent_not_found", "Agent not found"},
		{"then_its_status", object1{"model": n.agents["asleep"]}, 400, "agent_not_active", "Agent is not active"},
		{"then_pinned_version", object1{"model": quick, "version": 7}, 404, "agent_version_not_found", "Agent version not found"},
		{"then_input", object1{"model": quick, "previous_response_id": "resp_x"}, 400, invalid, noInput},
		{"input_blank", object1{"model": quick, "input": " "}, 400, invalid, noInput},
		{"input_number", object1{"model": quick, "input": 3}, 400, invalid, noInput},
		{"input_empty", object1{"model": quick, "input": []any{}}, 400, invalid, noInput},
		{"input_without_user", object1{"model": quick, "input": []any{object1{"role": "assistant", "content": "x"}}}, 400, invalid, noInput},
		{"input_without_text", object1{"model": quick, "input": []any{object1{"role": "user", "content": []any{}}}}, 400, invalid, noInput},
		{
			"input_of_an_unknown_part", object1{"model": quick, "input": []any{object1{"role": "user", "content": []any{
				object1{"type": "nonsense", "text": "x"}, object1{"type": "input_text", "text": "hi"},
			}}}}, 400, invalid, `parts of type "nonsense" are not supported`,
		},
		{"then_session", n.order("quick", "hi", object1{"previous_response_id": "resp_x"}), 404, "session_not_found", noPrevious},
		{"previous_of_another_agent", n.order("quick", "hi", object1{"previous_response_id": "resp_" + others}), 404, "session_not_found", noPrevious},
		{"previous_of_another_project", n.order("quick", "hi", object1{"previous_response_id": "resp_" + elsewhere}), 404, "session_not_found", noPrevious},
		{"session_of_another_agent", n.order("quick", "hi", object1{"session_id": others}), 404, "session_not_found", noSession},
		{"session_of_another_project", n.order("quick", "hi", object1{"session_id": elsewhere}), 404, "session_not_found", noSession},
		{"conversation_of_another_agent", n.order("quick", "hi", object1{"conversation": object1{"id": others}}), 404, "session_not_found", noSession},
		{"session_conflict", n.order("quick", "hi", object1{"session_id": mine, "previous_response_id": "resp_" + others}), 400, "session_conflict", ""},
		{"conversation_conflict", n.order("quick", "hi", object1{"session_id": mine, "conversation": others}), 400, invalid, ""},
		{"conversation_and_previous", n.order("quick", "hi", object1{"conversation": mine, "previous_response_id": "resp_" + others}), 400, invalid, ""},
		{"previous_without_prefix", n.order("quick", "hi", object1{"previous_response_id": mine}), 400, invalid, ""},
		{"session_number", n.order("quick", "hi", object1{"session_id": 3}), 400, invalid, ""},
		{"conversation_without_id", n.order("quick", "hi", object1{"conversation": object1{}}), 400, invalid, ""},
		{"background_text", n.order("quick", "hi", object1{"background": "yes"}), 400, invalid, ""},
		{"background_disabled", n.order("shy", "hi", object1{"background": true}), 400, "agent_background_disabled", ""},
		{"callback_without_background", n.order("quick", "hi", object1{"callback_url": "http://127.0.0.1/"}), 400, invalid, ""},
		{"secret_without_callback", n.order("quick", "hi", object1{"background": true, "callback_secret": "0123456789abcdef"}), 400, invalid, ""},
		{"secret_of_15", n.order("quick", "hi", object1{"background": true, "callback_url": "http://127.0.0.1/", "callback_secret": "0123456789abcde"}), 400, invalid, "callback_secret must be at least 16 characters"},
		{"callback_scheme", n.order("quick", "hi", object1{"background": true, "callback_url": "ftp://127.0.0.1/"}), 400, invalid, ""},
		{"callback_no_url", n.order("quick", "hi", object1{"background": true, "callback_url": "nonsense"}), 400, invalid, ""},
		{"no_json", "{", 400, invalid, ""},
		{"no_object", "[]", 400, invalid, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, path := range []string{"/agents/responses", "/responses"} {
				a := n.post(t, path, c.body)
				if c.text != "" {
					a.denied(c.status, c.code, c.text)
				}
				a.coded(c.status, c.code)
			}
		})
	}
	require.Len(t, n.done(t, "GET", "/agents/sessions", nil).at("data").list(), 2, "nothing is left of refused requests")
}

// newAssistant makes a session with the built-in agent.
func (n *tenant) newAssistant(t *testing.T) string {
	t.Helper()
	return n.done(t, "POST", "/agents/sessions", object1{"agent": "assistant"}).text("id")
}

// TestClientResponseVersions: which config runs (document 3, 7.8).
func TestClientResponseVersions(t *testing.T) {
	t.Parallel()
	n := onFloor(t)
	texts := []string{"the first", "the second", "the third"}
	for i, text := range texts {
		n.done(t, "POST", "/models", object1{
			"key": fmt.Sprint("v", i+1), "name": text, "providerKey": "play", "category": "llm", "modelId": "x", "pricing": object1{},
			"settings": object1{"script": object1{"text": text}},
		})
	}
	n.agent(t, "moving", object1{"modelKey": "v1"}, nil)
	path := "/agents/" + n.agents["moving"]
	runs := func(t *testing.T, route string, version any, text string, ran any) {
		t.Helper()
		shape := responseShape
		if route == "/responses" {
			shape = wholeShape
		}
		response := n.post(t, route, n.order("moving", "go", object1{"version": version})).fits(200, shape(fields{"version": exactly(ran)}))
		require.Equal(t, text, response.said())
	}
	both := func(t *testing.T, published string, ran any, draft string) {
		t.Helper()
		runs(t, "/agents/responses", nil, published, ran)
		runs(t, "/responses", nil, draft, nil)
	}
	both(t, "the first", nil, "the first") // never published: the draft
	n.done(t, "POST", path+"/publish", nil)
	n.done(t, "PATCH", path, object1{"config": object1{"modelKey": "v2"}})
	both(t, "the first", 1, "the second")
	n.done(t, "POST", path+"/publish", nil)
	n.done(t, "PATCH", path, object1{"config": object1{"modelKey": "v3"}})
	both(t, "the second", 2, "the third")
	for _, route := range []string{"/agents/responses", "/responses"} {
		runs(t, route, 1, "the first", 1)
		runs(t, route, 2, "the second", 2)
		n.post(t, route, n.order("moving", "go", object1{"version": 3})).denied(404, "agent_version_not_found", "Agent version not found")
	}
	t.Run("of_a_continued_session", func(t *testing.T) {
		id := n.session(t, "moving", nil)
		for version, text := range map[any]string{1: "the first", 2: "the second", nil: "the second"} {
			require.Equal(t, text, n.respond(t, "moving", "go", object1{"session_id": id, "version": version}).fits(200, responseShape(nil)).said())
		}
	})
	t.Run("of_a_run", func(t *testing.T) {
		n.done(t, "PATCH", path, object1{"metadata": object1{"background": object1{"enabled": true}}})
		ended := n.wait(t, n.run(t, "moving", "go", object1{"version": 1}).text("id"))
		require.Equal(t, "the first", ended.at("result").said())
		require.InDelta(t, 1, ended.number("result", "version"), 0)
	})
	t.Run("status_is_read_from_the_live_record", func(t *testing.T) {
		n.done(t, "PATCH", path, object1{"status": "inactive"})
		n.respond(t, "moving", "go", object1{"version": 1}).denied(400, "agent_not_active", "Agent is not active")
	})
	t.Run("deleted_agent", func(t *testing.T) {
		id := n.session(t, "quick", nil)
		n.respond(t, "quick", "hi", object1{"session_id": id}).fits(200, responseShape(nil))
		n.ask(t, "DELETE", "/agents/"+n.agents["quick"], nil).fits(200, exactly(object1{"success": true}))
		n.respond(t, "quick", "hi", object1{"session_id": id}).denied(404, "agent_not_found", "Agent not found")
		n.read(t, id)
	})
}
