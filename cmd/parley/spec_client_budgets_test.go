package main

import (
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// nanos is dollars as nano-dollars.
func nanos(usd float64) int64 { return int64(math.Round(usd * 1e9)) }

// spentToday is what the budgets of a tenant say was spent today.
func spentToday(t *testing.T, b apiCaller) int64 {
	t.Helper()
	var said tree
	require.Eventually(t, func() bool {
		got := b.ask(t, "GET", "/budgets/status", nil)
		if got.status == http.StatusOK {
			said = decode(t, got.text)
		}
		return got.status == http.StatusOK
	}, 30*time.Second, 20*time.Millisecond)
	return nanos(said.number("per_day", "used_usd"))
}

// attempt is one request that may come to nothing: its node may be dead.
func attempt(t *testing.T, b apiCaller, path string, body any) (answer, error) {
	t.Helper()
	response, err := client().Do(b.p.newRequest(t, "POST", b.url(path), body, []string{"Authorization", "Bearer " + b.token}))
	if err != nil {
		return answer{}, err
	}
	text, err := io.ReadAll(response.Body)
	_ = response.Body.Close() // it was read
	return answer{t, path, response.StatusCode, response.Header, string(text)}, err
}

// TestClientBudgets: a budget holds for chat completions and for agents, and a new one at once (document 3, 13.3).
func TestClientBudgets(t *testing.T) {
	t.Parallel()
	p := house(t).p
	n := newTenant(t, p, "ON_PREMISE")
	n.scripted(t)
	agent := n.newAgent(t, object1{"name": "Spender", "config": object1{"modelKey": "scripted"}})
	chat := object1{"model": "scripted", "messages": []object1{{"role": "user", "content": "hi"}}, "max_tokens": 8}
	require.Equal(t, false, n.done(t, "GET", "/budgets/status", nil).at("configured").v)
	budget := n.done(t, "POST", "/budgets", object1{"daily_limit_usd": 1, "alert_thresholds": []float64{0.5, 1e-9}}).text("id")
	told := newHookListener(t)
	n.done(t, "POST", "/webhooks", object1{"url": told.URL + "/in", "events": []string{"budget.*"}})

	usage := n.done(t, "POST", "/chat/completions", chat)
	cost := int64(1000 * (usage.number("usage", "prompt_tokens") + usage.number("usage", "completion_tokens")))
	require.Equal(t, cost, spentToday(t, n.apiCaller), "as soon as it is answered")
	alert := decode(t, told.hears(t, "budget.alert", 1)[0].Body)
	require.Equal(t, []any{budget, "perDay", 1e-9, float64(cost) / 1e9, 1.0, n.project}, []any{
		alert.text("data", "policyId"), alert.text("data", "window"), alert.number("data", "threshold"), alert.number("data", "spentUsd"),
		alert.number("data", "limitUsd"), alert.text("projectId"),
	})
	n.done(t, "POST", "/agents/responses", object1{"model": agent, "input": "hi"})
	both := spentToday(t, n.apiCaller)
	require.Greater(t, both, cost, "model calls of agents count")
	require.Equal(t, 200, n.ask(t, "POST", "/chat/completions", object1{"model": "scripted", "messages": chat["messages"], "stream": true}).status)
	require.Greater(t, spentToday(t, n.apiCaller), both, "a stream, too")

	n.done(t, "PATCH", "/budgets/"+budget, object1{"daily_limit_usd": 0})
	refused := n.ask(t, "POST", "/chat/completions", chat)
	require.Equal(t, 429, refused.status, refused.text)
	said := decode(t, refused.text)
	require.Equal(t, "rate_limit_error", said.text("error", "type"))
	require.Equal(t, "Budget exceeded for perDay (0/0 cents)", said.text("error", "message"))
	turn := n.ask(t, "POST", "/agents/responses", object1{"model": agent, "input": "hi"})
	require.Contains(t, turn.text, "Budget exceeded for perDay (0/0 cents)")
	other := newTenant(t, p, "ON_PREMISE")
	other.scripted(t)
	other.done(t, "POST", "/chat/completions", chat)
	n.done(t, "DELETE", "/budgets/"+budget, nil)
	n.done(t, "POST", "/chat/completions", chat)
	require.Len(t, told.got("budget.alert"), 1, "once a day")
}

// TestBudgetOfCluster: parallel calls through three nodes, of which one is killed, never spend more than a budget has, what was answered is
// counted, and nobody is refused while there is money.
func TestBudgetOfCluster(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "parley.yaml")
	require.NoError(t, os.WriteFile(file, []byte(houseConfig+"provider_encryption_secret: the same on every node\n"), 0o600))
	c := newCluster(t, 3, false, "--config", file)
	require.NoError(t, c.Start(t.Context()))
	require.NoError(t, c.awaitSettled(t.Context(), 3))
	var members []*process
	for _, node := range c.Nodes() {
		members = append(members, as(t, node))
	}
	h := apiCaller{members[0], houseToken}
	require.Eventually(t, func() bool { return h.ask(t, "GET", "/agents", nil).status == http.StatusOK }, 30*time.Second, 20*time.Millisecond)
	n := newTenant(t, members[0], "ON_PREMISE")
	n.scripted(t)
	const (
		most  = 1_200_000 // nano-dollars: of calls that cost 6,000 or so, not all
		calls = 400
		need  = 20_000 // of a call, at most
	)
	n.done(t, "POST", "/budgets", object1{"daily_limit_usd": float64(most) / 1e9})
	chat := object1{"model": "scripted", "messages": []object1{{"role": "user", "content": "hi"}}, "max_tokens": 8}
	for _, p := range members {
		require.Eventually(t, func() bool {
			return n.at(p).ask(t, "GET", "/budgets/status", nil).status == http.StatusOK && n.at(p).done(t, "GET", "/budgets/status", nil).at("configured").v == true
		},
			30*time.Second, 20*time.Millisecond)
	}

	var mu sync.Mutex
	var answered int64
	refused, failed := 0, 0
	var running sync.WaitGroup
	for i := range calls {
		running.Go(func() {
			for try := range 20 {
				at := (i + try) % 3
				if try > 0 {
					at = (i + try) % 2 // those that live
				}
				got, err := attempt(t, n.at(members[at]), "/chat/completions", chat)
				mu.Lock()
				switch {
				case err != nil || got.status >= 500:
					mu.Unlock()
					continue // its node is dead, or looks for a new owner
				case got.status == http.StatusOK:
					usage := decode(t, got.text)
					answered += int64(1000 * (usage.number("usage", "prompt_tokens") + usage.number("usage", "completion_tokens")))
				case got.status == http.StatusTooManyRequests:
					refused++
				default:
					failed++
					t.Log(got.status, got.text)
				}
				mu.Unlock()
				return
			}
			mu.Lock()
			defer mu.Unlock()
			failed++
		})
		if i == calls/3 {
			running.Go(func() { require.NoError(t, c.Nodes()[2].Kill()) })
		}
	}
	running.Wait()
	spent := spentToday(t, n.apiCaller)
	t.Logf("of %d nano-dollars %d were spent, %d of answered calls; %d of %d calls refused, %d failed", most, spent, answered, refused, calls, failed)
	require.LessOrEqual(t, spent, int64(most))
	require.LessOrEqual(t, answered, spent, "what was answered is counted")
	require.Positive(t, refused)
	require.Less(t, most-spent, int64(need), "nobody is refused while there is money")
	require.Zero(t, failed)
}
