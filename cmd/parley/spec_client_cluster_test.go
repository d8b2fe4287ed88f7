package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// busyModel is a model that counts how many turns call it at once. It answers nobody before there were two.
type busyModel struct {
	*httptest.Server

	two chan struct{} // closed once two were there at once
	mu  struct {
		sync.Mutex
		now, most, calls int
	}
}

func newBusyModel(t *testing.T) *busyModel {
	t.Helper()
	b := &busyModel{two: make(chan struct{})}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.count(1)
		defer b.count(-1)
		_, _ = io.Copy(io.Discard, r.Body) // what is asked does not matter
		w.Header().Set("Content-Type", "text/event-stream")
		select {
		case <-b.two:
		case <-r.Context().Done():
		}
		select {
		case <-time.After(50 * time.Millisecond): // for a third to come
		case <-r.Context().Done():
		}
		const head = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"busy",`
		_, _ = io.WriteString(w, head+`"choices":[{"index":0,"delta":{"content":"ok"},"finish_reason":"stop"}]}`+"\n\n"+
			head+`"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`+"\n\ndata: [DONE]\n\n") // who has left does not read it
	}))
	t.Cleanup(b.Close)
	return b
}

func (b *busyModel) count(by int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.now += by
	if b.mu.most < 2 && b.mu.now == 2 {
		close(b.two)
	}
	b.mu.most = max(b.mu.most, b.mu.now)
	b.mu.calls += max(by, 0)
}

func (b *busyModel) books() (most, calls int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.most, b.mu.calls
}

// insist asks until there is an answer besides that nobody can answer now.
func (b apiCaller) insist(t *testing.T, method, path string, body any, headers ...string) answer {
	t.Helper()
	var a answer
	require.Eventually(t, func() bool {
		a = b.ask(t, method, path, body, headers...)
		return a.status != http.StatusServiceUnavailable
	}, waitLong, 20*time.Millisecond, path)
	return a
}

// ends waits until a run is over.
func (b apiCaller) ends(t *testing.T, run, status string) tree {
	t.Helper()
	var last tree
	require.Eventually(t, func() bool {
		last = b.insist(t, "GET", "/agents/runs/"+run+"/wait?timeout_ms=5000", nil).fits(200, runShape(nil))
		return last.text("status") == status
	}, waitLong, waitStep, status)
	return last
}

// TestClientOverNodes: any node takes any request, and what is under way outlives its node.
func TestClientOverNodes(t *testing.T) {
	t.Parallel()
	shop := openWorkshop(t)
	file := filepath.Join(t.TempDir(), "client.yaml")
	require.NoError(t, os.WriteFile(file, []byte(floorConfig+"provider_encryption_secret: of-all-three-nodes-0123456789\n"), 0o600))
	c := newCluster(t, 3, false, "--config", file, "--cluster-election-timeout", "3s") // a busy machine is no failure
	require.NoError(t, c.Start(t.Context()))
	require.NoError(t, c.awaitSettled(t.Context(), 3))
	doors := map[string]apiCaller{}
	var names []string
	for _, node := range c.Nodes() {
		doors[node.Name] = apiCaller{p: &process{t: t, listen: node.Listen, ops: node.Ops}}
		names = append(names, node.Name)
	}
	n := newFloor(t, shop, doors[names[0]].p)
	for name, door := range doors {
		doors[name] = n.at(door.p)
	}
	at := func(i int) apiCaller { return doors[names[i%3]] }
	owner := func(t *testing.T, id string) string {
		t.Helper()
		return n.get(t, "/agents/sessions/"+id).header.Get("X-Served-By")
	}

	t.Run("whichever_node_is_asked", func(t *testing.T) {
		var made []string
		for i := range 6 {
			id := at(i).post(t, "/agents/sessions", object1{"agent": n.agents["quick"], "title": fmt.Sprint("n", i)}).fits(201, sessionShape(nil)).text("id")
			made = append(made, id)
			at(i+1).post(t, "/agents/responses", n.order("quick", "hi", object1{"session_id": id})).fits(200, responseShape(fields{"status": exactly("completed")}))
			require.Equal(t, "idle", at(i+2).read(t, id).text("runtime_status"))
			first := at(0).get(t, "/agents/sessions/"+id)
			require.Contains(t, names, first.header.Get("X-Served-By"))
			for i := range 3 {
				require.Equal(t, first.text, at(i).get(t, "/agents/sessions/"+id).text)
			}
		}
		var whole []string
		for i := range 3 {
			query, seen := "?limit=2", []string(nil)
			for node := i; ; node++ { // each page at another node
				page := at(node).get(t, "/agents/sessions"+query).fits(200, anyObject)
				seen = append(seen, texts(page.at("data").list(), "id")...)
				if !page.flag("has_more") {
					break
				}
				query = "?limit=2&after=" + page.text("next_cursor")
			}
			require.ElementsMatch(t, made, seen)
			if i == 0 {
				whole = seen
			}
			require.Equal(t, whole, seen)
		}
		at(1).change(t, made[0], object1{"budget": object1{"max_cost_usd": 1}}).fits(200, sessionShape(nil))
		require.InDelta(t, 1, at(2).read(t, made[0]).number("budget", "max_cost_usd"), 0)
		at(2).remove(t, made[0]).fits(200, anyObject)
		at(0).get(t, "/agents/sessions/"+made[0]).coded(404, "session_not_found")
	})
	t.Run("agents_and_tokens_of_a_moment_ago", func(t *testing.T) {
		for i := range 3 {
			key := at(i).done(t, "POST", "/agents", object1{"name": "new", "config": object1{"modelKey": "quick"}}).text("agent", "key")
			at(i+1).post(t, "/agents/responses", object1{"model": key, "input": "hi"}).fits(200, responseShape(nil))
			_, fresh := n.user(t, "user", nil)
			at(i+2).with(fresh.token).get(t, "/agents").fits(200, anyObject)
		}
	})
	t.Run("same_events_on_two_nodes", func(t *testing.T) {
		id := n.session(t, "talker", nil)
		auth := []string{"Authorization", "Bearer " + n.token}
		path := "/agents/sessions/" + id + "/events"
		one, two := at(1).p.follow(t, "GET", at(1).url(path+"/stream"), nil, auth...), at(2).p.follow(t, "GET", at(2).url(path+"/stream"), nil, auth...)
		require.Equal(t, one.block(), two.block())
		n.respond(t, "talker", "go", object1{"session_id": id}).fits(200, responseShape(nil))
		stored := func(s *stream) (raw, ids []string, said string) {
			for len(raw) == 0 || !slices.Contains(ids, "end") {
				f := s.frame()
				switch f.event {
				case "agent.message.delta":
					said += f.data.text("data", "text")
				case "agent.message.snapshot": // for who was too slow
					said = f.data.text("data", "text")
				}
				if f.id != "" {
					raw, ids = append(raw, f.raw), append(ids, f.id)
				}
				if f.event == "session.status_idle" {
					ids = append(ids, "end")
				}
			}
			return raw, ids[:len(ids)-1], said
		}
		rawOne, ids, saidOne := stored(one)
		rawTwo, _, saidTwo := stored(two)
		require.Equal(t, rawOne, rawTwo)
		require.NotEmpty(t, saidOne)
		require.Equal(t, saidOne, saidTwo, "the same text")
		again := at(0).p.follow(t, "GET", at(0).url(path+"/stream"), nil, append(auth, "Last-Event-ID", ids[1])...)
		require.Equal(t, ": open", again.block())
		rest, _, _ := stored(again)
		require.Equal(t, rawOne[2:], rest, "on another node, from where it ended")
		log := at(0).get(t, path).text
		require.Equal(t, log, at(1).get(t, path).text)
		require.Equal(t, log, at(2).get(t, path).text)
	})
	t.Run("two_runs_at_a_time", func(t *testing.T) {
		model := newBusyModel(t)
		other := newTenant(t, n.p, "ON_PREMISE")
		other.done(t, "POST", "/models/providers", object1{"key": "busy", "driver": "openai", "settings": object1{"baseUrl": model.URL}, "credentials": object1{"apiKey": "k"}})
		other.done(t, "POST", "/models", object1{
			"key": "busy", "name": "busy", "providerKey": "busy", "category": "llm", "modelId": "busy", "pricing": object1{}, "settings": object1{},
		})
		agent := other.done(t, "POST", "/agents", object1{
			"name": "busy", "config": object1{"modelKey": "busy"}, "metadata": object1{"background": object1{"enabled": true}},
		}).text("agent", "key")
		begun := map[string]bool{}
		for i := 0; len(begun) < 10; i++ { // five have room: the others are tried again
			door := other.at(at(i).p)
			a := door.post(t, "/agents/responses", object1{"model": agent, "input": "go", "background": true})
			if a.status == http.StatusTooManyRequests {
				a.coded(429, "quota_reached")
				continue
			}
			begun[a.fits(202, runShape(nil)).text("id")] = true
		}
		for id := range begun {
			require.Equal(t, "ok", other.at(at(len(id)).p).ends(t, id, "succeeded").at("result").said())
		}
		most, calls := model.books()
		require.Equal(t, []int{2, 10}, []int{most, calls}, "at once, and in all")
	})
	t.Run("one_key_at_all_nodes", func(t *testing.T) {
		order := n.order("worker", script(part{Text: "once", Calls: []wanted{use("add", object1{"a": 91, "b": 1})}}), nil)
		var all []func() answer
		for i := range 12 {
			all = append(all, at(i).p.asking(t, "POST", at(i).url("/agents/responses"), order, "Authorization", "Bearer "+n.token, "Idempotency-Key", "all"))
		}
		var ids []string
		for _, came := range all {
			ids = append(ids, came().fits(200, responseShape(fields{"status": exactly("completed")})).text("session_id"))
		}
		require.Len(t, slices.Compact(ids), 1)
		require.Len(t, shop.uses("add", `"a":91`), 1)
	})
	t.Run("loss_of_a_node", func(t *testing.T) {
		victim := names[1]
		// of says whether what is wanted has its owner there; sessions are made until one has.
		of := func(agent string, there bool) string {
			for {
				if id := n.session(t, agent, nil); (owner(t, id) == victim) == there {
					return id
				}
			}
		}
		posts := make(chan string, 16) // by their ids; the first is not answered
		var first sync.Once
		hears := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			posts <- r.Header.Get("X-Service-Event-Id")
			first.Do(func() { <-r.Context().Done() })
		}))
		t.Cleanup(hears.Close)
		keep := n.order("quick", "kept", nil)
		kept := doors[victim].post(t, "/agents/responses", keep, keyed("kept")...)
		kept.fits(200, responseShape(nil))
		asks := doors[victim].post(t, "/agents/responses", n.order("worker", script(calls(wipe("lost-1")), part{Text: "wiped"}), object1{
			"session_id": of("worker", true), "background": true, "callback_url": hears.URL,
		})).fits(202, runShape(nil))
		require.Equal(t, "requires_action", at(0).ends(t, asks.text("id"), "requires_action").text("status"))
		action := n.read(t, asks.text("session_id")).at("pending_actions").list()[0].text("id")
		var runs []tree
		for i, there := range []bool{true, false, true, false} { // two run, two wait; the victim owns one of each, and is asked for the others
			door := at(0)
			if !there {
				door = doors[victim]
			}
			what := script(part{Text: "add", Calls: []wanted{use("add", object1{"a": 930 + i, "b": 0})}}, part{Text: "end", Hold: "lost"})
			runs = append(runs, door.post(t, "/agents/responses", n.order("worker", what, object1{"session_id": of("worker", there), "background": true})).fits(202, runShape(nil)))
			if i == 1 {
				for i := range 2 {
					require.Eventually(t, func() bool { return len(shop.uses("add", fmt.Sprintf(`"a":%d`, 930+i))) == 1 }, waitLong, waitStep)
				}
			}
		}
		require.Equal(t, "queued", n.get(t, "/agents/runs/"+runs[2].text("id")).fits(200, runShape(nil)).text("status"))
		late := n.order("worker", script(part{Text: "late", Hold: "lost"}), object1{"session_id": of("worker", false)})
		_ = doors[victim].p.asking(t, "POST", doors[victim].url("/agents/responses"), late, "Authorization", "Bearer "+n.token, "Idempotency-Key", "late") // nobody answers it
		require.Eventually(t, func() bool { return shop.lastAsked(`"late"`) != nil }, waitLong, waitStep)
		n.agent(t, "reached", object1{"modelKey": "stand-in"}, object1{"a2a": object1{"enabled": true}})
		followed := a2aMeetsTheKill(t, n, doors[victim], of("reached", true))
		attempted := <-posts // and under way
		require.NoError(t, c.Node(victim).Kill())
		begun := time.Now()
		left := []apiCaller{at(0), at(2)}
		followed(left)
		close(shop.gate("lost"))
		for i, run := range runs {
			ended := left[i%2].ends(t, run.text("id"), "succeeded")
			require.Contains(t, ended.at("result").said(), "end")
			require.Len(t, shop.uses("add", fmt.Sprintf(`"a":%d`, 930+i)), 1, "no effect twice")
			require.Len(t, left[i%2].insist(t, "GET", "/agents/sessions/"+run.text("session_id")+"/messages", nil).fits(200, anyObject).at("data").list(), 2)
		}
		t.Logf("all runs over %v after the node's end", time.Since(begun))
		require.Equal(t, attempted, <-posts, "what was being told when the node died")
		t.Logf("told again at most %v after the node's end", time.Since(begun))
		require.Less(t, time.Since(begun), 45*time.Second, "before the attempt would count as lost")
		left[0].insist(t, "POST", "/agents/sessions/"+asks.text("session_id")+"/actions/"+action, object1{"resolution": allow}).fits(202, runShape(nil))
		require.Contains(t, left[1].ends(t, asks.text("id"), "succeeded").at("result").said(), "wiped")
		require.Len(t, shop.uses("wipe", "lost-1"), 1)
		replay := left[0].insist(t, "POST", "/agents/responses", keep, keyed("kept")...)
		require.Equal(t, []string{"true", kept.text}, []string{replay.header.Get("Idempotency-Replayed"), replay.text})
		again := left[1].insist(t, "POST", "/agents/responses", late, keyed("late")...).fits(200, responseShape(fields{"status": exactly("completed")}))
		require.Equal(t, "late", again.said())
		require.Len(t, left[0].insist(t, "GET", "/agents/sessions/"+again.text("session_id")+"/messages", nil).fits(200, anyObject).at("data").list(), 2, "sent once")
	})
}
