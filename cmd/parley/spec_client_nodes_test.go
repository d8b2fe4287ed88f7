package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// TestClientCluster: what is changed at one of three nodes counts at all of them at once, and requests are counted together.
func TestClientCluster(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "parley.yaml")
	require.NoError(t, os.WriteFile(file, []byte(houseConfig+"provider_encryption_secret: the same on every node\nsse: {ping: 300ms}\naccounts: {session_secret: the same on every node and long enough}\n"), 0o600))
	c := newCluster(t, 3, false, "--config", file)
	require.NoError(t, c.Start(t.Context()))
	require.NoError(t, c.awaitSettled(t.Context(), 3))
	members := make([]*process, 0, 3)
	for _, n := range c.Nodes() {
		members = append(members, as(t, n))
	}
	h := apiCaller{members[0], houseToken}
	require.Eventually(t, func() bool {
		return h.ask(t, "GET", "/agents", nil).status == http.StatusOK
	}, 30*time.Second, 20*time.Millisecond, "the first tenant is made once the cluster is formed")
	n := newTenant(t, members[0], "ON_PREMISE")
	n.scripted(t)
	// everywhere asks all nodes until they answer so. A change waits for the other nodes, but not for long: one that is slow
	// may still have to hear of it.
	everywhere := func(t *testing.T, b apiCaller, status int, method, path string, body any) {
		t.Helper()
		for i, p := range members {
			var last answer
			require.Eventuallyf(t, func() bool {
				last = b.at(p).ask(t, method, path, body)
				return last.status == status
			}, 30*time.Second, 10*time.Millisecond, "node %d: %s %s", i, method, path)
		}
	}

	t.Run("token_made_at_one_node", func(t *testing.T) {
		for i, p := range members {
			made := n.at(p).done(t, "POST", "/users/"+n.owner+"/tokens", object1{"label": fmt.Sprint("made at ", i)})
			b := n.with(made.text("token"))
			for _, other := range members {
				b.at(other).done(t, "GET", "/agents", nil) // a node that has not heard of it asks
			}
			n.at(members[(i+1)%3]).done(t, "DELETE", "/users/"+n.owner+"/tokens/"+made.text("id"), nil)
			everywhere(t, b, 401, "GET", "/agents", nil)
		}
	})
	t.Run("analytics_at_every_node", func(t *testing.T) { analyticsAtEveryNode(t, members) })
	t.Run("a2a_through_every_node", func(t *testing.T) { a2aThroughEveryNode(t, n, members) })
	t.Run("webhooks_through_every_node", func(t *testing.T) {
		listened := newTenant(t, members[0], "ON_PREMISE")
		listened.scripted(t)
		webhooksWork(t, listened, members)
	})
	t.Run("streams_end_with_their_token", func(t *testing.T) { streamsEndWithTheirToken(t, n, members) })
	t.Run("role_and_licence_changed_at_one_node", func(t *testing.T) {
		id, b := n.user(t, "admin", nil)
		everywhere(t, b, 200, "GET", "/users", nil)
		operate(t, members[1], "PATCH", "/users/"+id, object1{"role": "user"})
		everywhere(t, b, 403, "GET", "/users", nil)
		operate(t, members[2], "PATCH", "/tenants/"+n.id, object1{"tier": "STARTER"})
		everywhere(t, b, 403, "POST", "/moderations", object1{"input": "hi"})
		operate(t, members[0], "PATCH", "/tenants/"+n.id, object1{"tier": "ON_PREMISE"})
		everywhere(t, b, 200, "POST", "/moderations", object1{"input": "hi"})
	})
	t.Run("agent_made_at_one_node", func(t *testing.T) {
		for i, p := range members {
			key := n.at(p).newAgent(t, object1{"name": fmt.Sprint("Made at ", i), "config": object1{"modelKey": "scripted"}})
			order := object1{"model": key, "input": "hi"}
			everywhere(t, n.apiCaller, 200, "POST", "/agents/responses", order)
			n.at(members[(i+1)%3]).done(t, "POST", "/agents/"+key+"/publish", nil)
			for _, other := range members {
				require.Eventually(t, func() bool {
					_, response := n.at(other).reply(t, "/agents/responses", order)
					return response.at("version").v != nil
				}, 30*time.Second, 10*time.Millisecond, "the published version runs")
			}
			n.at(members[(i+2)%3]).done(t, "DELETE", "/agents/"+key, nil)
			everywhere(t, n.apiCaller, 404, "POST", "/agents/responses", order)
		}
	})
	t.Run("model_and_its_key_changed_at_one_node", func(t *testing.T) {
		u := newModel(t, n.apiCaller, "llm", hello)
		everywhere(t, n.apiCaller, 200, "POST", "/chat/completions", chatBody(u.key, "hi"))
		n.at(members[1]).done(t, "PATCH", "/models/providers/p-"+u.key, object1{"credentials": object1{"apiKey": "sk-changed"}})
		for _, p := range members {
			require.Eventually(t, func() bool {
				n.at(p).done(t, "POST", "/chat/completions", chatBody(u.key, "hi"))
				asked := u.asked()
				return asked[len(asked)-1].header.Get("Authorization") == "Bearer sk-changed"
			}, 30*time.Second, 10*time.Millisecond)
		}
	})
	t.Run("plan_and_names_hold_at_once", func(t *testing.T) { planHoldsAtOnce(t, members) })
	t.Run("quotas_hold_at_once", func(t *testing.T) { quotasHoldAtOnce(t, members) })
	t.Run("audio_at_any_node", func(t *testing.T) { audioAtAnyNode(t, n, members) })
	t.Run("month_of_a_free_tenant", func(t *testing.T) {
		free := newTenant(t, members[0], "FREE")
		const callers, limit = 6, 1000
		var spent atomic.Int64
		var work errgroup.Group
		for i := range callers {
			at := free.at(members[i%3])
			work.Go(func() error { return spend(t.Context(), at, &spent) })
		}
		require.NoError(t, work.Wait())
		require.Equal(t, int64(limit), spent.Load())
		for _, p := range members {
			b := free.at(p)
			a := b.ask(t, "GET", "/agents", nil)
			a.denied(429, "quota_reached", "Rate limit exceeded for requests perMonth (1000/1000)")
			seconds, err := strconv.Atoi(a.header.Get("Retry-After"))
			require.NoError(t, err)
			require.InDelta(t, 30*24*60*60, seconds, 600, "the month began with the first request")
			a = b.ask(t, "POST", "/chat/completions", chatBody("scripted", "hi"))
			require.Equal(t, []string{"429", "rate_limit_error"}, []string{strconv.Itoa(a.status), decode(t, a.text).text("error", "type")})
		}
		n.done(t, "GET", "/agents", nil)
		operate(t, members[1], "PATCH", "/tenants/"+free.id, object1{"tier": "STARTER"})
		everywhere(t, free.apiCaller, 200, "GET", "/agents", nil)
	})
}

// planHoldsAtOnce makes more than a plan has, and the same thing again and again, at all nodes at the same moment.
func planHoldsAtOnce(t *testing.T, members []*process) {
	t.Helper()
	free := newTenant(t, members[0], "FREE") // 5 users, tokens and models; an owner and his token are there
	free.done(t, "POST", "/models/providers", object1{"key": "scripted", "driver": "scripted"})
	const callers = 12
	// together makes the requests at once and counts the answers by status.
	together := func(t *testing.T, ask func(i int, p *process) (reply, error)) map[int]int {
		t.Helper()
		var mu sync.Mutex
		var work errgroup.Group
		got := map[int]int{}
		for i := range callers {
			work.Go(func() error {
				answered, err := ask(i, members[i%len(members)])
				mu.Lock()
				defer mu.Unlock()
				got[answered.status]++
				return err
			})
		}
		require.NoError(t, work.Wait())
		return got
	}
	client := func(path string, body func(i int) object1) func(int, *process) (reply, error) {
		return func(i int, p *process) (reply, error) {
			b := free.at(p)
			return askURL(t.Context(), b.url(path), "POST", body(i), "Authorization", "Bearer "+b.token, "Content-Type", "application/json")
		}
	}
	operator := func(path string, body func(i int) object1) func(int, *process) (reply, error) {
		return func(i int, p *process) (reply, error) {
			return askURL(t.Context(), "http://"+p.ops+"/v1"+path, "POST", body(i), "Content-Type", "application/json")
		}
	}
	same := func(i int) object1 {
		return object1{"name": fmt.Sprint("n", i), "role": "user", "email": "ann@acme.test", "tenantId": free.id}
	}
	byClient, byOperator := client("/users", same), operator("/users", same)
	require.Equal(t, map[int]int{201: 1, 409: callers - 1}, together(t, func(i int, p *process) (reply, error) {
		if i%2 == 0 {
			return byClient(i, p)
		}
		return byOperator(i, p)
	}), "one email")
	require.Equal(t, map[int]int{201: 3, 429: callers - 3}, together(t, client("/users", func(i int) object1 {
		return object1{"name": fmt.Sprint("n", i), "role": "user"}
	})), "users")
	require.Equal(t, map[int]int{201: 4, 429: callers - 4}, together(t, client("/users/"+free.owner+"/tokens", func(i int) object1 {
		return object1{"label": fmt.Sprint("label ", i)}
	})), "tokens")
	require.Equal(t, map[int]int{201: 1, 409: callers - 1}, together(t, client("/models", func(int) object1 { return scriptedModel("one") })), "a key")
	require.Equal(t, map[int]int{201: 4, 429: callers - 4}, together(t, client("/models", func(i int) object1 {
		return scriptedModel(fmt.Sprint("m", i))
	})), "models")
	require.Equal(t, map[int]int{201: 1, 409: callers - 1}, together(t, client("/models/providers", func(int) object1 {
		return object1{"key": "acme", "driver": "openai"}
	})), "a provider's key")
	slug := slugFor(t)
	require.Equal(t, map[int]int{201: 1, 409: callers - 1}, together(t, operator("/tenants", func(int) object1 {
		return object1{"name": "Twin", "slug": slug}
	})), "a slug")
	require.Equal(t, map[int]int{201: 1, 409: callers - 1}, together(t, operator("/projects", func(int) object1 {
		return object1{"name": "Twin", "tenantId": free.id}
	})), "a project's key")
	agent := free.newAgent(t, object1{"name": "published", "config": object1{"modelKey": "one"}})
	require.Equal(t, map[int]int{201: callers}, together(t, client("/agents/"+agent+"/publish", func(int) object1 { return object1{} })))
	require.Equal(t, strconv.Itoa(callers), fmt.Sprint(free.done(t, "GET", "/agents/"+agent, nil).at("agent", "publishedVersion").v), "every version has its number")
}

// spend asks until the month has no request left.
func spend(ctx context.Context, b apiCaller, spent *atomic.Int64) error {
	for {
		got, err := askURL(ctx, b.url("/agents"), "GET", nil, "Authorization", "Bearer "+b.token)
		switch {
		case err == nil && got.status == http.StatusOK:
			spent.Add(1)
		case err == nil && got.status == http.StatusTooManyRequests:
			return nil
		default:
			return got.wrong("GET /agents", err)
		}
	}
}
