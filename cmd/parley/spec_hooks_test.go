package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// hookConfig is a node that asks an application about everything; its agents are the workshop's.
const hookConfig = `
hooks:
  resolve_context: {url: URL/hooks/context, secret: hook-secret, timeout: 3s}
  authorize_budget: {url: URL/hooks/budget, secret: hook-secret, timeout: 3s}
  authorize_resolve: {url: URL/hooks/resolve, secret: hook-secret, timeout: 3s}
  rate_limit: {url: URL/hooks/rate, secret: hook-secret, timeout: 3s}
`

// lenientConfig is a node whose application is not there, and is not needed.
const lenientConfig = `
hooks:
  resolve_context: {url: "http://127.0.0.1:1/", on_error: allow}
  authorize_budget: {url: "http://127.0.0.1:1/", on_error: allow}
  authorize_resolve: {url: "http://127.0.0.1:1/", on_error: allow}
  rate_limit: {url: "http://127.0.0.1:1/", on_error: allow}
`

// pricedAgent follows the agents of a node with hooks.
const pricedAgent = `
  - id: priced
    model: {provider: scripted, price: {input: 1, output: 2}, script: {text: "a b c"}}
`

// cookie is the header by which the application knows a user.
func cookie(user string) []string { return []string{"Cookie", "user=" + user} }

// application has the workshop answer hooks: a user's name, or what is asked for, says how.
func (w *workshop) application() {
	ways := map[string]struct {
		status int
		text   string
	}{
		"user=unknown": {200, `{}`}, "user=locked": {403, `{"message":"account locked"}`}, "user=out": {401, `{}`},
		"user=error": {500, `{"userId":"error"}`}, "user=odd": {200, `{"userId":5}`}, "user=garbage": {200, `not json`}, "user=silent": {0, ""},
		"user=control": {200, `{"userId":"a\u0000b"}`}, "": {200, `{"userId":""}`},
	}
	w.onHook("context", func(question tree) (int, string) {
		sent, _ := question.at("headers", "Cookie").v.(string)
		if way, found := ways[sent]; found {
			return way.status, way.text
		}
		return 200, `{"userId":"` + sent[len("user="):] + `"}`
	})
	w.onHook("rate", func(question tree) (int, string) {
		switch user, _ := question.at("caller", "userId").v.(string); user {
		case "busy":
			return 200, `{"allowed":false,"retryAfter":7,"message":"slow down"}`
		case "flood":
			return 429, `{}`
		case "unsure":
			return 500, `{"allowed":true}`
		case "vague":
			return 200, `{}`
		}
		return 200, `{"allowed":true}`
	})
	w.onHook("budget", func(question tree) (int, string) {
		most, _ := question.at("budget", "maxCostUsd").v.(float64)
		switch {
		case question.at("budget").v == nil || most > 1:
			return 200, `{"allowed":false,"message":"ask your manager"}`
		case most == 0.77:
			return 503, `{}`
		case most == 0.78:
			return 0, ""
		}
		return 200, `{"allowed":true}`
	})
	w.onHook("resolve", func(question tree) (int, string) {
		disk, _ := question.at("args", "disk").v.(string)
		switch decision, _ := question.at("resolution", "decision").v.(string); {
		case disk == "error":
			return 500, `{}`
		case disk == "vague":
			return 200, `{}`
		case decision == "allow" && disk != "mine":
			return 200, `{"allowed":false,"message":"only an administrator may"}`
		}
		return 200, `{"allowed":true}`
	})
}

func TestSpecHooks(t *testing.T) {
	t.Parallel()
	w := openWorkshop(t)
	w.application()
	p := shared.of(t, w.peopleConfig("spec-11", w.fill(hookConfig))+pricedAgent)

	t.Run("context_supplies_the_user", func(t *testing.T) {
		created := p.ask(t, "POST", "/conversations", object1{"agentId": "worker", "userId": "somebody else"}, cookie("ada")...).fits(201, anyObject)
		require.Equal(t, "ada", created.text("conversation", "userId"), "an established identity wins")
		id := created.text("conversation", "id")
		p.ask(t, "GET", "/conversations/"+id, nil, cookie("ada")...).fits(200, anyObject)
		p.ask(t, "GET", "/conversations/"+id, nil, cookie("bob")...).refused(403, "FORBIDDEN")
		p.ask(t, "GET", "/conversations/"+id, nil).refused(403, "FORBIDDEN")
		list := p.ask(t, "GET", "/conversations?userId=bob", nil, cookie("ada")...).fits(200, anyObject)
		require.Equal(t, id, list.at("conversations").list()[0].text("id"))
	})
	t.Run("context_that_names_nobody", func(t *testing.T) {
		for _, headers := range [][]string{nil, cookie("unknown")} {
			p.ask(t, "GET", "/conversations?userId=ada", nil, headers...).refused(401, "identity_required")
		}
	})
	t.Run("context_that_refuses", func(t *testing.T) {
		p.ask(t, "GET", "/agents", nil, cookie("out")...).refused(401, "AUTH_REQUIRED")
		locked := p.ask(t, "GET", "/agents", nil, cookie("locked")...)
		locked.refused(403, "FORBIDDEN")
		require.Equal(t, "account locked", locked.said())
	})
	t.Run("context_fails_closed", func(t *testing.T) {
		for _, user := range []string{"error", "odd", "garbage", "silent", "control"} {
			a := p.ask(t, "GET", "/agents", nil, cookie(user)...)
			require.Equalf(t, 503, a.status, "%s: %s", user, a.text)
		}
	})
	t.Run("rate_limit_refuses", func(t *testing.T) {
		busy := p.ask(t, "GET", "/agents", nil, cookie("busy")...)
		require.InDelta(t, 7, busy.refused(429, "rate_limited").number("retryAfter"), 0)
		require.Equal(t, "7", busy.header.Get("Retry-After"))
		require.Equal(t, "slow down", busy.said())
		for _, user := range []string{"flood", "unsure", "vague"} {
			p.ask(t, "GET", "/agents", nil, cookie(user)...).refused(429, "rate_limited")
		}
		p.ask(t, "GET", "/agents", nil, cookie("ada")...).fits(200, anyObject)
	})
	t.Run("budget_is_raised_by_permission", func(t *testing.T) {
		id := p.ask(t, "POST", "/conversations", object1{"agentId": "priced", "budget": object1{"maxCostUsd": 0.5}}, cookie("ada")...).
			fits(201, anyObject).text("conversation", "id")
		change := func(budget any) answer {
			return p.ask(t, "PATCH", "/conversations/"+id, object1{"budget": budget}, cookie("ada")...)
		}
		refused := change(object1{"maxCostUsd": 2})
		refused.refused(403, "budget_forbidden")
		require.Equal(t, "ask your manager", refused.said())
		change(nil).refused(403, "budget_forbidden")
		change(object1{"maxCostUsd": 0.77}).refused(403, "budget_forbidden")
		change(object1{"maxCostUsd": 0.78}).refused(403, "budget_forbidden")
		read := p.ask(t, "GET", "/conversations/"+id, nil, cookie("ada")...).fits(200, anyObject)
		require.InDelta(t, 0.5, read.number("conversation", "budget", "maxCostUsd"), 0)
		change(object1{"maxCostUsd": 0.9}).fits(200, anyObject)
		change(object1{"maxCostUsd": 0.1}).fits(200, anyObject)
		p.ask(t, "PATCH", "/conversations/"+id, object1{"title": "x"}, cookie("ada")...).fits(200, anyObject)
		p.ask(t, "PATCH", "/conversations/"+id, object1{"budget": object1{"maxCostUsd": 0.2}}, cookie("bob")...).refused(403, "FORBIDDEN")
	})
	t.Run("actions_are_resolved_by_permission", func(t *testing.T) {
		pause := func(disk string) *waiting {
			id := p.newConversation(t, "worker", "", cookie("ada")...)
			turn := p.say(t, id, script(calls(wipe(disk))), cookie("ada")...)
			return &waiting{p: p, id: id, turn: turn, actions: texts(turn.at("pendingActions").list(), "id")}
		}
		w1 := pause("hooked")
		refused := w1.resolve(t, 0, allow, cookie("ada")...)
		refused.refused(403, "action_forbidden")
		require.Equal(t, "only an administrator may", refused.said())
		p.ask(t, "POST", "/conversations/"+w1.id+"/actions/"+w1.actions[0], object1{"resolution": allow, "stream": true}, cookie("ada")...).
			refused(403, "action_forbidden")
		w1.resolve(t, 0, allow, cookie("bob")...).refused(403, "FORBIDDEN")
		w1.resolve(t, 0, deny, cookie("ada")...).fits(200, resumedTurn(nil))
		require.Empty(t, w.uses("wipe", "hooked"))
		for _, disk := range []string{"error", "vague"} {
			unsure := pause(disk)
			unsure.resolve(t, 0, allow, cookie("ada")...).refused(403, "action_forbidden")
			read := p.ask(t, "GET", "/conversations/"+unsure.id, nil, cookie("ada")...).fits(200, anyObject)
			require.Equal(t, "waiting", read.text("conversation", "runtime", "status"))
		}
		pause("mine").resolve(t, 0, allow, cookie("ada")...).fits(200, resumedTurn(nil))
	})
}

// TestSpecHooksThatMayFail: on_error allow.
func TestSpecHooksThatMayFail(t *testing.T) {
	t.Parallel()
	w := openWorkshop(t)
	p := shared.of(t, w.peopleConfig("spec-12", lenientConfig)+pricedAgent)
	id := p.ask(t, "POST", "/conversations", object1{"agentId": "priced", "budget": object1{"maxCostUsd": 0.5}}).fits(201, anyObject).text("conversation", "id")
	p.ask(t, "PATCH", "/conversations/"+id, object1{"budget": object1{"maxCostUsd": 5}}).fits(200, anyObject)
	p.ask(t, "GET", "/conversations", nil).refused(401, "identity_required")
	p.pause(t, calls(wipe("lenient"))).resolve(t, 0, allow).fits(200, resumedTurn(nil))
}
