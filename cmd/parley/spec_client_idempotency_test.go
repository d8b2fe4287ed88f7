package main

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// keyed is the header of a request that may be repeated.
func keyed(key string) []string { return []string{"Idempotency-Key", key} }

// TestClientIdempotency: the same request with the same key is done once.
func TestClientIdempotency(t *testing.T) {
	t.Parallel()
	n := onFloor(t)
	sessions := func() int { return len(n.done(t, "GET", "/agents/sessions?limit=100", nil).at("data").list()) }
	messages := func(id string) int {
		return len(n.done(t, "GET", "/agents/sessions/"+id+"/messages", nil).at("data").list())
	}
	same := func(t *testing.T, first, again answer) {
		t.Helper()
		require.Empty(t, first.header.Get("Idempotency-Replayed"))
		require.Equal(t, "true", again.header.Get("Idempotency-Replayed"))
		require.Equal(t, []any{first.status, first.text, first.header.Get("Content-Type")}, []any{again.status, again.text, again.header.Get("Content-Type")})
	}
	t.Run("session", func(t *testing.T) {
		body := object1{"agent": n.agents["quick"], "title": "once"}
		first := n.post(t, "/agents/sessions", body, keyed("s-1")...)
		first.fits(201, sessionShape(nil))
		same(t, first, n.post(t, "/agents/sessions", body, keyed("s-1")...))
		require.Equal(t, 1, sessions())
		n.post(t, "/agents/sessions", object1{"agent": n.agents["quick"], "title": "other"}, keyed("s-1")...).coded(409, "idempotency_conflict")
		require.Equal(t, 1, sessions())
		other := n.post(t, "/agents/sessions", body, keyed("s-2")...).fits(201, sessionShape(nil))
		require.NotEqual(t, decode(t, first.text).text("id"), other.text("id"))
		n.remove(t, other.text("id")).fits(200, anyObject)
	})
	t.Run("response", func(t *testing.T) {
		id := n.session(t, "quick", nil)
		order := n.order("quick", "once", object1{"session_id": id})
		first := n.post(t, "/agents/responses", order, keyed("r-1")...)
		first.fits(200, responseShape(nil))
		same(t, first, n.post(t, "/agents/responses", order, keyed("r-1")...))
		require.Equal(t, 2, messages(id))
		n.post(t, "/agents/responses", n.order("quick", "twice", object1{"session_id": id}), keyed("r-1")...).coded(409, "idempotency_conflict")
		fresh := n.post(t, "/agents/responses", n.order("quick", "new", nil), keyed("r-2")...)
		same(t, fresh, n.post(t, "/agents/responses", n.order("quick", "new", nil), keyed("r-2")...))
		alias := n.post(t, "/responses", order, keyed("r-1")...)
		alias.fits(200, wholeShape(nil))
		require.Empty(t, alias.header.Get("Idempotency-Replayed"), "a key belongs to its route")
	})
	t.Run("run", func(t *testing.T) {
		order := n.order("quick", "once", object1{"background": true})
		first := n.post(t, "/agents/responses", order, keyed("b-1")...)
		run := first.fits(202, runShape(nil))
		require.Equal(t, "succeeded", n.wait(t, run.text("id")).text("status"))
		same(t, first, n.post(t, "/agents/responses", order, keyed("b-1")...))
		require.Equal(t, 2, messages(run.text("session_id")))
	})
	t.Run("refusal_is_not_kept", func(t *testing.T) {
		id := n.session(t, "worker", nil)
		order := n.order("worker", script(part{Text: "x", Hold: "idem"}), object1{"session_id": id})
		came := n.p.asking(t, "POST", n.url("/agents/responses"), order, "Authorization", "Bearer "+n.token)
		n.becomes(t, id, "running")
		second := n.order("worker", "on", object1{"session_id": id})
		n.post(t, "/agents/responses", second, keyed("c-1")...).coded(409, "agent_run_conflict")
		close(n.shop.gate("idem"))
		came().fits(200, responseShape(nil))
		n.post(t, "/agents/responses", second, keyed("c-1")...).fits(200, responseShape(fields{"status": exactly("completed")}))
		require.Equal(t, 4, messages(id))
	})
	t.Run("another_user", func(t *testing.T) {
		_, ann := n.user(t, "user", nil)
		body := object1{"agent": n.agents["quick"], "title": "once"}
		mine := n.post(t, "/agents/sessions", body, keyed("u-1")...).fits(201, sessionShape(nil))
		hers := ann.post(t, "/agents/sessions", body, keyed("u-1")...)
		require.Empty(t, hers.header.Get("Idempotency-Replayed"))
		require.NotEqual(t, mine.text("id"), hers.fits(201, sessionShape(nil)).text("id"))
		ann.post(t, "/agents/sessions", object1{"agent": n.agents["talker"]}, keyed("u-1")...).coded(409, "idempotency_conflict")
	})
	t.Run("at_the_same_time", func(t *testing.T) {
		before := sessions()
		order := n.order("worker", script(part{Text: "once", Calls: []wanted{use("add", object1{"a": 71, "b": 1})}}), nil)
		var all []func() answer
		for range 12 {
			all = append(all, n.p.asking(t, "POST", n.url("/agents/responses"), order, "Authorization", "Bearer "+n.token, "Idempotency-Key", "d-1"))
		}
		ids := map[string]bool{}
		for _, came := range all {
			ids[came().fits(200, responseShape(fields{"status": exactly("completed")})).text("session_id")] = true
		}
		require.Len(t, ids, 1)
		require.Equal(t, before+1, sessions())
		require.Len(t, n.shop.uses("add", `"a":71`), 1)
		for id := range ids {
			require.Equal(t, 2, messages(id))
		}
	})
	t.Run("bad_keys", func(t *testing.T) {
		for _, key := range []string{strings.Repeat("k", 256), "é"} {
			n.post(t, "/agents/sessions", object1{"agent": n.agents["quick"]}, keyed(key)...).coded(400, "invalid_request")
		}
		n.post(t, "/agents/sessions", object1{"agent": n.agents["quick"]}, keyed(strings.Repeat("k", 255))...).fits(201, sessionShape(nil))
	})
}

// TestClientOverRestarts: what was answered under a key, and runs in every state, outlive the process.
func TestClientOverRestarts(t *testing.T) {
	t.Parallel()
	shop := openWorkshop(t)
	p := newProcess(t, strings.Replace(floorConfig, "spec-client", "spec-client-again", 1))
	require.NoError(t, os.MkdirAll(p.dir, 0o700))
	p.start()
	n := newFloor(t, shop, p)
	r := newReceiver(t)
	callback := func(path string) object1 {
		return object1{"callback_url": r.URL + path, "callback_secret": callbackSecret}
	}
	create, order := object1{"agent": n.agents["quick"], "title": "once"}, n.order("quick", "once", nil)
	session := n.post(t, "/agents/sessions", create, keyed("k-1")...)
	response := n.post(t, "/agents/responses", order, keyed("k-2")...)
	asks := n.run(t, "worker", script(calls(wipe("kill-1")), part{Text: "wiped"}), callback("/asks"))
	require.Equal(t, "requires_action", n.wait(t, asks.text("id")).text("status"))
	action := n.read(t, asks.text("session_id")).at("pending_actions").list()[0].text("id")
	r.got(t, "/asks", 1)
	var runs []tree // two run, three wait for their place
	for i, mark := range []string{"a", "b", "c", "d", "e"} {
		runs = append(runs, n.run(t, "worker", script(part{Text: "add", Calls: []wanted{use("add", object1{"a": 810 + i, "b": 0})}}, part{Text: mark, Hold: "kill"}), callback("/"+mark)))
	}
	for _, run := range runs[:2] {
		n.reaches(t, run.text("id"), "running")
	}
	require.Eventually(t, func() bool { return len(shop.uses("add", `"a":810`))+len(shop.uses("add", `"a":811`)) == 2 }, waitLong, waitStep)
	cut := n.p.asking(t, "POST", n.url("/agents/responses"), n.order("worker", script(part{Text: "late", Hold: "kill"}), nil),
		"Authorization", "Bearer "+n.token, "Idempotency-Key", "k-3")
	require.Eventually(t, func() bool { return shop.lastAsked(`"late"`) != nil }, waitLong, waitStep)
	cutID := n.done(t, "GET", "/agents/sessions?limit=1", nil).at("data").list()[0].text("id")
	p.kill()
	_ = cut // nobody answers it any more
	p.start()
	t.Run("answers", func(t *testing.T) {
		for path, c := range map[string]struct {
			body  any
			key   string
			first answer
		}{"/agents/sessions": {create, "k-1", session}, "/agents/responses": {order, "k-2", response}} {
			again := n.post(t, path, c.body, keyed(c.key)...)
			require.Equal(t, []any{"true", c.first.status, c.first.text}, []any{again.header.Get("Idempotency-Replayed"), again.status, again.text})
		}
		n.post(t, "/agents/sessions", object1{"agent": n.agents["quick"]}, keyed("k-1")...).coded(409, "idempotency_conflict")
	})
	t.Run("runs", func(t *testing.T) {
		states := map[string]int{}
		for _, run := range runs {
			states[n.get(t, "/agents/runs/"+run.text("id")).fits(200, runShape(nil)).text("status")]++
		}
		require.Equal(t, 5, states["running"]+states["queued"], states)
		require.Equal(t, "requires_action", n.get(t, "/agents/runs/"+asks.text("id")).fits(200, runShape(nil)).text("status"))
		close(shop.gate("kill"))
		for i, run := range runs {
			ended := n.wait(t, run.text("id"))
			require.Equal(t, "succeeded", ended.text("status"), ended.v)
			require.Len(t, shop.uses("add", []string{`"a":810`, `"a":811`, `"a":812`, `"a":813`, `"a":814`}[i]), 1, "no effect twice")
			require.Len(t, n.done(t, "GET", "/agents/sessions/"+run.text("session_id")+"/messages", nil).at("data").list(), 2)
			callbackSigned(t, r.got(t, "/"+[]string{"a", "b", "c", "d", "e"}[i], 1)[0], callbackSecret)
		}
		n.post(t, "/agents/sessions/"+asks.text("session_id")+"/actions/"+action, object1{"resolution": allow}).fits(http.StatusAccepted, runShape(nil))
		require.Eventually(t, func() bool { return n.wait(t, asks.text("id")).text("status") == "succeeded" }, waitLong, waitStep)
		require.Len(t, shop.uses("wipe", "kill-1"), 1)
		posts := r.got(t, "/asks", 2)
		require.Equal(t, []string{"agent_run.requires_action", "agent_run.succeeded"}, []string{posts[0].header.Get("X-Service-Event"), posts[1].header.Get("X-Service-Event")})
	})
	t.Run("request_that_was_cut_short", func(t *testing.T) {
		again := n.post(t, "/agents/responses", n.order("worker", script(part{Text: "late", Hold: "kill"}), nil), keyed("k-3")...).
			fits(200, responseShape(fields{"status": exactly("completed")}))
		require.Equal(t, cutID, again.text("session_id"), "the same session")
		require.Len(t, n.done(t, "GET", "/agents/sessions/"+cutID+"/messages", nil).at("data").list(), 2)
	})
}

// TestIdempotentEverywhere: the same request twice with one key makes one thing, on all surfaces.
func TestIdempotentEverywhere(t *testing.T) {
	t.Parallel()
	n := onFloor(t)
	same := func(t *testing.T, first, again answer) {
		t.Helper()
		require.Less(t, first.status, 300, first.text)
		require.Equal(t, "true", again.header.Get("Idempotency-Replayed"), again.text)
		require.Equal(t, []any{first.status, first.text}, []any{again.status, again.text})
	}
	twice := func(path string, body any) func(t *testing.T) {
		return func(t *testing.T) {
			t.Helper()
			first := n.post(t, path, body, keyed(path)...)
			same(t, first, n.post(t, path, body, keyed(path)...))
		}
	}
	agents := func() int { return len(n.done(t, "GET", "/agents?limit=500", nil).at("agents").list()) }
	before := agents()
	t.Run("agent", twice("/agents", object1{"name": "once", "config": object1{"modelKey": "scripted"}}))
	require.Equal(t, before+1, agents())
	key := n.newAgent(t, object1{"name": "pub", "config": object1{"modelKey": "scripted"}})
	t.Run("publish", twice("/agents/"+key+"/publish", object1{}))
	require.Equal(t, "1", fmt.Sprint(n.done(t, "GET", "/agents/"+key, nil).at("agent", "latestVersion").v))
	t.Run("user", twice("/users", object1{"name": "once", "role": "user"}))
	t.Run("token", func(t *testing.T) {
		made := object1{"label": "once"}
		first := n.post(t, "/users/"+n.owner+"/tokens", made, keyed("tok")...)
		same(t, first, n.post(t, "/users/"+n.owner+"/tokens", made, keyed("tok")...))
		notInFiles(t, n.p.dir, decode(t, first.text).text("token"))
	})
	t.Run("provider", twice("/models/providers", object1{"key": "once", "driver": "scripted", "settings": object1{}}))
	t.Run("model", twice("/models", object1{
		"key": "once", "name": "once", "providerKey": "once", "modelId": "scripted", "category": "llm", "pricing": object1{}, "settings": object1{},
	}))
	t.Run("gateway", twice("/chat/completions", object1{"model": "quick", "messages": []any{object1{"role": "user", "content": "once"}}}))
	t.Run("refused_may_be_tried_again", func(t *testing.T) {
		for range 2 {
			n.post(t, "/agents", object1{"name": ""}, keyed("bad")...).coded(400, "invalid_request")
		}
	})
	t.Run("response", func(t *testing.T) {
		id := n.session(t, "quick", nil)
		order := n.order("quick", "once", object1{"session_id": id})
		first := n.post(t, "/responses", order, keyed("resp")...)
		same(t, first, n.post(t, "/responses", order, keyed("resp")...))
		require.Len(t, n.done(t, "GET", "/agents/sessions/"+id+"/messages", nil).at("data").list(), 2)
	})
	t.Run("conversation_server", func(t *testing.T) {
		made := object1{"agentId": "assistant"}
		first := n.p.ask(t, "POST", "/conversations", made, keyed("conv")...)
		same(t, first, n.p.ask(t, "POST", "/conversations", made, keyed("conv")...))
		id := decode(t, first.text).text("conversation", "id")
		at := "/conversations/" + id + "/messages"
		said := object1{"message": "once", "stream": false}
		one := n.p.ask(t, "POST", at, said, keyed("msg")...)
		same(t, one, n.p.ask(t, "POST", at, said, keyed("msg")...))
		streamed := object1{"message": "twice", "stream": true}
		require.Equal(t, 200, n.p.ask(t, "POST", at, streamed, keyed("str")...).status)
		n.p.ask(t, "POST", at, streamed, keyed("str")...).refused(409, "idempotency_conflict")
		n.p.idle(t, id)
		messages := n.p.ask(t, "GET", at, nil).fits(200, anyObject).at("messages").list()
		require.Len(t, messages, 4)
		last := at + "/" + messages[3].text("id") + "/regenerate"
		again := n.p.ask(t, "POST", last, object1{"stream": false}, keyed("again")...)
		same(t, again, n.p.ask(t, "POST", last, object1{"stream": false}, keyed("again")...))
		edit, edited := at+"/"+messages[2].text("id")+"/edit", object1{"message": "thrice", "stream": false}
		one = n.p.ask(t, "POST", edit, edited, keyed("edit")...)
		same(t, one, n.p.ask(t, "POST", edit, edited, keyed("edit")...))
	})
	t.Run("task", func(t *testing.T) {
		made := object1{"agentId": "assistant", "input": "once"}
		first := n.p.ask(t, "POST", "/tasks", made, keyed("task")...)
		same(t, first, n.p.ask(t, "POST", "/tasks", made, keyed("task")...))
		at := "/tasks/" + decode(t, first.text).text("task", "id")
		require.Eventually(t, func() bool {
			return n.p.ask(t, "GET", at, nil).fits(200, anyObject).text("task", "status") == "completed"
		}, waitLong, waitStep)
		said := object1{"content": "once"}
		comment := n.p.ask(t, "POST", at+"/comments", said, keyed("comment")...)
		same(t, comment, n.p.ask(t, "POST", at+"/comments", said, keyed("comment")...))
	})
}
