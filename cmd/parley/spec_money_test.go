package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// moneyConfig is a node whose models cost a thousandth of a dollar per token of output, metered in steps of eight.
const moneyConfig = `
node: {name: spec-10}
log: {level: warn}
outbound: {allow: [127.0.0.0/8]}
turn: {meter_tokens: 8}
agents:
  - id: talker
    model: {provider: scripted, price: {input: 0, output: 1000}, script: {tokens: 100, token_interval: 1ms}}
  - id: steady
    model: {provider: scripted, price: {input: 0, output: 1000}, script: {tokens: 60, token_interval: 30ms}}
  - id: steps
    model: {provider: scripted, price: {input: 0, output: 1000}, script: {tokens: 100, steps: [{text: "a b c d e f g h i j", tool_calls: [{name: ask, arguments: {}}]}]}}
    tools: [{name: ask, client: true}]
  - id: reader
    instructions: one two three four five six seven eight nine ten
    model: {provider: scripted, price: {input: 1000, output: 1000}, script: {text: "well well"}}
  - id: cached
    model: {provider: scripted, price: {input: 10, cached_input: 1, output: 100}, script: {text: "a b", usage: {input_tokens: 1000, output_tokens: 10, cached_input_tokens: 800}}}
  - id: free
    model: {provider: scripted, script: {text: "free"}}
  - id: thrifty
    default_budget: {max_cost: 0.02, on_reach: stop}
    model: {provider: scripted, price: {input: 0, output: 1000}, script: {tokens: 100}}
  - id: worker
    model: {provider: openai, name: stand-in, base_url: "URL/v1", api_key: k, retries: 0, price: {input: 10, output: 1000}}
    tools: [{name: add, url: URL/tools/add}]
`

// metered is the most that may be spent beyond a budget here: one metering step.
const metered = 0.008

// budgeted creates a conversation with a budget.
func (p *process) budgeted(t *testing.T, agent string, max float64, onReach string) string {
	t.Helper()
	return p.ask(t, "POST", "/conversations", object1{"agentId": agent, "userId": "money", "budget": object1{"maxCostUsd": max, "onReach": onReach}}).
		fits(201, anyObject).text("conversation", "id")
}

func (p *process) spent(t *testing.T, id string) float64 {
	t.Helper()
	return p.ask(t, "GET", "/conversations/"+id, nil).fits(200, anyObject).number("conversation", "spentUsd")
}

// reachedTurn is the result of a turn that the budget cut.
func reachedTurn(over fields) shape {
	return turnRecord(fields{
		"stopReason": exactly("budget_reached"), "status": exactly("incomplete"), "usage": usageRecord(nil), "budget": budgetRecord(), "spentUsd": number,
		"response": assistantMessage(fields{
			"status": exactly("incomplete"), "metadata": exactly(object1{"status": "incomplete", "stopReason": "budget_reached"}),
		}),
	}.with(over))
}

func TestSpecMoney(t *testing.T) {
	t.Parallel()
	shop := openWorkshop(t)
	p := shared.of(t, shop.fill(moneyConfig))
	send := func(t *testing.T, id string) answer {
		t.Helper()
		return p.ask(t, "POST", "/conversations/"+id+"/messages", object1{"message": "go"})
	}
	change := func(t *testing.T, id string, budget any) answer {
		t.Helper()
		return p.ask(t, "PATCH", "/conversations/"+id, object1{"budget": budget})
	}
	resume := func(t *testing.T, id string) answer {
		t.Helper()
		return p.ask(t, "POST", "/conversations/"+id+"/continue", nil)
	}

	t.Run("call_is_cut_in_its_middle", func(t *testing.T) {
		id := p.budgeted(t, "talker", 0.03, "pause")
		turn := send(t, id).fits(200, reachedTurn(nil))
		require.GreaterOrEqual(t, turn.number("spentUsd"), 0.03-metered)
		require.LessOrEqual(t, turn.number("spentUsd"), 0.03+metered)
		require.InDelta(t, turn.number("spentUsd"), turn.number("usage", "costUsd"), 1e-9)
		require.Regexp(t, `^w1 w2 .*w2\d`, turn.text("response", "content"))
		read := p.ask(t, "GET", "/conversations/"+id, nil).fits(200, object(fields{
			"conversation": conversationRecord(fields{
				"continuable": exactly(true), "spentUsd": exactly(turn.number("spentUsd")),
				"runtime": runtimeRecord(fields{"status": exactly("idle"), "stopReason": exactly("budget_reached")}),
			}),
			"messages": exactly([]any{turn.at("message").v, turn.at("response").v}), "messagesPage": anyObject,
		}))
		events := p.ask(t, "GET", "/conversations/"+id+"/events", nil).fits(200, eventsRecord(nil)).at("events").list()
		var spent float64
		kinds := map[string]tree{}
		for _, event := range events {
			kinds[event.text("type")] = event.at("data")
			if event.text("type") == "session.usage" {
				spent += event.number("data", "usage", "cost_usd")
			}
			if event.text("type") == "budget.reserved" {
				require.LessOrEqual(t, event.number("data", "reserved_usd"), 0.03)
			}
		}
		require.InDelta(t, turn.number("spentUsd"), spent, 1e-9, "settled once")
		require.NoError(t, exactly(object1{"max_cost_usd": 0.03, "on_reach": "pause", "spent_usd": spent})(kinds["budget.reached"].v))
		require.True(t, kinds["session.status_idle"].flag("continuable"))

		details := object1{"spentUsd": spent, "maxCostUsd": 0.03, "onReach": "pause"}
		for _, a := range []answer{send(t, id), resume(t, id), p.ask(t, "POST", "/conversations/"+id+"/messages/"+turn.text("response", "id")+"/regenerate", nil)} {
			require.NoError(t, exactly(details)(a.refused(402, "budget_reached").v))
		}
		require.Equal(t, read.v, p.ask(t, "GET", "/conversations/"+id, nil).fits(200, anyObject).v, "nothing is stored")

		change(t, id, object1{"maxCostUsd": 0.2}).fits(200, conversationRecord(fields{"continuable": exactly(true), "runtime": runtimeRecord(nil)}))
		over := resume(t, id).fits(200, object(fields{
			"response": assistantMessage(nil), "usage": usageRecord(nil), "stopReason": exactly("end_turn"), "runId": exactly(turn.text("runId")),
			"budget": budgetRecord(), "spentUsd": number, "conversationTitle": exactly("go"),
		}))
		require.Equal(t, turn.text("response", "id"), over.text("response", "id"))
		require.Contains(t, over.text("response", "content"), turn.text("response", "content"), "it goes on where it stopped")
		require.Greater(t, over.number("spentUsd"), spent)
		require.InDelta(t, over.number("usage", "costUsd"), over.number("spentUsd"), 1e-9)
		require.InDelta(t, over.number("spentUsd"), p.spent(t, id), 1e-9)
		resume(t, id).refused(409, "nothing_to_continue")
		running := p.ask(t, "GET", "/conversations/"+id+"/events?types=session.status_running", nil).fits(200, anyObject).at("events").list()
		require.Equal(t, "continue", running[1].text("data", "mode"))
	})
	t.Run("stop_leaves_nothing_to_continue", func(t *testing.T) {
		id := p.budgeted(t, "talker", 0.03, "stop")
		send(t, id).fits(200, reachedTurn(fields{"spentUsd": number}))
		require.False(t, p.ask(t, "GET", "/conversations/"+id, nil).fits(200, anyObject).flag("conversation", "continuable"))
		change(t, id, object1{"maxCostUsd": 1, "onReach": "stop"}).fits(200, anyObject)
		resume(t, id).refused(409, "nothing_to_continue")
		require.Equal(t, "end_turn", send(t, id).fits(200, anyObject).text("stopReason"))
	})
	t.Run("cut_reached_again", func(t *testing.T) {
		id := p.budgeted(t, "talker", 0.03, "pause")
		send(t, id).fits(200, reachedTurn(nil))
		change(t, id, object1{"maxCostUsd": 0.06}).fits(200, anyObject)
		again := resume(t, id).fits(200, anyObject)
		require.Equal(t, "budget_reached", again.text("stopReason"))
		require.LessOrEqual(t, again.number("spentUsd"), 0.06+metered)
		require.True(t, p.ask(t, "GET", "/conversations/"+id, nil).fits(200, anyObject).flag("conversation", "continuable"))
	})
	t.Run("a_message_takes_the_place_of_the_cut_turn", func(t *testing.T) {
		id := p.budgeted(t, "talker", 0.03, "pause")
		cut := send(t, id).fits(200, reachedTurn(nil))
		change(t, id, object1{"maxCostUsd": 1}).fits(200, anyObject)
		require.Equal(t, "end_turn", send(t, id).fits(200, anyObject).text("stopReason"))
		messages := p.ask(t, "GET", "/conversations/"+id, nil).fits(200, anyObject).at("messages").list()
		require.Len(t, messages, 4)
		require.Equal(t, cut.at("response").v, messages[1].v)
		resume(t, id).refused(409, "nothing_to_continue")
	})
	t.Run("removed_budget_goes_on", func(t *testing.T) {
		id := p.budgeted(t, "talker", 0.03, "pause")
		send(t, id).fits(200, reachedTurn(nil))
		change(t, id, nil).fits(200, conversationRecord(fields{"budget": exactly(nil), "continuable": exactly(true), "runtime": runtimeRecord(nil)}))
		require.Equal(t, "end_turn", resume(t, id).fits(200, anyObject).text("stopReason"))
	})
	t.Run("prompt_that_costs_too_much_is_not_sent", func(t *testing.T) {
		id := p.budgeted(t, "reader", 0.005, "pause")
		turn := send(t, id).fits(200, reachedTurn(fields{"response": unsaidMessage("incomplete", "budget_reached"), "usage": nil, "usage?": anyObject, "spentUsd": exactly(0)}))
		require.Equal(t, "budget_reached", turn.text("stopReason"))
		require.Zero(t, p.spent(t, id))
	})
	t.Run("cached_tokens_have_their_price", func(t *testing.T) {
		id := p.budgeted(t, "cached", 1, "pause")
		// 200 x 10 + 800 x 1 + 10 x 100 millionths
		send(t, id).fits(200, turnRecord(fields{
			"usage":  exactly(object1{"inputTokens": 1000, "outputTokens": 10, "totalTokens": 1010, "cachedInputTokens": 800, "costUsd": 0.0038}),
			"budget": budgetRecord(), "spentUsd": exactly(0.0038),
		}))
		usage := p.ask(t, "GET", "/conversations/"+id+"/events?types=session.usage", nil).fits(200, anyObject).at("events").list()
		require.Len(t, usage, 1)
		require.NoError(t, exactly(object1{"spent_usd": 0.0038, "usage": object1{
			"input_tokens": 1000, "output_tokens": 10, "total_tokens": 1010, "cached_input_tokens": 800, "cost_usd": 0.0038,
		}})(usage[0].at("data").v))
	})
	t.Run("turn_that_ends_by_itself_at_the_limit", func(t *testing.T) {
		id := p.budgeted(t, "worker", 0.3, "pause")
		turn := p.say(t, id, script(part{Text: "done", Usage: []int64{10, 500, 0}})) // it thought more than it said
		require.Equal(t, "end_turn", turn.text("stopReason"))
		require.InDelta(t, 0.5001, turn.number("spentUsd"), 1e-9)
		require.False(t, p.ask(t, "GET", "/conversations/"+id, nil).fits(200, anyObject).flag("conversation", "continuable"))
		require.Len(t, p.ask(t, "GET", "/conversations/"+id+"/events?types=budget.reached", nil).fits(200, anyObject).at("events").list(), 1)
		send(t, id).refused(402, "budget_reached")
		resume(t, id).refused(409, "nothing_to_continue")
		change(t, id, object1{"maxCostUsd": 0.5001}).refused(400, "invalid_budget")
		change(t, id, object1{"maxCostUsd": 1}).fits(200, conversationRecord(fields{"continuable": exactly(false), "runtime": runtimeRecord(nil)}))
		require.Equal(t, "end_turn", p.say(t, id, script(part{Text: "on"})).text("stopReason"))
	})
	t.Run("paused_for_a_person", func(t *testing.T) {
		id := p.budgeted(t, "steps", 0.015, "pause")
		turn := send(t, id).fits(200, anyObject)
		require.Equal(t, "requires_action", turn.text("stopReason"))
		require.InDelta(t, 0.01, p.spent(t, id), 1e-9, "what was spent until then is settled")
		resume(t, id).refused(409, "action_pending")
		resolve := func() answer {
			return p.ask(t, "POST", "/conversations/"+id+"/actions/"+turn.at("pendingActions").list()[0].text("id"), object1{
				"resolution": object1{"type": "client_tool", "output": "x"},
			})
		}
		cut := resolve().fits(200, anyObject)
		require.Equal(t, "budget_reached", cut.text("stopReason"))
		require.LessOrEqual(t, cut.number("spentUsd"), 0.015+metered)
		require.True(t, p.ask(t, "GET", "/conversations/"+id, nil).fits(200, anyObject).flag("conversation", "continuable"))
	})
	t.Run("budget_set_while_a_turn_runs", func(t *testing.T) {
		id := p.newConversation(t, "worker", "money")
		sender := p.asking(t, "POST", "/conversations/"+id+"/messages", object1{"message": script(part{Text: "one two three four five six", Hold: "money-1"})})
		p.running(t, id)
		change(t, id, object1{"maxCostUsd": 0.5}).fits(200, conversationRecord(fields{"runtime": anyObject}))
		change(t, id, object1{"maxCostUsd": 0.4}).fits(200, anyObject)
		close(shop.gate("money-1"))
		turn := sender().fits(200, anyObject)
		require.Equal(t, "end_turn", turn.text("stopReason"))
		require.InDelta(t, 0.0061, turn.number("spentUsd"), 1e-9)
	})
	for name, raised := range map[string]any{"raised": object1{"maxCostUsd": 1}, "removed": nil} {
		t.Run("budget_"+name+"_while_a_turn_runs", func(t *testing.T) {
			id := p.budgeted(t, "steady", 0.03, "stop")
			s := p.follow(t, "POST", "/conversations/"+id+"/messages", object1{"message": "go", "stream": true})
			require.Equal(t, "stream.start", s.frame().event)
			p.partial(t, id)
			change(t, id, raised).fits(200, anyObject)
			var said string
			f := s.frame()
			for ; f.event != "stream.done"; f = s.frame() {
				said += f.data.text("text")
			}
			s.ends()
			require.Equal(t, "end_turn", f.data.text("stopReason"))
			require.Equal(t, said, f.data.text("content"))
			require.Equal(t, said, p.messages(t, id)[1].text("content"))
			require.Greater(t, p.spent(t, id), 0.03+metered)
			require.InDelta(t, p.spent(t, id), f.data.number("usage", "costUsd"), 1e-9)
			require.Empty(t, p.ask(t, "GET", "/conversations/"+id+"/events?types=budget.reached", nil).fits(200, anyObject).at("events").list())
			require.Len(t, p.ask(t, "GET", "/conversations/"+id+"/events?types=session.status_running", nil).fits(200, anyObject).at("events").list(), 1)
		})
	}
	t.Run("provider_that_dies_is_charged_for_what_it_said", func(t *testing.T) {
		id := p.budgeted(t, "worker", 0.5, "pause")
		turn := p.ask(t, "POST", "/conversations/"+id+"/messages", object1{"message": script(part{Text: "one two three four five six seven eight ", Die: true})}).fits(200, anyObject)
		require.Equal(t, "error", turn.text("stopReason"))
		spent := p.spent(t, id)
		require.Positive(t, spent)
		require.Less(t, spent, 0.1)
		require.Equal(t, "end_turn", p.say(t, id, script(part{Text: "fine"})).text("stopReason"))
		require.InDelta(t, spent+0.0011, p.spent(t, id), 1e-9, "once")
	})
	t.Run("every_call_of_a_turn_counts", func(t *testing.T) {
		id := p.budgeted(t, "worker", 0.5, "pause")
		turn := p.say(t, id, script(part{Calls: []wanted{use("add", object1{"a": 61})}, Usage: []int64{1000, 10, 0}}, part{Text: "done", Usage: []int64{2000, 5, 0}}))
		require.NoError(t, exactly(object1{"inputTokens": 3000, "outputTokens": 15, "totalTokens": 3015, "costUsd": 0.045})(turn.at("usage").v))
		var costs []float64
		for _, event := range p.ask(t, "GET", "/conversations/"+id+"/events?types=session.usage", nil).fits(200, anyObject).at("events").list() {
			costs = append(costs, event.number("data", "spent_usd"))
		}
		require.Equal(t, []float64{0.02, 0.045}, costs)
		require.Positive(t, shop.lastAsked(`"a":61`).MaxTokens, "the provider's own cap is what the budget buys")
	})
	t.Run("default_budget", func(t *testing.T) {
		id := p.newConversation(t, "thrifty", "money")
		turn := send(t, id).fits(200, reachedTurn(nil))
		require.NoError(t, exactly(object1{"maxCostUsd": 0.02, "onReach": "stop"})(turn.at("budget").v))
	})
	t.Run("stream_of_a_cut_turn", func(t *testing.T) {
		id := p.budgeted(t, "talker", 0.03, "pause")
		s := p.follow(t, "POST", "/conversations/"+id+"/messages", object1{"message": "go", "stream": true})
		done := s.until("stream.done")
		s.ends()
		require.Equal(t, "budget_reached", done.data.text("stopReason"))
		require.Equal(t, "incomplete", done.data.text("status"))
		require.InDelta(t, p.spent(t, id), done.data.number("spentUsd"), 1e-9)
		change(t, id, object1{"maxCostUsd": 1}).fits(200, anyObject)
		s = p.follow(t, "POST", "/conversations/"+id+"/continue", object1{"stream": true})
		require.Equal(t, "stream.start", s.frame().event)
		var said string
		for f := s.frame(); ; f = s.frame() {
			if f.event == "stream.done" {
				require.Equal(t, "end_turn", f.data.text("stopReason"))
				require.Equal(t, done.data.text("content")+said, f.data.text("content"), "the stream tells what is new")
				break
			}
			said += f.data.text("text")
		}
		s.ends()
	})
	t.Run("cancel_and_delete_of_a_cut_turn", func(t *testing.T) {
		id := p.budgeted(t, "talker", 0.03, "pause")
		send(t, id).fits(200, reachedTurn(nil))
		p.ask(t, "POST", "/conversations/"+id+"/cancel", nil).fits(200, object(fields{"cancelled": exactly(false), "settled": exactly(true), "runtime": runtimeRecord(nil)}))
		p.ask(t, "DELETE", "/conversations/"+id, nil).empty(204)
	})
	t.Run("refusals", func(t *testing.T) {
		for name, budget := range map[string]any{
			"nothing": object1{}, "text": "1", "zero": object1{"maxCostUsd": 0}, "negative": object1{"maxCostUsd": -1}, "huge": `{"maxCostUsd":1e300}`,
			"text_as_cost": object1{"maxCostUsd": "1"}, "unknown_reach": object1{"maxCostUsd": 1, "onReach": "explode"},
		} {
			t.Run(name, func(t *testing.T) {
				p.ask(t, "POST", "/conversations", object1{"agentId": "talker", "budget": budget}).refused(400, "invalid_budget")
			})
		}
		p.ask(t, "POST", "/conversations", object1{"agentId": "free", "budget": object1{"maxCostUsd": 1}}).refused(400, "budget_unavailable")
		change(t, p.newConversation(t, "free", "money"), object1{"maxCostUsd": 1}).refused(400, "budget_unavailable")
		resume(t, p.newConversation(t, "free", "money")).refused(409, "nothing_to_continue")
		resume(t, "conv_AAAAAAAAAAAAAAAAAAAAA").refused(404, "NOT_FOUND")
	})
	t.Run("continue_while_a_turn_runs", func(t *testing.T) {
		id := p.newConversation(t, "worker", "money")
		sender := p.asking(t, "POST", "/conversations/"+id+"/messages", object1{"message": script(part{Text: "x", Hold: "money-2"})})
		p.running(t, id)
		resume(t, id).refused(409, "conversation_busy")
		close(shop.gate("money-2"))
		sender().fits(200, anyObject)
	})
}

// TestSpecMoneyOverRestarts: what was spent, what is cut and what was lost outlive the process.
func TestSpecMoneyOverRestarts(t *testing.T) {
	t.Parallel()
	shop := openWorkshop(t)
	p := newProcess(t, shop.fill(moneyConfig))
	p.start()
	cut := p.budgeted(t, "talker", 0.03, "pause")
	turn := p.say(t, cut, "go")
	running := p.budgeted(t, "worker", 0.5, "pause")
	s := p.follow(t, "GET", "/conversations/"+running+"/events/stream", nil)
	require.Equal(t, ": open", s.block()) // who comes later is told of what was said before by a snapshot
	p.asking(t, "POST", "/conversations/"+running+"/messages", object1{"message": script(part{Text: "one two three", Hold: "money-3"})})
	for s.frame().event != "agent.message.delta" {
		continue
	}
	p.kill()
	close(shop.gate("money-3"))
	p.start()
	require.InDelta(t, turn.number("spentUsd"), p.spent(t, cut), 1e-9)
	require.True(t, p.ask(t, "GET", "/conversations/"+cut, nil).fits(200, anyObject).flag("conversation", "continuable"))
	p.ask(t, "POST", "/conversations/"+cut+"/continue", nil).refused(402, "budget_reached")
	p.ask(t, "PATCH", "/conversations/"+cut, object1{"budget": object1{"maxCostUsd": 1}}).fits(200, anyObject)
	over := p.ask(t, "POST", "/conversations/"+cut+"/continue", nil).fits(200, anyObject)
	require.Equal(t, "end_turn", over.text("stopReason"))
	require.Contains(t, over.text("response", "content"), turn.text("response", "content"))

	p.idle(t, running)
	read := p.ask(t, "GET", "/conversations/"+running, nil).fits(200, anyObject)
	require.Equal(t, "one two three", read.at("messages").list()[1].text("content"))
	spent := read.number("conversation", "spentUsd")
	require.Greater(t, spent, 0.0031, "the lost call is charged, too")
	require.Less(t, spent, 0.0031+0.02, "at what was reserved for it")
}
