package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSpecQuestion: the turn waits for a person's answers.
func TestSpecQuestion(t *testing.T) {
	t.Parallel()
	p, _ := people(t)
	questions := object1{"questions": []any{
		object1{"question": "Which?", "header": "Kind", "options": []any{object1{"label": "Red"}, object1{"label": "Blue", "value": "b"}}},
		object1{"question": "Why?", "required": false},
	}}
	ask := func(t *testing.T) *waiting {
		t.Helper()
		return p.pause(t, calls(use("ask_user", questions)))
	}
	t.Run("is_shown_whole", func(t *testing.T) {
		shown := []any{
			object1{
				"question": "Which?", "header": "Kind", "multiSelect": false, "required": true,
				"options": []any{object1{"label": "Red", "value": "Red"}, object1{"label": "Blue", "value": "b"}},
			},
			object1{"question": "Why?", "multiSelect": false, "required": false},
		}
		require.NoError(t, pausedTurn(exactly1(pendingAction("user_question", fields{
			"toolName": exactly("ask_user"), "questions": exactly(shown), "args": exactly(questions),
			"details": exactly(object1{"questions": shown, "allowFreeText": true}),
		})))(ask(t).turn.v))
	})
	for name, answers := range map[string]string{
		"answers_by_text": `{"Which?":"Red"}`, "answers_with_values": `{"Which?":{"values":["b"],"freeText":"or not"}}`, "answers_by_header": `{"Kind":"Red","Why?":"so"}`,
	} {
		t.Run(name, func(t *testing.T) {
			w := ask(t)
			result := p.ask(t, "POST", "/conversations/"+w.id+"/actions/"+w.actions[0], `{"resolution":{"type":"user_question","answers":`+answers+`}}`)
			require.Equal(t, answers, result.fits(200, resumedTurn(nil)).text("response", "content"), "the model reads the answers")
		})
	}
	t.Run("person_will_not_answer", func(t *testing.T) {
		result := ask(t).resolve(t, 0, object1{"type": "user_question", "cancelled": true}).fits(200, resumedTurn(nil))
		require.Contains(t, result.text("response", "content"), "did not answer")
	})
	t.Run("refusals", func(t *testing.T) {
		w := ask(t)
		for _, bad := range []object1{
			allow,
			{"type": "user_question"},
			{"type": "user_question", "answers": "Red"},
			{"type": "user_question", "answers": []string{"Red"}},
			{"type": "user_question", "answers": nil},
			{"type": "user_question", "answers": object1{}},
			{"type": "user_question", "answers": object1{"Which?": ""}},
			{"type": "user_question", "answers": object1{"Which?": "Red", "Who?": "me"}},
			{"type": "user_question", "answers": object1{"Which?": []string{"Red", "Blue"}}},
			{"type": "user_question", "answers": object1{"Which?": strings.Repeat("x", 64<<10)}},
			{"type": "client_tool", "output": "Red"},
		} {
			w.resolve(t, 0, bad).refused(400, "VALIDATION_ERROR")
		}
		require.Equal(t, "waiting", w.status(t))
	})
}

// TestSpecClientTool: the caller's side runs the tool.
func TestSpecClientTool(t *testing.T) {
	t.Parallel()
	p, _ := people(t)
	photo := func(t *testing.T) *waiting {
		t.Helper()
		return p.pause(t, calls(use("camera", object1{"zoom": 2})))
	}
	require.NoError(t, pausedTurn(exactly1(pendingAction("client_tool", fields{"toolName": exactly("camera"), "args": exactly(object1{"zoom": 2})})))(photo(t).turn.v))
	for name, c := range map[string]struct {
		resolution object1
		read       string
	}{
		"output_of_text":   {object1{"output": "a cat"}, "a cat"},
		"output_of_object": {object1{"output": object1{"seen": []string{"cat"}}}, `{"seen":["cat"]}`},
		"output_of_null":   {object1{"output": nil}, "null"},
		"output_of_number": {object1{"output": 1.5}, "1.5"},
		"error":            {object1{"error": "no film"}, "error: no film"},
		"largest_output":   {object1{"output": strings.Repeat("x", 64<<10-2)}, strings.Repeat("x", 64<<10-2)},
	} {
		t.Run(name, func(t *testing.T) {
			resolution := object1{"type": "client_tool"}
			for key, value := range c.resolution {
				resolution[key] = value
			}
			require.Equal(t, c.read, photo(t).resolve(t, 0, resolution).fits(200, resumedTurn(nil)).text("response", "content"))
		})
	}
	t.Run("refusals", func(t *testing.T) {
		w := photo(t)
		w.resolve(t, 0, object1{"type": "client_tool", "output": strings.Repeat("x", 64<<10-1)}).refused(400, "invalid_client_tool_result")
		w.resolve(t, 0, object1{"type": "client_tool", "error": strings.Repeat("x", 64<<10+1)}).refused(400, "invalid_client_tool_result")
		for _, bad := range []object1{{"type": "client_tool"}, {"type": "client_tool", "error": 5}, allow} {
			w.resolve(t, 0, bad).refused(400, "VALIDATION_ERROR")
		}
		require.Equal(t, "waiting", w.status(t))
	})
}

// idleAt waits until a conversation is idle.
func (w *waiting) idle(t *testing.T) tree {
	t.Helper()
	w.p.idle(t, w.id)
	return w.read(t)
}

// TestSpecExpiry: an action that nobody decides in time lapses, and its turn goes on without it.
func TestSpecExpiry(t *testing.T) {
	t.Parallel()
	p, shop := people(t)
	t.Run("denied", func(t *testing.T) {
		w := p.pause(t, part{Text: "Soon?", Calls: []wanted{use("soon", object1{"x": "late-1"})}})
		read := w.idle(t)
		require.Contains(t, read.at("messages").list()[1].text("content"), "nobody approved")
		w.resolve(t, 0, allow).refused(410, "action_expired")
		require.Equal(t, w.actions, texts(w.events(t, "action.expired"), "data", "action_id"))
		require.Empty(t, shop.uses("soon", "late-1"))
		require.Equal(t, "end_turn", read.text("conversation", "runtime", "stopReason"))
	})
	t.Run("client_that_is_away", func(t *testing.T) {
		require.Contains(t, p.pause(t, calls(use("snap", nil))).idle(t).at("messages").list()[1].text("content"), "timed out")
	})
	t.Run("others_stay_pending", func(t *testing.T) {
		w := p.pause(t, calls(use("soon", nil), wipe("sde-1")))
		require.Eventually(t, func() bool { return len(w.events(t, "action.expired")) == 1 }, 30*time.Second, 10*time.Millisecond)
		require.Equal(t, w.actions[1:], texts(w.read(t).at("pendingActions").list(), "id"))
		w.resolve(t, 0, allow).refused(410, "action_expired")
		result := w.resolve(t, 1, allow).fits(200, resumedTurn(nil))
		require.Regexp(t, `^error: .*nobody approved.* \| done wipe$`, result.text("response", "content"))
	})
}

// hastyConfig is a node on which an action that lapses ends its turn, a message takes the place of what waits, and who
// resolves does not wait long.
const hastyConfig = `
hitl: {on_timeout: cancel, pending_action_policy: cancel, resolve_wait: 4s, client_tool_max_output: 10B}
`

func TestSpecHasty(t *testing.T) {
	t.Parallel()
	shop := openWorkshop(t)
	p := shared.of(t, shop.peopleConfig("spec-8", hastyConfig))
	t.Run("lapse_cancels_the_turn", func(t *testing.T) {
		w := p.pause(t, part{Text: "May I?", Calls: []wanted{use("soon", object1{"x": "sdf-1"}), wipe("sdf-1")}})
		read := w.idle(t)
		require.Equal(t, "cancelled", read.text("conversation", "runtime", "stopReason"))
		require.Equal(t, "cancelled", read.at("messages").list()[1].text("status"))
		w.resolve(t, 0, allow).refused(410, "action_expired")
		w.resolve(t, 1, allow).refused(409, "action_not_pending")
		require.Empty(t, shop.uses("", "sdf-1"))
		require.Equal(t, "end_turn", p.say(t, w.id, script(part{Text: "go on"})).text("stopReason"))
	})
	t.Run("message_takes_the_place", func(t *testing.T) {
		w := p.pause(t, calls(wipe("sdf-2")))
		turn := p.say(t, w.id, script(part{Text: "as you like"}))
		require.Equal(t, "end_turn", turn.text("stopReason"))
		w.resolve(t, 0, allow).refused(409, "action_not_pending")
		messages := w.read(t).at("messages").list()
		require.Len(t, messages, 4)
		require.Equal(t, "cancelled", messages[1].text("status"))
		require.Nil(t, messages[1].at("metadata", "pendingActions").v)
		require.Equal(t, w.actions, texts(w.events(t, "action.cancelled"), "data", "action_id"))
		require.Empty(t, shop.uses("wipe", "sdf-2"))
	})
	t.Run("who_cannot_wait_is_told_that_it_runs", func(t *testing.T) {
		w := p.pause(t, calls(wipe("sdf-3")), part{Text: "Working.", Hold: "sdf-3"})
		w.resolve(t, 0, allow).fits(202, object(fields{
			"runId": exactly(w.run), "status": exactly("running"),
			"response": assistantMessage(fields{"content": exactly(""), "status": exactly("running"), "metadata": exactly(object1{"status": "running"})}),
		}))
		require.Equal(t, "running", w.status(t))
		w.resolve(t, 0, allow).refused(409, "action_not_pending")
		details := p.ask(t, "POST", "/conversations/"+w.id+"/messages", object1{"message": "x"}).refused(409, "conversation_busy")
		require.Equal(t, w.run, details.text("activeRunId"))
		close(shop.gate("sdf-3"))
		require.Equal(t, "Working.", w.idle(t).at("messages").list()[1].text("content"))
		require.Len(t, shop.uses("wipe", "sdf-3"), 1)
	})
	t.Run("output_over_the_configured_size", func(t *testing.T) {
		w := p.pause(t, calls(use("camera", nil)))
		w.resolve(t, 0, object1{"type": "client_tool", "output": "123456789"}).refused(400, "invalid_client_tool_result")
		w.resolve(t, 0, object1{"type": "client_tool", "output": "12345678"}).fits(200, resumedTurn(nil))
	})
}
