package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// peopleAgents are agents with every kind of tool. The model, the tools and the MCP server are the workshop's.
const peopleAgents = `
outbound: {allow: [127.0.0.0/8]}
agents:
  - id: worker
    max_turns: 4
    model: {provider: openai, name: stand-in, base_url: "URL/v1", api_key: model-secret, retries: 0}
    capabilities: {ask_user: true}
    tools:
      - name: add
        schema: {type: object, properties: {a: {type: integer}, b: {type: integer}}, required: [a, b], additionalProperties: false}
        url: URL/tools/add
        headers: [{name: X-Api-Key, value: very-secret}]
      - {name: weather, method: GET, url: "URL/tools/weather/{city}?units=metric"}
      - {name: fails, url: URL/tools/fails}
      - {name: slow, url: URL/tools/slow, timeout: 200ms}
      - {name: gone, url: "http://127.0.0.1:1/"}
      - {name: wide, url: URL/tools/wide, max_result: 200B}
      - {name: inside, url: "http://10.255.255.1/"}
      - {name: away, url: URL/tools/away}
      - {name: meet, url: URL/tools/meet, idempotent: true}
      - {name: wipe, url: URL/tools/wipe, approval: always, approval_prompt: "Really?", schema: {type: object, properties: {disk: {type: string}}, required: [disk]}}
      - {name: sweep, url: URL/tools/sweep, approval: always}
      - {name: pay, url: URL/tools/pay, approval: when, when: args.amount > 100}
      - {name: soon, url: URL/tools/soon, approval: always, action_timeout: 1s}
      - {name: later, url: URL/tools/later, approval: always, action_timeout: 3s}
      - {name: camera, client: true, schema: {type: object, properties: {zoom: {type: integer}}}}
      - {name: snap, client: true, action_timeout: 1s}
    tool_sources:
      - {openapi_file: FILE, base_url: URL/shop, policies: [{tool: order, policy: {approval: when, when: args.count > 10}}]}
      - {name: box, mcp_url: URL/mcp}
      - {name: lost, mcp_url: "http://127.0.0.1:1/mcp"}
      - {name: local, mcp_url: "http://10.255.255.1/mcp"}
`

// peopleConfig is the configuration of a node with these agents; more is put in front of them.
func (w *workshop) peopleConfig(name, more string) string {
	return fmt.Sprintf("node: {name: %s}\nlog: {level: warn}\n", name) + more + w.fill(peopleAgents)
}

// fill puts the workshop's address into a configuration.
func (w *workshop) fill(config string) string {
	return strings.NewReplacer("URL", w.server.URL, "FILE", w.openAPI()).Replace(config)
}

// people is the node with these agents and the defaults.
func people(t *testing.T) (*process, *workshop) {
	t.Helper()
	w, err := commonWorkshop()
	require.NoError(t, err)
	return shared.of(t, w.peopleConfig("spec-7", "")), w
}

func toolCallRecord(name string, over fields) shape {
	return object(fields{"id": nonEmpty, "name": exactly(name), "arguments": anyText}.with(over))
}

func answerMetadata(over fields) shape {
	return object(fields{"status": exactly("completed"), "stopReason": exactly("end_turn"), "toolCallDetails": listOf(anyObject), "toolCallDurationSeconds": number}.with(over))
}

func TestSpecTools(t *testing.T) {
	t.Parallel()
	p, w := people(t)
	turn := func(t *testing.T, parts ...part) tree {
		t.Helper()
		return p.say(t, p.newConversation(t, "worker", "tools"), script(parts...))
	}
	t.Run("result_goes_to_the_model_and_into_the_answer", func(t *testing.T) {
		id := p.newConversation(t, "worker", "tools")
		message := script(part{Text: "Let me add.", Calls: []wanted{use("add", map[string]int{"a": 20, "b": 2201})}})
		result := p.ask(t, "POST", "/conversations/"+id+"/messages", map[string]string{"message": message}).fits(200, turnRecord(fields{
			"response": assistantMessage(fields{
				"content":   exactly("Let me add.\n\n" + `{"sum":2221}`),
				"toolCalls": listOf(toolCallRecord("add", fields{"arguments": exactly(`{"a":20,"b":2201}`), "result": exactly(`{"sum":2221}`)})),
				"metadata": answerMetadata(fields{"toolCallDetails": listOf(object(fields{
					"id": nonEmpty, "name": exactly("add"), "args": exactly(map[string]int{"a": 20, "b": 2201}), "result": exactly(map[string]int{"sum": 2221}),
				}))}),
			}),
			"usage": exactly(map[string]int{"inputTokens": 20, "outputTokens": 4, "totalTokens": 24}),
		}))
		run := result.text("runId")
		used := w.uses("add", "2201")
		require.Len(t, used, 1)
		require.Equal(t, "POST", used[0].method)
		require.JSONEq(t, `{"a":20,"b":2201}`, used[0].body)
		require.Equal(t, run+"/1/0", used[0].key, "the same however often it is tried")
		require.Equal(t, "very-secret", used[0].header.Get("X-Api-Key"))
		require.NotContains(t, result.text("response", "content"), "very-secret")
		events := p.ask(t, "GET", "/conversations/"+id+"/events", nil).fits(200, eventsRecord(nil)).at("events").list()
		require.Equal(t, []string{
			"user.message", "session.status_running", "agent.tool_use", "agent.tool_result", "agent.message", "session.status_idle",
		}, texts(events, "type"))
		call := result.at("response", "toolCalls").list()[0].text("id")
		require.NoError(t, exactly(map[string]any{
			"text": "Let me add.", "usage": map[string]int{"input_tokens": 10, "output_tokens": 3, "total_tokens": 13},
			"tool_calls": []any{map[string]any{"tool_call_id": call, "tool_name": "add", "args": map[string]int{"a": 20, "b": 2201}}},
		})(events[2].at("data").v))
		require.NoError(t, exactly(map[string]any{
			"results": []any{map[string]any{"tool_call_id": call, "tool_name": "add", "result": map[string]int{"sum": 2221}}},
		})(events[3].at("data").v))
		for _, event := range events {
			require.Equal(t, run, event.text("run_id"))
		}
	})
	t.Run("url_takes_arguments", func(t *testing.T) {
		require.Equal(t, "done weather/Bad Ischl", turn(t, calls(use("weather", map[string]any{"city": "Bad Ischl", "days": 3}))).text("response", "content"))
		used := w.uses("weather", "Ischl")
		require.Len(t, used, 1)
		require.Equal(t, "GET", used[0].method)
		require.Equal(t, "days=3&units=metric", used[0].query)
		require.Contains(t, turn(t, calls(use("weather", map[string]any{"city": ".."}))).text("response", "content"), "error: ")
	})
	t.Run("operations_of_a_document", func(t *testing.T) {
		require.Equal(t, "done /shop/items/a b", turn(t, calls(use("getItem", map[string]any{"id": "a b", "detail": true, "X-Shop": "x"}))).text("response", "content"))
		used := w.uses("/shop/items", "a b")
		require.Equal(t, "detail=true", used[0].query)
		require.Equal(t, "x", used[0].header.Get("X-Shop"))
		require.Equal(t, "done /shop/orders", turn(t, calls(use("order", map[string]any{"item": "lamp-77", "count": 2}))).text("response", "content"))
		require.JSONEq(t, `{"item":"lamp-77","count":2}`, w.uses("/shop/orders", "lamp-77")[0].body)
		require.Equal(t, "requires_action", turn(t, calls(use("order", map[string]any{"item": "lamp-78", "count": 11}))).text("stopReason"))
		require.Empty(t, w.uses("/shop/orders", "lamp-78"))
	})
	t.Run("tools_of_an_mcp_server", func(t *testing.T) {
		result := turn(t, calls(use("box_echo", map[string]string{"text": "mark-31"}), use("box_break", map[string]string{"text": "x"})))
		require.Equal(t, `echo {"text":"mark-31"} | error: it broke`, result.text("response", "content"))
		require.Equal(t, result.text("runId")+"/1/0", w.uses("mcp:echo", "mark-31")[0].key)
	})
	t.Run("only_declared_tools_are_offered", func(t *testing.T) {
		turn(t, part{Text: "mark-offered"})
		var offered []string
		for _, tool := range w.lastAsked("mark-offered").Tools {
			offered = append(offered, tool.Function.Name)
		}
		for _, name := range []string{"add", "ask_user", "box_echo", "camera", "getItem", "wipe"} {
			require.Contains(t, offered, name)
		}
		require.NotContains(t, strings.Join(offered, " "), "lost_", "a server that is away costs its own tools only")
	})
	t.Run("agent_says_what_it_pauses_for", func(t *testing.T) {
		agent := p.ask(t, "GET", "/agents/worker", nil)
		for _, can := range []string{"toolApproval", "askUser", "clientTools"} {
			require.True(t, agent.fits(200, anyObject).flag("capabilities", can), can)
		}
		require.NotContains(t, agent.text, "secret")
		require.NotContains(t, agent.text, "127.0.0.1")
	})
	t.Run("parallel_calls_run_at_once", func(t *testing.T) {
		together := map[string]any{"together": t.Name(), "count": 3}
		result := turn(t, calls(use("meet", together), use("meet", together), use("meet", together)))
		require.Equal(t, "met | met | met", result.text("response", "content"))
		require.Len(t, result.at("response", "toolCalls").list(), 3)
	})
	t.Run("rounds_end_with_max_turns", func(t *testing.T) {
		again := calls(use("add", map[string]int{"a": 1, "b": 1}))
		result := turn(t, again, again, again, again, again, again)
		require.Equalf(t, "max_turns", result.text("stopReason"), "%v", result.v)
		require.Equal(t, "incomplete", result.text("status"))
		all := result.at("response", "toolCalls").list()
		require.Len(t, all, 4)
		require.Equal(t, `{"sum":2}`, all[2].text("result"))
		require.NotEmpty(t, all[3].text("error"), "no model would have read it")
	})
}

// TestSpecToolFailures: a failing tool's error goes to the model, and the turn goes on.
func TestSpecToolFailures(t *testing.T) {
	t.Parallel()
	p, w := people(t)
	for _, c := range []struct {
		name  string
		call  wanted
		error string
	}{
		{"tool_answers_500", use("fails", nil), "500"},
		{"tool_out_of_time", use("slow", nil), "stopped"},
		{"tool_that_is_away", use("gone", nil), "could not be reached"},
		{"private_address", use("inside", nil), "not allowed"},
		{"redirect_to_a_link_local_address", use("away", nil), "not allowed"},
		{"unknown_tool", use("nothing", nil), "no such tool"},
		{"missing_argument", use("add", map[string]int{"a": 999}), "do not fit"},
		{"argument_of_another_type", use("add", map[string]any{"a": "999", "b": 1}), "do not fit"},
		{"unknown_argument", use("add", map[string]int{"a": 999, "b": 1, "c": 2}), "do not fit"},
		{"arguments_that_are_a_list", use("add", []int{999}), "not a JSON object"},
		{"arguments_that_are_no_json", use("add", `{"a":999,`), "not valid JSON"},
		{"approval_of_bad_arguments", use("wipe", map[string]int{"disk": 5}), "do not fit"},
		{"questions_that_are_none", use("ask_user", map[string]any{"questions": []any{}}), "do not fit"},
	} {
		t.Run(c.name, func(t *testing.T) {
			result := p.say(t, p.newConversation(t, "worker", "tool failures"), script(calls(c.call)))
			require.Equalf(t, "end_turn", result.text("stopReason"), "%v", result.v)
			require.Regexp(t, `^error: `, result.text("response", "content"))
			require.Contains(t, result.text("response", "content"), c.error)
			record := result.at("response", "toolCalls").list()[0]
			require.Contains(t, record.text("error"), c.error)
			require.NotContains(t, record.text("error"), "127.0.0.1", "what it says tells nothing of the network")
			require.Contains(t, result.at("response", "metadata", "toolCallDetails").list()[0].text("result", "error"), c.error)
		})
	}
	require.Empty(t, w.uses("add", "999"), "what does not fit is not run")
	t.Run("long_result_is_cut", func(t *testing.T) {
		said := p.say(t, p.newConversation(t, "worker", "tool failures"), script(calls(use("wide", nil)))).text("response", "content")
		require.LessOrEqual(t, len(said), 200)
		require.Contains(t, said, "cut")
	})
	t.Run("others_are_not_touched", func(t *testing.T) {
		result := p.say(t, p.newConversation(t, "worker", "tool failures"), script(calls(use("fails", nil), use("add", map[string]int{"a": 1, "b": 2}))))
		require.Regexp(t, `^error: .* \| \{"sum":3\}$`, result.text("response", "content"))
	})
	t.Run("model_goes_on_with_other_calls", func(t *testing.T) {
		result := p.say(t, p.newConversation(t, "worker", "tool failures"), script(
			calls(use("nothing", nil)), calls(use("add", map[string]int{"a": 2, "b": 2})), part{Text: "four"},
		))
		require.Equal(t, "four", result.text("response", "content"))
		require.Len(t, result.at("response", "toolCalls").list(), 2)
	})
}

// TestSpecToolStream: stream.tool_call and stream.tool_result stand where they happen between the text.
func TestSpecToolStream(t *testing.T) {
	t.Parallel()
	p, _ := people(t)
	id := p.newConversation(t, "worker", "tool stream")
	s := p.follow(t, "POST", "/conversations/"+id+"/messages", map[string]any{"stream": true, "message": script(
		part{Text: "First this.", Calls: []wanted{use("add", map[string]int{"a": 1, "b": 2}), use("fails", nil)}},
		part{Text: "Then that.", Calls: []wanted{use("weather", map[string]string{"city": "Graz"})}},
		part{Text: "All done."},
	)})
	var order []string
	var text strings.Builder
	ids := map[string]string{}
	for seq := 1; ; seq++ {
		f := s.frame()
		require.InDelta(t, seq, f.data.number("seq"), 0)
		switch f.event {
		case "stream.text":
			text.WriteString(f.data.text("text"))
			if order[len(order)-1] == "text" {
				continue
			}
			order = append(order, "text")
		case "stream.tool_call":
			require.NoError(t, object(fields{
				"type": exactly("stream.tool_call"), "timestamp": epochMillis, "seq": integer, "toolName": nonEmpty, "toolCallId": nonEmpty, "args": anyObject,
			})(f.data.v), f.raw)
			ids[f.data.text("toolCallId")] = f.data.text("toolName")
			order = append(order, "call "+f.data.text("toolName"))
		case "stream.tool_result":
			require.NoError(t, object(fields{
				"type": exactly("stream.tool_result"), "timestamp": epochMillis, "seq": integer, "toolName": exactly(ids[f.data.text("toolCallId")]),
				"toolCallId": nonEmpty, "result": map[string]shape{
					"add": exactly(map[string]int{"sum": 3}), "fails": object(fields{"error": nonEmpty}), "weather": exactly("done weather/Graz"),
				}[f.data.text("toolName")],
			})(f.data.v), f.raw)
			order = append(order, "result "+f.data.text("toolName"))
		default:
			order = append(order, f.event)
		}
		if f.event == "stream.done" {
			require.Equal(t, "First this.\n\nThen that.\n\nAll done.", f.data.text("content"))
			break
		}
	}
	s.ends()
	require.Equal(t, "First this.\n\nThen that.\n\nAll done.", text.String(), "the pieces are the whole")
	if order[4] == "result fails" { // whichever ends first
		order[4], order[5] = order[5], order[4]
	}
	require.Equal(t, []string{
		"stream.start", "text", "call add", "call fails", "result add", "result fails",
		"text", "call weather", "result weather", "text", "stream.done",
	}, order)
}

// TestSpecToolsStopped: a turn whose tools run is cancelled and deleted like any other.
func TestSpecToolsStopped(t *testing.T) {
	t.Parallel()
	p, w := people(t)
	// alone begins a turn whose tool waits for another that never comes.
	alone := func(t *testing.T, mark string) (string, func() answer) {
		t.Helper()
		id := p.newConversation(t, "worker", "tools stopped")
		message := script(part{Text: "Wait.", Calls: []wanted{use("meet", object1{"together": mark, "count": 2}), use("add", object1{"a": 71, "b": 1})}})
		sender := p.asking(t, "POST", "/conversations/"+id+"/messages", object1{"message": message})
		require.Eventually(t, func() bool {
			return len(p.ask(t, "GET", "/conversations/"+id+"/events?types=agent.tool_result", nil).fits(200, anyObject).at("events").list()) == 1
		}, 30*time.Second, 5*time.Millisecond)
		return id, sender
	}
	t.Run("cancel_while_a_tool_runs", func(t *testing.T) {
		id, sender := alone(t, "stopped-1")
		cancelled := p.ask(t, "POST", "/conversations/"+id+"/cancel", nil).fits(200, anyObject)
		require.True(t, cancelled.flag("settled"))
		turn := sender().fits(200, anyObject)
		require.Equal(t, "cancelled", turn.text("stopReason"))
		require.Equal(t, "Wait.", turn.text("response", "content"))
		all := turn.at("response", "toolCalls").list()
		require.Equal(t, "cancelled", all[0].text("error"))
		require.JSONEq(t, `{"sum":72}`, all[1].text("result"))
		next := p.say(t, id, script(part{Text: "mark-stopped-1"}))
		require.Equal(t, "end_turn", next.text("stopReason"))
		var results []string
		for _, message := range w.lastAsked("mark-stopped-1").Messages {
			if message.Role == "tool" {
				results = append(results, message.Content)
			}
		}
		require.Equal(t, []string{"error: cancelled", `{"sum":72}`}, results, "the model knows what it did")
	})
	t.Run("delete_while_a_tool_runs", func(t *testing.T) {
		id, sender := alone(t, "stopped-2")
		p.ask(t, "DELETE", "/conversations/"+id, nil).empty(204)
		require.Contains(t, []int{200, 404}, sender().status)
		p.ask(t, "GET", "/conversations/"+id, nil).refused(404, "NOT_FOUND")
	})
	t.Run("too_many_calls_for_people", func(t *testing.T) {
		var many []wanted
		for n := range 34 {
			many = append(many, use("sweep", object1{"n": n}))
		}
		turn := p.say(t, p.newConversation(t, "worker", "tools stopped"), script(calls(many...)))
		require.Equal(t, "requires_action", turn.text("stopReason"))
		require.Len(t, turn.at("pendingActions").list(), 32)
	})
	t.Run("nothing_said_and_not_completed", func(t *testing.T) {
		id := p.newConversation(t, "worker", "tools stopped")
		turn := p.say(t, id, script(calls(use("add", object1{"a": 73, "b": 1})), part{Die: true}))
		require.Equal(t, "error", turn.text("stopReason"))
		messages := p.ask(t, "GET", "/conversations/"+id, nil).fits(200, anyObject).at("messages").list()
		require.Len(t, messages, 2, "what the tool did is not forgotten")
		require.JSONEq(t, `{"sum":74}`, messages[1].at("toolCalls").list()[0].text("result"))
	})
}
