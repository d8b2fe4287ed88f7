package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"parley/bench/nodes"
)

// TestClientCluster: what is changed at one of three nodes counts at all of them at once, and requests are counted together.
func TestClientCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: runs several real processes")
	}
	binary, err := builtBinary()
	require.NoError(t, err)
	dir := t.TempDir()
	file := filepath.Join(dir, "parley.yaml")
	require.NoError(t, os.WriteFile(file, []byte(houseConfig+"provider_encryption_secret: the same on every node\n"), 0o600))
	fleet, err := nodes.New(t.Context(), nodes.Config{
		Binary: binary, Dir: dir, Count: 3, Flags: []string{"--config", file}, ReadyWithin: time.Minute,
	})
	require.NoError(t, err)
	c := &cluster{fleet}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.Logs(40))
		}
		require.NoError(t, c.Stop())
	})
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
	everywhere := func(t *testing.T, b apiCaller, check func(at apiCaller)) {
		t.Helper()
		for _, p := range members {
			check(b.at(p))
		}
	}

	t.Run("token_made_at_one_node", func(t *testing.T) {
		for i, p := range members {
			made := n.at(p).done(t, "POST", "/users/"+n.owner+"/tokens", object1{"label": fmt.Sprint("made at ", i)})
			everywhere(t, n.with(made.text("token")), func(b apiCaller) { b.done(t, "GET", "/agents", nil) })
			n.at(members[(i+1)%3]).done(t, "DELETE", "/users/"+n.owner+"/tokens/"+made.text("id"), nil)
			everywhere(t, n.with(made.text("token")), func(b apiCaller) {
				b.ask(t, "GET", "/agents", nil).denied(401, "unauthorized", "Invalid API token")
			})
		}
	})
	t.Run("role_and_licence_changed_at_one_node", func(t *testing.T) {
		id, b := n.user(t, "admin", nil)
		everywhere(t, b, func(b apiCaller) { b.done(t, "GET", "/users", nil) })
		operate(t, members[1], "PATCH", "/users/"+id, object1{"role": "user"})
		everywhere(t, b, func(b apiCaller) { require.Equal(t, 403, b.ask(t, "GET", "/users", nil).status) })
		operate(t, members[2], "PATCH", "/tenants/"+n.id, object1{"tier": "STARTER"})
		everywhere(t, b, func(b apiCaller) {
			require.Equal(t, 403, b.ask(t, "POST", "/moderations", object1{"input": "hi"}).status)
		})
		operate(t, members[0], "PATCH", "/tenants/"+n.id, object1{"tier": "ON_PREMISE"})
		everywhere(t, b, func(b apiCaller) { b.done(t, "POST", "/moderations", object1{"input": "hi"}) })
	})
	t.Run("agent_made_at_one_node", func(t *testing.T) {
		for i, p := range members {
			key := n.at(p).newAgent(t, object1{"name": fmt.Sprint("Made at ", i), "config": object1{"modelKey": "scripted"}})
			everywhere(t, n.apiCaller, func(b apiCaller) { b.reply(t, "/agents/responses", object1{"model": key, "input": "hi"}) })
			n.at(members[(i+1)%3]).done(t, "POST", "/agents/"+key+"/publish", nil)
			everywhere(t, n.apiCaller, func(b apiCaller) {
				_, response := b.reply(t, "/agents/responses", object1{"model": key, "input": "hi"})
				require.InDelta(t, 1, response.number("version"), 0)
			})
			n.at(members[(i+2)%3]).done(t, "DELETE", "/agents/"+key, nil)
			everywhere(t, n.apiCaller, func(b apiCaller) {
				b.ask(t, "POST", "/agents/responses", object1{"model": key, "input": "hi"}).denied(404, "agent_not_found", "Agent not found")
			})
		}
	})
	t.Run("model_and_its_key_changed_at_one_node", func(t *testing.T) {
		u := newModel(t, n.apiCaller, "llm", hello)
		everywhere(t, n.apiCaller, func(b apiCaller) { b.done(t, "POST", "/chat/completions", chatBody(u.key, "hi")) })
		n.at(members[1]).done(t, "PATCH", "/models/providers/p-"+u.key, object1{"credentials": object1{"apiKey": "sk-changed"}})
		everywhere(t, n.apiCaller, func(b apiCaller) {
			b.done(t, "POST", "/chat/completions", chatBody(u.key, "hi"))
			asked := u.asked()
			require.Equal(t, "Bearer sk-changed", asked[len(asked)-1].header.Get("Authorization"))
		})
	})
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
		everywhere(t, free.apiCaller, func(b apiCaller) {
			a := b.ask(t, "GET", "/agents", nil)
			a.denied(429, "quota_reached", "Rate limit exceeded for requests perMonth (1000/1000)")
			seconds, err := strconv.Atoi(a.header.Get("Retry-After"))
			require.NoError(t, err)
			require.InDelta(t, 30*24*60*60, seconds, 600, "the month began with the first request")
			a = b.ask(t, "POST", "/chat/completions", chatBody("scripted", "hi"))
			require.Equal(t, []string{"429", "rate_limit_error"}, []string{strconv.Itoa(a.status), decode(t, a.text).text("error", "type")})
		})
		n.done(t, "GET", "/agents", nil)
		operate(t, members[1], "PATCH", "/tenants/"+free.id, object1{"tier": "STARTER"})
		everywhere(t, free.apiCaller, func(b apiCaller) { b.done(t, "GET", "/agents", nil) })
	})
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
