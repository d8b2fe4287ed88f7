package main

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func pendingAction(kind string, over fields) shape {
	return object(fields{
		"id": idOf("act"), "kind": exactly(kind), "status": exactly("pending"), "runId": idOf("run"), "toolName": nonEmpty, "toolCallId": nonEmpty,
		"args": anyObject, "details": anyObject, "requestedAt": moment, "createdAt": moment, "expiresAt": like(`Z$`),
	}.with(over))
}

// pausedTurn is the result of a turn that waits.
func pausedTurn(pending shape) shape {
	return turnRecord(fields{
		"stopReason": exactly("requires_action"), "status": exactly("requires_action"), "pendingActions": pending,
		"response": assistantMessage(fields{
			"status": exactly("requires_action"), "toolCalls": listOf(anyObject),
			"metadata": object(fields{
				"status": exactly("requires_action"), "stopReason": exactly("requires_action"), "pendingActions": pending, "toolCallDetails": listOf(anyObject),
			}),
		}),
	})
}

// resumedTurn is the answer to resolving the last pending action, once the turn is over.
func resumedTurn(over fields) shape {
	return object(fields{
		"response": assistantMessage(fields{
			"status": oneOf("completed", "requires_action"), "toolCalls": listOf(anyObject), "metadata": anyObject,
		}), "usage": usageRecord(nil),
		"stopReason": exactly("end_turn"), "runId": idOf("run"), "conversationTitle": anyText,
	}.with(over))
}

// waiting is a conversation whose turn waits for a person.
type waiting struct {
	p       *process
	id, run string
	turn    tree
	actions []string
}

// pause sends a message whose turn waits.
func (p *process) pause(t *testing.T, parts ...part) *waiting {
	t.Helper()
	id := p.newConversation(t, "worker", "actions")
	turn := p.say(t, id, script(parts...))
	require.Equalf(t, "requires_action", turn.text("stopReason"), "%v", turn.v)
	return &waiting{p, id, turn.text("runId"), turn, texts(turn.at("pendingActions").list(), "id")}
}

// resolve decides the nth pending action. headers as in ask.
func (w *waiting) resolve(t *testing.T, n int, resolution any, headers ...string) answer {
	t.Helper()
	return w.p.ask(t, "POST", "/conversations/"+w.id+"/actions/"+w.actions[n], map[string]any{"resolution": resolution}, headers...)
}

func (w *waiting) read(t *testing.T) tree {
	t.Helper()
	return w.p.ask(t, "GET", "/conversations/"+w.id, nil).fits(200, anyObject)
}

func (w *waiting) events(t *testing.T, kind string) []tree {
	t.Helper()
	return w.p.ask(t, "GET", "/conversations/"+w.id+"/events?types="+kind, nil).fits(200, eventsRecord(nil)).at("events").list()
}

func (w *waiting) status(t *testing.T) string {
	t.Helper()
	return w.read(t).text("conversation", "runtime", "status")
}

type object1 = map[string]any

var (
	allow = object1{"type": "tool_approval", "decision": "allow"} // never changed
	deny  = object1{"type": "tool_approval", "decision": "deny"}  // never changed
)

func wipe(disk string) wanted { return use("wipe", object1{"disk": disk}) }

func TestSpecApproval(t *testing.T) {
	t.Parallel()
	p, shop := people(t)
	t.Run("waits_and_is_shown_everywhere", func(t *testing.T) {
		w := p.pause(t, part{Text: "I would wipe it.", Calls: []wanted{wipe("sda-1")}})
		one := exactly1(pendingAction("tool_approval", fields{
			"runId": exactly(w.run), "toolName": exactly("wipe"), "args": exactly(object1{"disk": "sda-1"}), "details": exactly(object1{"prompt": "Really?"}),
		}))
		require.NoError(t, pausedTurn(one)(w.turn.v))
		expires, err := time.Parse(time.RFC3339, w.turn.at("pendingActions").list()[0].text("expiresAt"))
		require.NoError(t, err)
		require.WithinDuration(t, time.Now().Add(24*time.Hour), expires, time.Minute)
		read := p.ask(t, "GET", "/conversations/"+w.id, nil).fits(200, object(fields{
			"conversation": conversationRecord(fields{"runtime": runtimeRecord(fields{
				"status": exactly("waiting"), "stopReason": exactly("requires_action"), "pendingActionIds": exactly(w.actions),
			})}),
			"messages": exactly([]any{w.turn.at("message").v, w.turn.at("response").v}), "messagesPage": anyObject,
			"pendingActions": exactly(w.turn.at("pendingActions").v),
		}))
		require.Equal(t, "waiting", read.text("conversation", "runtime", "status"))
		require.Empty(t, shop.uses("wipe", "sda-1"))
		events := p.ask(t, "GET", "/conversations/"+w.id+"/events", nil).fits(200, eventsRecord(nil)).at("events").list()
		require.Equal(t, []string{
			"user.message", "session.status_running", "agent.tool_use", "action.requested", "session.status_waiting",
		}, texts(events, "type"))
		require.Equal(t, w.actions[0], events[3].text("data", "action_id"))
		require.NoError(t, object(fields{
			"stop_reason": exactly("requires_action"), "message_id": exactly(w.turn.text("response", "id")), "content": exactly("I would wipe it."),
			"pending_action_ids": exactly(w.actions),
		})(events[4].at("data").v))
	})
	t.Run("allow_runs_it", func(t *testing.T) {
		w := p.pause(t, part{Text: "I would wipe it.", Calls: []wanted{wipe("sda-2")}})
		result := w.resolve(t, 0, allow).fits(200, resumedTurn(fields{"runId": exactly(w.run)}))
		require.Equal(t, "I would wipe it.\n\ndone wipe", result.text("response", "content"))
		require.Equal(t, w.turn.text("response", "id"), result.text("response", "id"), "the answer that waited, gone on")
		used := shop.uses("wipe", "sda-2")
		require.Len(t, used, 1)
		require.Equal(t, w.run+"/1/0", used[0].key)
		read := p.ask(t, "GET", "/conversations/"+w.id, nil).fits(200, anyObject)
		require.Equal(t, result.at("response").v, read.at("messages").list()[1].v)
		require.Nil(t, read.at("pendingActions").v)
		require.Equal(t, "idle", w.status(t))
		closed := w.events(t, "action.resolved")
		require.Len(t, closed, 1)
		require.NoError(t, object(fields{
			"action_id": exactly(w.actions[0]), "tool_call_id": nonEmpty, "by?": nonEmpty, "resolution": exactly(allow),
		})(closed[0].at("data").v))
		running := w.events(t, "session.status_running")
		require.Equal(t, "resolve", running[1].text("data", "mode"))
		for _, event := range w.events(t, "action.resolved,agent.message,agent.tool_result,session.status_idle") {
			require.Equal(t, w.run, event.text("run_id"))
		}
	})
	t.Run("deny_tells_the_model", func(t *testing.T) {
		w := p.pause(t, calls(wipe("sda-3")))
		result := w.resolve(t, 0, object1{"type": "tool_approval", "decision": "deny", "comment": "not that one"}).fits(200, resumedTurn(nil))
		require.Regexp(t, `^error: .*denied.*not that one`, result.text("response", "content"))
		require.Empty(t, shop.uses("wipe", "sda-3"))
	})
	t.Run("approved_args_replace_the_models", func(t *testing.T) {
		w := p.pause(t, calls(wipe("sda-4")))
		resolution := func(args any) object1 {
			return object1{"type": "tool_approval", "decision": "allow", "approvedArgs": args}
		}
		for _, args := range []any{object1{"disk": 5}, object1{}, []int{1}, "sda", 5, true} {
			w.resolve(t, 0, resolution(args)).refused(400, "invalid_approved_args")
		}
		require.Equal(t, "waiting", w.status(t))
		result := w.resolve(t, 0, resolution(object1{"disk": "sdb-4"})).fits(200, resumedTurn(nil))
		require.Empty(t, shop.uses("wipe", "sda-4"))
		require.JSONEq(t, `{"disk":"sdb-4"}`, shop.uses("wipe", "sdb-4")[0].body)
		require.NoError(t, exactly(object1{"disk": "sdb-4"})(result.at("response", "metadata", "toolCallDetails").list()[0].at("args").v))
	})
	t.Run("long_approved_args", func(t *testing.T) { // more than the rules would check themselves
		w := p.pause(t, calls(wipe("sda-40")))
		long := strings.Repeat("sdb", 4000)
		w.resolve(t, 0, object1{"type": "tool_approval", "decision": "allow", "approvedArgs": object1{"disk": long}}).fits(200, resumedTurn(nil))
		require.Len(t, shop.uses("wipe", long), 1)
	})
	t.Run("by_expression", func(t *testing.T) {
		pay := func(amount any) tree {
			return p.say(t, p.newConversation(t, "worker", "actions"), script(calls(use("pay", object1{"amount": amount, "to": "by-expression"}))))
		}
		require.Equal(t, "end_turn", pay(100).text("stopReason"))
		require.Equal(t, "requires_action", pay(101).text("stopReason"))
		require.Equal(t, "requires_action", pay("99").text("stopReason"), "what cannot be told asks")
		require.Len(t, shop.uses("pay", "by-expression"), 1)
	})
	t.Run("refusals", func(t *testing.T) {
		w := p.pause(t, calls(wipe("sda-5")))
		path := "/conversations/" + w.id + "/actions/" + w.actions[0]
		for name, body := range map[string]any{
			"nothing": nil, "no_resolution": "{}", "null": `{"resolution":null}`, "text": `{"resolution":"allow"}`,
			"no_type": `{"resolution":{}}`, "unknown_type": `{"resolution":{"type":"x"}}`,
			"no_decision": `{"resolution":{"type":"tool_approval"}}`, "unknown_decision": `{"resolution":{"type":"tool_approval","decision":"yes"}}`,
			"answers":       `{"resolution":{"type":"user_question","answers":{}}}`,
			"client_output": `{"resolution":{"type":"client_tool","output":1}}`,
			"args_denied":   `{"resolution":{"type":"tool_approval","decision":"deny","approvedArgs":{"disk":"x"}}}`,
			"bad_stream":    `{"resolution":{"type":"tool_approval","decision":"allow"},"stream":"yes"}`,
		} {
			t.Run(name, func(t *testing.T) { p.ask(t, "POST", path, body).refused(400, "VALIDATION_ERROR") })
		}
		resolve := func(id, action string) answer {
			return p.ask(t, "POST", "/conversations/"+id+"/actions/"+action, object1{"resolution": allow})
		}
		resolve(w.id, "act_AAAAAAAAAAAAAAAAAAAAA").refused(409, "action_not_pending")
		resolve(w.id, "nonsense").refused(409, "action_not_pending")
		resolve("conv_AAAAAAAAAAAAAAAAAAAAA", w.actions[0]).refused(404, "NOT_FOUND")
		resolve(p.newConversation(t, "worker", "actions"), w.actions[0]).refused(409, "action_not_pending")
		require.Equal(t, "waiting", w.status(t))
		resolve(w.id, w.actions[0]).fits(200, resumedTurn(nil))
		resolve(w.id, w.actions[0]).refused(409, "action_not_pending")
		require.Len(t, shop.uses("wipe", "sda-5"), 1)
	})
	t.Run("while_it_waits", func(t *testing.T) {
		w := p.pause(t, calls(wipe("sda-6"), use("sweep", nil)))
		for _, streamed := range []bool{false, true} {
			details := p.ask(t, "POST", "/conversations/"+w.id+"/messages", object1{"message": "hello?", "stream": streamed}).refused(409, "action_pending")
			require.NoError(t, exactly(object1{"pendingActionIds": w.actions})(details.v))
		}
		answered, asked := w.turn.text("response", "id"), w.turn.text("message", "id")
		p.ask(t, "POST", "/conversations/"+w.id+"/messages/"+answered+"/regenerate", nil).refused(409, "action_pending")
		p.ask(t, "POST", "/conversations/"+w.id+"/messages/"+asked+"/edit", object1{"content": "x"}).refused(409, "action_pending")
		p.ask(t, "POST", "/conversations/"+w.id+"/continue", nil).refused(409, "action_pending")
		before := w.read(t)
		p.ask(t, "PATCH", "/conversations/"+w.id, object1{"title": "Waiting"}).fits(200, anyObject)
		require.Equal(t, before.at("messages").v, w.read(t).at("messages").v)
		require.Equal(t, "waiting", w.status(t))
	})
	t.Run("cancel_while_it_waits", func(t *testing.T) {
		w := p.pause(t, part{Text: "May I?", Calls: []wanted{wipe("sda-7"), use("sweep", object1{"x": "sda-7"})}})
		p.ask(t, "POST", "/conversations/"+w.id+"/cancel", nil).fits(200, object(fields{
			"cancelled": exactly(true), "runId": exactly(w.run), "settled": exactly(true), "cancelledActionIds": exactly(w.actions),
			"stopReason": exactly("cancelled"), "runtime": runtimeRecord(fields{"status": exactly("idle"), "stopReason": exactly("cancelled")}),
		}))
		for n := range w.actions {
			w.resolve(t, n, allow).refused(409, "action_not_pending")
		}
		require.Equal(t, w.actions, texts(w.events(t, "action.cancelled"), "data", "action_id"))
		last := w.read(t).at("messages").list()[1]
		require.Equal(t, "cancelled", last.text("status"))
		require.Equal(t, "May I?", last.text("content"))
		require.Nil(t, last.at("metadata", "pendingActions").v)
		require.Empty(t, shop.uses("wipe", "sda-7"))
		require.Equal(t, "end_turn", p.say(t, w.id, script(part{Text: "fine"})).text("stopReason"))
		p.ask(t, "POST", "/conversations/"+w.id+"/cancel", nil).fits(200, object(fields{
			"cancelled": exactly(false), "settled": exactly(true), "runtime": runtimeRecord(nil),
		}))
	})
	t.Run("delete_while_it_waits", func(t *testing.T) {
		w := p.pause(t, calls(wipe("sda-8")))
		p.ask(t, "DELETE", "/conversations/"+w.id, nil).empty(204)
		w.resolve(t, 0, allow).refused(404, "NOT_FOUND")
		require.Empty(t, shop.uses("wipe", "sda-8"))
	})
	t.Run("one_that_waits_is_deleted_in_bulk", func(t *testing.T) {
		w := p.pause(t, calls(wipe("sda-9")))
		result := p.ask(t, "POST", "/conversations/bulk-delete", object1{"ids": []string{w.id}}).fits(200, anyObject)
		require.Equal(t, "deleted", result.at("results").list()[0].text("status"))
	})
}

func TestSpecSeveralActions(t *testing.T) {
	t.Parallel()
	p, shop := people(t)
	t.Run("turn_goes_on_after_the_last", func(t *testing.T) {
		w := p.pause(t, calls(
			wipe("sdc-1"), use("add", object1{"a": 31, "b": 4}), use("camera", nil),
			use("ask_user", object1{"questions": []any{object1{"question": "Sure?"}}}),
		))
		require.Len(t, w.actions, 3)
		kinds := texts(w.turn.at("pendingActions").list(), "kind")
		require.Equal(t, []string{"tool_approval", "client_tool", "user_question"}, kinds)
		require.NotEmpty(t, shop.uses("add", `"a":31`), "what needs nobody has run")
		first := w.resolve(t, 1, object1{"type": "client_tool", "output": "a picture"}).fits(200, resumedTurn(fields{
			"stopReason": exactly("requires_action"), "status": exactly("requires_action"), "pendingActions": listOf(anyObject),
		}))
		require.Equal(t, []string{w.actions[0], w.actions[2]}, texts(first.at("pendingActions").list(), "id"))
		require.Equal(t, "waiting", w.status(t))
		require.Equal(t, []string{w.actions[0], w.actions[2]}, texts(w.read(t).at("pendingActions").list(), "id"))
		require.Equal(t, []string{w.actions[0], w.actions[2]},
			texts(w.read(t).at("messages").list()[1].at("metadata", "pendingActions").list(), "id"), "the message says the same")
		w.resolve(t, 1, object1{"type": "client_tool", "output": "another"}).refused(409, "action_not_pending")
		w.resolve(t, 0, allow).fits(200, anyObject)
		require.Empty(t, shop.uses("wipe", "sdc-1"), "nothing runs while somebody is asked")
		last := w.resolve(t, 2, object1{"type": "user_question", "answers": object1{"Sure?": "yes"}}).fits(200, resumedTurn(nil))
		require.Equal(t, `done wipe | {"sum":35} | a picture | {"Sure?":"yes"}`, last.text("response", "content"))
		require.Len(t, shop.uses("add", `"a":31`), 1)
	})
	t.Run("a_turn_may_pause_again", func(t *testing.T) {
		w := p.pause(t, part{Text: "One.", Calls: []wanted{wipe("sdc-2")}}, part{Text: "Two.", Calls: []wanted{wipe("sdc-3")}}, part{Text: "Three."})
		again := w.resolve(t, 0, allow).fits(200, anyObject)
		require.Equal(t, "requires_action", again.text("stopReason"))
		require.Equal(t, w.run, again.text("runId"))
		require.Equal(t, "One.\n\nTwo.", again.text("response", "content"))
		w.actions = texts(again.at("pendingActions").list(), "id")
		require.Len(t, w.actions, 1)
		last := w.resolve(t, 0, allow).fits(200, resumedTurn(nil))
		require.Equal(t, "One.\n\nTwo.\n\nThree.", last.text("response", "content"))
		require.Len(t, last.at("response", "toolCalls").list(), 2)
		require.Len(t, w.read(t).at("messages").list(), 2)
		require.NoError(t, exactly(object1{"inputTokens": 30, "outputTokens": 3, "totalTokens": 33})(last.at("usage").v), "of the whole turn")
	})
}

func TestSpecRemembered(t *testing.T) {
	t.Parallel()
	p, shop := people(t)
	w := p.pause(t, calls(wipe("sdd-1")))
	tools := func(t *testing.T) any {
		t.Helper()
		return p.ask(t, "GET", "/conversations/"+w.id+"/remembered-tools", nil).fits(200, object(fields{"tools": listOf(nonEmpty)})).at("tools").v
	}
	require.Equal(t, []any{}, tools(t))
	w.resolve(t, 0, object1{"type": "tool_approval", "decision": "allow", "rememberForSession": true}).fits(200, resumedTurn(nil))
	require.Equal(t, []any{"wipe"}, tools(t))
	require.Equal(t, "wipe", w.events(t, "tool.remembered")[0].text("data", "tool_name"))
	t.Run("runs_without_asking", func(t *testing.T) {
		require.Equal(t, "end_turn", p.say(t, w.id, script(calls(wipe("sdd-2")))).text("stopReason"))
		require.Len(t, shop.uses("wipe", "sdd-2"), 1)
		require.Equal(t, "requires_action", p.say(t, p.newConversation(t, "worker", "actions"), script(calls(wipe("sdd-3")))).text("stopReason"), "in this conversation only")
	})
	t.Run("other_tools_still_ask", func(t *testing.T) {
		turn := p.say(t, w.id, script(calls(wipe("sdd-4"), use("sweep", nil))))
		require.Equal(t, []string{"sweep"}, texts(turn.at("pendingActions").list(), "toolName"))
		w.actions = texts(turn.at("pendingActions").list(), "id")
		w.resolve(t, 0, object1{"type": "tool_approval", "decision": "deny", "rememberForSession": true}).fits(200, resumedTurn(nil))
		require.Equal(t, []any{"wipe"}, tools(t), "a denial is not remembered")
	})
	t.Run("forgotten_asks_again", func(t *testing.T) {
		forget := func(tool string) answer {
			return p.ask(t, "DELETE", "/conversations/"+w.id+"/remembered-tools/"+tool, nil)
		}
		forget("other").refused(404, "NOT_FOUND")
		forget(url.PathEscape("wi/pe")).refused(404, "NOT_FOUND")
		forget("a/b/c").refused(404, "NOT_FOUND")
		forget("wipe").fits(200, exactly(object1{"tools": []string{}}))
		forget("wipe").refused(404, "NOT_FOUND")
		require.Equal(t, "requires_action", p.say(t, w.id, script(calls(wipe("sdd-5")))).text("stopReason"))
		require.Len(t, w.events(t, "tool.forgotten"), 1)
	})
	t.Run("unknown_conversation", func(t *testing.T) {
		for _, method := range []string{"GET", "DELETE"} {
			path := "/conversations/conv_AAAAAAAAAAAAAAAAAAAAA/remembered-tools" + strings.Repeat("/x", len(method)/6)
			p.ask(t, method, path, nil).refused(404, "NOT_FOUND")
		}
	})
}
