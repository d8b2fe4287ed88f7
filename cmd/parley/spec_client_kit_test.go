package main

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// floorConfig is a node whose models are metered in steps of eight tokens, and where a project has two runs at a time.
const floorConfig = `
node: {name: spec-client}
log: {level: warn}
bootstrap_token: ` + houseToken + `
outbound: {allow: [127.0.0.0/8]}
turn: {meter_tokens: 8}
client: {run_concurrency: 2, max_queued_runs: 3}
`

// floor is a tenant with agents of every kind that sessions can have. The model of worker and its tools are the workshop's.
type floor struct {
	*tenant

	shop   *workshop
	agents map[string]string // key by what the agent is
}

// onFloor makes a tenant with agents at the node that these tests share.
func onFloor(t *testing.T) *floor {
	t.Helper()
	shop := openWorkshop(t)
	return newFloor(t, shop, shared.of(t, floorConfig))
}

func newFloor(t *testing.T, shop *workshop, p *process) *floor {
	t.Helper()
	n := &floor{newTenant(t, p, "ON_PREMISE"), shop, map[string]string{}}
	n.done(t, "POST", "/models/providers", object1{
		"key": "shop", "driver": "openai", "settings": object1{"baseUrl": shop.server.URL + "/v1"}, "credentials": object1{"apiKey": "model-secret"},
	})
	n.done(t, "POST", "/models/providers", object1{"key": "play", "driver": "scripted", "settings": object1{}})
	dear := object1{"inputTokenPer1M": 0, "outputTokenPer1M": 1000}
	for key, model := range map[string]object1{
		"stand-in": {"providerKey": "shop", "pricing": object1{"inputTokenPer1M": 10, "outputTokenPer1M": 1000}, "settings": object1{"maxRetries": 0}},
		"talk":     {"providerKey": "play", "pricing": dear, "settings": object1{"script": object1{"tokens": 100, "tokenIntervalMs": 1}}},
		"quick":    {"providerKey": "play", "pricing": dear, "settings": object1{"script": object1{"text": "one two three"}}},
		"broken": {"providerKey": "play", "pricing": object1{}, "settings": object1{"maxRetries": 0, "script": object1{"steps": []any{
			object1{"errorCode": "server_error", "errorMessage": "the model broke", "errorAfterTokens": 2, "text": "a b c"},
		}}}},
	} {
		model["key"], model["name"], model["category"], model["modelId"] = key, key, "llm", key
		n.done(t, "POST", "/models", model)
	}
	background := object1{"background": object1{"enabled": true}}
	tools := []any{
		object1{"name": "wipe", "url": shop.server.URL + "/tools/wipe", "approval": "always", "approvalPrompt": "Really?"},
		object1{"name": "add", "url": shop.server.URL + "/tools/add"},
		object1{"name": "camera", "client": true},
	}
	n.agent(t, "worker", object1{"modelKey": "stand-in", "askUser": true, "tools": tools}, object1{
		"background": object1{"enabled": true}, "files": object1{"enabled": true, "maxFiles": 2, "maxFileSize": 1000},
	})
	n.agent(t, "hasty", object1{"modelKey": "stand-in", "maxTurns": 1, "tools": tools[1:2]}, background)
	n.agent(t, "talker", object1{"modelKey": "talk"}, background)
	n.agent(t, "shy", object1{"modelKey": "talk"}, nil)
	n.agent(t, "quick", object1{"modelKey": "quick"}, background)
	n.agent(t, "broken", object1{"modelKey": "broken"}, background)
	n.agent(t, "bound", object1{"modelKey": "talk"}, object1{
		"background": object1{"enabled": true}, "session_budget": object1{"max_cost_usd": 0.03, "on_reach": "stop"},
	})
	return n
}

// agent makes an agent.
func (n *floor) agent(t *testing.T, name string, config, metadata object1) {
	t.Helper()
	n.agents[name] = n.done(t, "POST", "/agents", object1{"name": name, "config": config, "metadata": metadata}).text("agent", "key")
}

// session makes a session with an agent; more is the rest of the body.
func (n *floor) session(t *testing.T, agent string, more object1) string {
	t.Helper()
	body := object1{"agent": n.agents[agent]}
	for name, value := range more {
		body[name] = value
	}
	return n.done(t, "POST", "/agents/sessions", body).text("id")
}

// respond has an agent answer; more is the rest of the body.
func (n *floor) respond(t *testing.T, agent, input string, more object1, headers ...string) answer {
	t.Helper()
	return n.post(t, "/agents/responses", n.order(agent, input, more), headers...)
}

func (n *floor) order(agent, input string, more object1) object1 {
	body := object1{"model": n.agents[agent], "input": input}
	for name, value := range more {
		body[name] = value
	}
	return body
}

func (b apiCaller) get(t *testing.T, path string) answer {
	t.Helper()
	return b.ask(t, "GET", path, nil)
}

func (b apiCaller) post(t *testing.T, path string, body any, headers ...string) answer {
	t.Helper()
	return b.ask(t, "POST", path, body, headers...)
}

func (b apiCaller) change(t *testing.T, id string, body any) answer {
	t.Helper()
	return b.ask(t, "PATCH", "/agents/sessions/"+id, body)
}

func (b apiCaller) remove(t *testing.T, id string) answer {
	t.Helper()
	return b.ask(t, "DELETE", "/agents/sessions/"+id, nil)
}

// read is a session.
func (b apiCaller) read(t *testing.T, id string) tree {
	t.Helper()
	return b.get(t, "/agents/sessions/"+id).fits(200, sessionShape(nil))
}

// becomes waits until a session has a status.
func (b apiCaller) becomes(t *testing.T, id, status string) tree {
	t.Helper()
	var last tree
	require.Eventually(t, func() bool {
		last = b.read(t, id)
		return last.text("runtime_status") == status
	}, waitLong, waitStep, status)
	return last
}

// coded checks the status and code of a refusal whose text is ours; it returns the body.
func (a answer) coded(status int, code string) tree {
	a.t.Helper()
	return a.fits(status, object(fields{
		"error": nonEmpty, "code": exactly(code), "details?": anyObject, "spent_usd?": number, "max_cost_usd?": number,
	}))
}

// sessionShape is a whole session.
func sessionShape(over fields) shape {
	return object(fields{
		"id": idOf("conv"), "object": exactly("agent.session"), "agent": nonEmpty, "title": anything, "created_at": moment, "updated_at": moment,
		"metadata": anyObject, "runtime_status": oneOf("idle", "running", "requires_action", "budget_paused"),
		"stop_reason":     either(exactly(nil), oneOf("end_turn", "requires_action", "limit", "cancelled", "error", "budget_reached")),
		"pending_actions": listOf(anyObject), "last_event_seq": integer, "budget": anything, "spent_usd": number,
	}.with(over))
}

// waitLong bounds every wait for what must happen; waitStep is how often to look.
const (
	waitLong = 30 * time.Second
	waitStep = 5 * time.Millisecond
)

// summary is the row that the list has of a session.
func summary(session tree, messages int) object1 {
	row := object1{"message_count": messages}
	record, _ := session.v.(map[string]any) // a session was read
	for name, value := range record {
		if name != "pending_actions" {
			row[name] = value
		}
	}
	return row
}

// responseShape is a whole response.
func responseShape(over fields) shape {
	return object(fields{
		"id": like(`^resp_conv_`), "object": exactly("response"), "created_at": integer, "model": nonEmpty,
		"status": oneOf("completed", "failed", "requires_action", "cancelled"), "output": listOf(anyObject),
		"usage": object(fields{
			"input_tokens": integer, "output_tokens": integer, "total_tokens": integer,
			"input_tokens_details": object(fields{"cached_tokens": integer}), "cost_usd?": number,
		}),
		"previous_response_id": anything, "version": anything, "session_id": idOf("conv"), "stop_reason": anything,
		"pending_actions?": listOf(anyObject), "spent_usd": number, "error": anything,
	}.with(over))
}

// wholeShape is a whole response of /responses.
func wholeShape(over fields) shape {
	return responseShape(fields{
		"status": oneOf("completed", "incomplete", "failed", "requires_action", "cancelled"),
		"usage": object(fields{
			"input_tokens": integer, "output_tokens": integer, "total_tokens": integer, "cost_usd?": number,
			"input_tokens_details": object(fields{"cached_tokens": integer}), "output_tokens_details": object(fields{"reasoning_tokens": integer}),
		}),
		"incomplete_details": anything, "instructions": anything, "tools": listOf(anyObject), "tool_choice": anything,
		"parallel_tool_calls": anything, "text": anyObject, "reasoning": anyObject, "temperature": anything, "top_p": anything,
		"max_output_tokens": anything, "metadata": anyObject, "background": exactly(false), "store": exactly(true),
		"truncation": exactly("auto"), "service_tier": exactly("default"), "max_tool_calls": exactly(nil), "top_logprobs": exactly(0),
		"prompt": exactly(nil), "user": anything, "safety_identifier": anything, "prompt_cache_key": anything,
	}.with(over))
}

// said is the text of a response.
func (n tree) said() string {
	n.t.Helper()
	items := n.at("output").list()
	require.Lenf(n.t, items, 1, "%v", n.v)
	return items[0].at("content").list()[0].text("text")
}

// runShape is a whole run.
func runShape(over fields) shape {
	return object(fields{
		"id": idOf("run"), "object": exactly("agent.run"), "status": oneOf("queued", "running", "succeeded", "failed", "canceled", "requires_action"),
		"agent": nonEmpty, "session_id": idOf("conv"), "created_at": moment, "started_at": either(exactly(nil), moment),
		"completed_at": either(exactly(nil), moment), "result": either(exactly(nil), responseShape(nil)),
		"error":    either(exactly(nil), object(fields{"type": nonEmpty, "message": nonEmpty})),
		"callback": either(exactly(nil), callbackShape()),
	}.with(over))
}

// callbackShape is what a run says of its callback.
func callbackShape() shape {
	return object(fields{
		"url": nonEmpty, "signed": either(exactly(true), exactly(false)), "status": oneOf("pending", "delivered", "failed"),
		"event": either(exactly(nil), nonEmpty), "event_id": either(exactly(nil), like(`^evt_[0-9a-f]{32}$`)), "attempts": number,
		"last_attempt_at": either(exactly(nil), moment), "last_error": either(exactly(nil), nonEmpty),
	})
}

// run starts a background run.
func (n *floor) run(t *testing.T, agent, input string, more object1) tree {
	t.Helper()
	body := n.order(agent, input, more)
	body["background"] = true
	return n.post(t, "/agents/responses", body).fits(http.StatusAccepted, runShape(nil))
}

// wait waits until a run is at rest.
func (b apiCaller) wait(t *testing.T, run string) tree {
	t.Helper()
	return b.get(t, "/agents/runs/"+run+"/wait?timeout_ms=60000").fits(200, runShape(nil))
}

// reaches waits until a run has a status.
func (b apiCaller) reaches(t *testing.T, run, status string) tree {
	t.Helper()
	var last tree
	require.Eventually(t, func() bool {
		last = b.get(t, "/agents/runs/"+run).fits(200, runShape(nil))
		return last.text("status") == status
	}, waitLong, waitStep, status)
	return last
}
