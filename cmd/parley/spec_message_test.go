package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSpecSend(t *testing.T) {
	t.Parallel()
	p := open(t)
	t.Run("completed_turn", func(t *testing.T) {
		id := p.newConversation(t, "quick", "send")
		turn := p.ask(t, "POST", "/conversations/"+id+"/messages", `{"message":"hello","metadata":{"k":[1,null]},"stream":false,"unknown":1}`).
			fits(200, turnRecord(fields{
				"message": userMessage(fields{"conversationId": exactly(id), "content": exactly("hello"), "metadata": exactly(map[string]any{"k": []any{1, nil}})}),
				"response": assistantMessage(fields{
					"conversationId": exactly(id), "content": exactly("one two three"), "status": exactly("completed"),
					"metadata": exactly(map[string]string{"status": "completed", "stopReason": "end_turn"}),
				}),
				"usage": exactly(map[string]any{"inputTokens": 1, "outputTokens": 3, "totalTokens": 4}),
			}))
		read := p.ask(t, "GET", "/conversations/"+id, nil).fits(200, anyObject)
		require.Equal(t, []any{turn.at("message").v, turn.at("response").v}, read.at("messages").v, "stored as answered")
	})
	for _, c := range []struct {
		agent  string
		result fields
	}{
		{"capped", fields{"stopReason": exactly("limit"), "status": exactly("incomplete"), "response": assistantMessage(fields{
			"content": exactly("w1 w2 w3"), "status": exactly("incomplete"), "metadata": exactly(map[string]string{"status": "incomplete", "stopReason": "limit"}),
		})}},
		{"looping", fields{"stopReason": exactly("max_turns"), "status": exactly("incomplete"), "response": assistantMessage(fields{
			"status": exactly("incomplete"), "metadata": object(fields{
				"status": exactly("incomplete"), "stopReason": exactly("max_turns"), "toolCallDetails": listOf(object(fields{
					"id": nonEmpty, "name": exactly("lookup"), "args": exactly(map[string]int{"q": 1}), "result": object(fields{"error": nonEmpty}),
				})),
			}),
			"toolCalls": listOf(object(fields{"id": nonEmpty, "name": exactly("lookup"), "arguments": exactly(`{"q":1}`), "error": nonEmpty})),
		})}},
		{"broken", fields{
			"stopReason": exactly("error"), "status": exactly("incomplete"), "error": exactly(map[string]string{"code": "provider_error", "message": "the model broke"}),
			"response": assistantMessage(fields{
				"content": exactly("one two"), "status": exactly("incomplete"), "metadata": exactly(map[string]string{"status": "incomplete", "stopReason": "error"}),
			}),
		}},
		{"mute", fields{
			"stopReason": exactly("error"), "status": exactly("incomplete"), "response": unsaidMessage("incomplete", "error"),
			"error": exactly(map[string]string{"code": "invalid_request", "message": "the model refused"}),
		}},
	} {
		t.Run("turn_of_"+c.agent, func(t *testing.T) {
			id := p.newConversation(t, c.agent, "send")
			turn := p.ask(t, "POST", "/conversations/"+id+"/messages", `{"message":"hello"}`).fits(200, turnRecord(c.result))
			p.ask(t, "GET", "/conversations/"+id, nil).fits(200, object(fields{
				"conversation": conversationRecord(fields{"runtime": runtimeRecord(fields{
					"status": exactly("idle"), "stopReason": exactly(turn.text("stopReason")),
				})}),
				"messages": listOf(anyObject), "messagesPage": anyObject,
			}))
			p.ask(t, "POST", "/conversations/"+id+"/messages", `{"message":"again"}`).fits(200, turnRecord(c.result))
		})
	}
	t.Run("cancelled_turn", func(t *testing.T) {
		id := p.newConversation(t, "slow", "send")
		sender := p.asking(t, "POST", "/conversations/"+id+"/messages", `{"message":"go"}`)
		p.running(t, id)
		follower := p.follow(t, "GET", "/conversations/"+id+"/events/stream", nil)
		require.Equal(t, ": open", follower.block())
		follower.until("agent.message.delta")
		p.ask(t, "POST", "/conversations/"+id+"/cancel", nil).fits(200, anyObject)
		sender().fits(200, turnRecord(fields{
			"stopReason": exactly("cancelled"), "status": exactly("cancelled"), "response": assistantMessage(fields{
				"content": like(`^w1 w2`), "status": exactly("cancelled"), "metadata": exactly(map[string]string{"status": "cancelled", "stopReason": "cancelled"}),
			}),
		}))
	})
	t.Run("text_is_kept_as_it_is", func(t *testing.T) {
		id := p.newConversation(t, "quick", "send")
		for _, text := range []string{
			"  spaces \n\t", "Größe 🙂 \u202e", "quote \" back \\ </script> & \u2028", "control \u0001 nul \u0000 end", strings.Repeat("long ", 20_000),
		} {
			turn := p.say(t, id, text)
			require.Equal(t, text, turn.text("message", "content"))
			read := p.ask(t, "GET", "/conversations/"+id+"?limit=2", nil).fits(200, anyObject)
			require.Equal(t, text, read.at("messages").list()[0].text("content"))
		}
	})
	t.Run("largest_message", func(t *testing.T) {
		id := p.newConversation(t, "quick", "send")
		p.say(t, id, strings.Repeat("x", 256<<10))
		p.ask(t, "POST", "/conversations/"+id+"/messages", map[string]string{"message": strings.Repeat("x", 256<<10+1)}).refused(400, "VALIDATION_ERROR")
	})
	t.Run("turn_does_not_hang_on_the_connection", func(t *testing.T) {
		id := p.newConversation(t, "words", "send")
		s := p.follow(t, "POST", "/conversations/"+id+"/messages", map[string]any{"message": "go", "stream": true})
		s.until("stream.text")
		s.cancel()
		p.idle(t, id)
		read := p.ask(t, "GET", "/conversations/"+id, nil).fits(200, conversationRead(messagesPage{100, "asc", false, false}))
		require.Equal(t, "w1 w2 w3 w4 w5 w6 w7 w8", read.at("messages").list()[1].text("content"))
	})
}

func TestSpecBudget(t *testing.T) {
	t.Parallel()
	p := open(t)
	id := p.ask(t, "POST", "/conversations", `{"agentId":"priced","userId":"budget","budget":{"maxCostUsd":0.004,"onReach":"stop"}}`).
		fits(201, anyObject).text("conversation", "id")
	budget := map[string]any{"maxCostUsd": 0.004, "onReach": "stop"}
	usage := exactly(map[string]any{"inputTokens": 1000, "outputTokens": 500, "totalTokens": 1500, "cachedInputTokens": 100, "costUsd": 0.002})

	t.Run("turns_tell_what_was_spent", func(t *testing.T) {
		for _, spent := range []float64{0.002, 0.004} { // the second costs just what is left, and is whole
			p.ask(t, "POST", "/conversations/"+id+"/messages", `{"message":"hello"}`).fits(200, turnRecord(fields{
				"usage": usage, "budget": exactly(budget), "spentUsd": exactly(spent),
			}))
			p.ask(t, "GET", "/conversations/"+id, nil).fits(200, object(fields{
				"conversation": conversationRecord(fields{"spentUsd": exactly(spent), "budget": exactly(budget)}), "messages": listOf(messageRecord(nil)),
				"messagesPage": anyObject,
			}))
		}
	})
	t.Run("used_up_budget_is_402_and_stores_nothing", func(t *testing.T) {
		before := p.ask(t, "GET", "/conversations/"+id, nil).fits(200, anyObject)
		for _, streamed := range []bool{false, true} {
			details := p.ask(t, "POST", "/conversations/"+id+"/messages", map[string]any{"message": "more", "stream": streamed}).refused(402, "budget_reached")
			require.NoError(t, exactly(map[string]any{"spentUsd": 0.004, "maxCostUsd": 0.004, "onReach": "stop"})(details.v))
		}
		require.Equal(t, before.v, p.ask(t, "GET", "/conversations/"+id, nil).fits(200, anyObject).v)
	})
	t.Run("raised_budget_goes_on", func(t *testing.T) {
		p.ask(t, "PATCH", "/conversations/"+id, `{"budget":{"maxCostUsd":0.007}}`).fits(200, conversationRecord(fields{
			"budget": exactly(map[string]any{"maxCostUsd": 0.007, "onReach": "pause"}), "spentUsd": exactly(0.004), "runtime": runtimeRecord(nil),
		}))
		p.ask(t, "POST", "/conversations/"+id+"/messages", `{"message":"more"}`).fits(200, turnRecord(fields{
			"usage": usage, "budget": anyObject, "spentUsd": exactly(0.006),
		}))
	})
	t.Run("without_a_budget_costs_are_counted", func(t *testing.T) {
		free := p.newConversation(t, "priced", "budget")
		p.ask(t, "POST", "/conversations/"+free+"/messages", `{"message":"hello"}`).fits(200, turnRecord(fields{"usage": usage}))
		read := p.ask(t, "GET", "/conversations/"+free, nil).fits(200, anyObject)
		require.InDelta(t, 0.002, read.number("conversation", "spentUsd"), 0)
	})
}

func TestSpecSendRefusals(t *testing.T) {
	t.Parallel()
	p := open(t)
	id := p.newConversation(t, "quick", "send refusals")
	send := func(t *testing.T, id string, body any) answer {
		t.Helper()
		return p.ask(t, "POST", "/conversations/"+id+"/messages", body)
	}
	for _, c := range []refusal{
		{"no_message", `{}`, 400, "VALIDATION_ERROR"},
		{"no_body", nil, 400, "VALIDATION_ERROR"},
		{"null_message", `{"message":null}`, 400, "VALIDATION_ERROR"},
		{"empty_message", `{"message":""}`, 400, "VALIDATION_ERROR"},
		{"blank_message", `{"message":" \n\t "}`, 400, "VALIDATION_ERROR"},
		{"number_as_message", `{"message":5}`, 400, "VALIDATION_ERROR"},
		{"list_as_message", `{"message":[{"type":"text","text":"x"}]}`, 400, "VALIDATION_ERROR"},
		{"text_as_stream", `{"message":"x","stream":"true"}`, 400, "VALIDATION_ERROR"},
		{"number_as_stream", `{"message":"x","stream":1}`, 400, "VALIDATION_ERROR"},
		{"list_as_metadata", `{"message":"x","metadata":[1]}`, 400, "VALIDATION_ERROR"},
		{"huge_metadata", map[string]any{"message": "x", "metadata": map[string]string{"x": strings.Repeat("x", 65<<10)}}, 400, "VALIDATION_ERROR"},
		{"object_as_files", `{"message":"x","files":{}}`, 400, "VALIDATION_ERROR"},
		{"numbers_as_file_ids", `{"message":"x","fileIds":[1]}`, 400, "VALIDATION_ERROR"},
		{"file_ids_for_an_agent_without_files", `{"message":"x","fileIds":["file_x"]}`, 403, "attachments_disabled"},
		{"files_for_an_agent_without_files", `{"message":"x","files":[{"name":"a","content":"YQ==","mimeType":"text/plain"}]}`, 403, "attachments_disabled"},
		{"bad_utf8", "{\"message\":\"\xff\"}", 400, "VALIDATION_ERROR"},
		{"message_cut_off", `{"message":"x`, 400, "VALIDATION_ERROR"},
	} {
		t.Run(c.name, func(t *testing.T) {
			send(t, id, c.body).refused(c.status, c.code)
			p.ask(t, "GET", "/conversations/"+id+"/events", nil).fits(200, eventsRecord(fields{"lastSeq": exactly(0)}))
		})
	}
	t.Run("empty_file_lists_are_none", func(t *testing.T) {
		send(t, p.newConversation(t, "quick", "send refusals"), `{"message":"x","fileIds":[],"files":[],"metadata":null}`).fits(200, turnRecord(nil))
	})
	t.Run("busy_conversation", func(t *testing.T) {
		slow := p.newConversation(t, "slow", "send refusals")
		first := p.asking(t, "POST", "/conversations/"+slow+"/messages", `{"message":"go"}`)
		run := p.running(t, slow)
		for _, streamed := range []bool{false, true} {
			details := send(t, slow, map[string]any{"message": "me too", "stream": streamed}).refused(409, "conversation_busy")
			require.NoError(t, exactly(map[string]string{"activeRunId": run})(details.v))
		}
		p.ask(t, "POST", "/conversations/"+slow+"/cancel", nil).fits(200, anyObject)
		require.Equal(t, run, first().fits(200, anyObject).text("runId"))
		p.ask(t, "GET", "/conversations/"+slow+"/messages", nil).fits(200, messagePage(fields{"total": exactly(2)}))
	})
	t.Run("of_many_at_once_one_wins", func(t *testing.T) {
		words := p.newConversation(t, "words", "send refusals")
		var senders []func() answer
		for range 8 {
			senders = append(senders, p.asking(t, "POST", "/conversations/"+words+"/messages", `{"message":"me"}`))
		}
		statuses := map[int]int{}
		for _, sender := range senders {
			statuses[sender().status]++
		}
		require.Equal(t, 8, statuses[200]+statuses[409], statuses)
		require.Positive(t, statuses[200])
		require.Positive(t, statuses[409])
		p.ask(t, "GET", "/conversations/"+words+"/messages", nil).fits(200, messagePage(fields{"total": exactly(2 * statuses[200])}))
	})
}

func TestSpecCancel(t *testing.T) {
	t.Parallel()
	p := open(t)
	t.Run("nothing_to_cancel", func(t *testing.T) {
		id := p.newConversation(t, "quick", "cancel")
		p.ask(t, "POST", "/conversations/"+id+"/cancel", nil).fits(200, object(fields{
			"cancelled": exactly(false), "settled": exactly(true), "runtime": runtimeRecord(fields{"status": exactly("idle"), "stopReason": nil, "lastEventSeq": exactly(0)}),
		}))
		p.say(t, id, "hello")
		p.ask(t, "POST", "/conversations/"+id+"/cancel", "anything, for no body is read").fits(200, object(fields{
			"cancelled": exactly(false), "settled": exactly(true), "runtime": runtimeRecord(fields{"stopReason": exactly("end_turn"), "lastEventSeq": exactly(4)}),
		}))
	})
	t.Run("running_turn_is_settled", func(t *testing.T) {
		id := p.newConversation(t, "slow", "cancel")
		sender := p.follow(t, "POST", "/conversations/"+id+"/messages", map[string]any{"message": "go", "stream": true})
		sender.until("stream.text")
		run := p.running(t, id)
		cancelled := p.ask(t, "POST", "/conversations/"+id+"/cancel", nil).fits(200, object(fields{
			"cancelled": exactly(true), "runId": exactly(run), "settled": exactly(true), "cancelledActionIds": exactly([]int{}),
			"stopReason": exactly("cancelled"), "runtime": runtimeRecord(fields{"status": exactly("idle"), "stopReason": exactly("cancelled")}),
		}))
		sender.until("stream.done")
		sender.ends()
		read := p.ask(t, "GET", "/conversations/"+id, nil).fits(200, anyObject)
		require.Equal(t, cancelled.at("runtime").v, read.at("conversation", "runtime").v, "nothing came after the cancel")
		p.ask(t, "POST", "/conversations/"+id+"/cancel", nil).fits(200, object(fields{
			"cancelled": exactly(false), "settled": exactly(true), "runtime": exactly(read.at("conversation", "runtime").v),
		}))
	})
	t.Run("two_at_once", func(t *testing.T) {
		id := p.newConversation(t, "slow", "cancel")
		sender := p.asking(t, "POST", "/conversations/"+id+"/messages", `{"message":"go"}`)
		p.running(t, id)
		first, second := p.asking(t, "POST", "/conversations/"+id+"/cancel", nil), p.asking(t, "POST", "/conversations/"+id+"/cancel", nil)
		for _, a := range []answer{first(), second()} {
			require.True(t, a.fits(200, anyObject).flag("settled"))
		}
		sender().fits(200, anyObject)
		kinds := texts(p.ask(t, "GET", "/conversations/"+id+"/events", nil).fits(200, eventsRecord(nil)).at("events").list(), "type")
		require.Contains(t, kinds, "session.cancel_requested")
		require.Equal(t, "session.status_idle", kinds[len(kinds)-1])
	})
	t.Run("conversation_goes_on", func(t *testing.T) {
		id := p.newConversation(t, "words", "cancel")
		p.asking(t, "POST", "/conversations/"+id+"/messages", `{"message":"go"}`)
		p.running(t, id)
		p.ask(t, "POST", "/conversations/"+id+"/cancel", nil).fits(200, anyObject)
		require.Equal(t, "end_turn", p.say(t, id, "again").text("stopReason"))
	})
}
