package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fullOfFour refuses a reported session beyond four. One that two nodes hear of at once counts twice for that moment.
var fullOfFour = regexp.MustCompile(`^\{"error":"tracingSessions limit reached \((4|5|6|7)/4\)","code":"quota_reached"\}$`)

// quotasHoldAtOnce makes calls and reports at all nodes at the same moment, of which quotas allow a few.
func quotasHoldAtOnce(t *testing.T, members []*process) {
	t.Helper()
	owner, email, _ := company(t, members[0])
	in := owner.done(t, "POST", "/auth/login", object1{"email": email, "password": goodPassword})
	operate(t, members[0], "PATCH", "/tenants/"+in.text("tenant", "id"), object1{"tier": "ON_PREMISE"})
	api := apiCaller{members[0], operate(t, members[0], "POST", "/tokens", object1{"userId": in.text("user", "id"), "label": "one"}).text("token")}
	policies := 0
	policy := func(domain string, limits object1) { // that every node knows
		t.Helper()
		owner.done(t, "POST", "/quota/policies", object1{"domain": domain, "limits": limits})
		policies++
		for _, p := range members {
			b := newVisitor(t, p).withCookie(strings.TrimPrefix(owner.cookie("token"), "token="))
			require.Eventually(t, func() bool {
				a := b.call(t, "GET", "/quota/policies", nil)
				return a.status == http.StatusOK && len(decode(t, a.text).at("policies").list()) == policies
			}, waitLong, waitStep)
		}
	}
	at := func(i int) apiCaller { return api.at(members[i%len(members)]) }
	ask := func(ctx context.Context, i int, path string, body any) (reply, error) {
		return askURL(ctx, at(i).url(path), "POST", body, "Authorization", "Bearer "+api.token)
	}

	model := newBusyModel(t)
	var held atomic.Int64
	holds := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // or the server does not hear that the caller has left
		held.Add(1)
		<-r.Context().Done()
	}))
	t.Cleanup(holds.Close)
	for key, url := range map[string]string{"busy": model.URL, "holds": holds.URL} {
		api.done(t, "POST", "/models/providers", object1{"key": key, "driver": "openai", "settings": object1{"baseUrl": url}, "credentials": object1{"apiKey": "k"}})
		api.done(t, "POST", "/models", object1{"key": key, "name": key, "providerKey": key, "category": "llm", "modelId": key, "pricing": object1{}, "settings": object1{}})
	}
	agent := api.done(t, "POST", "/agents", object1{"name": "Busy", "config": object1{"modelKey": "busy"}}).text("agent", "key")
	policy("llm", object1{"perRequest": object1{"maxConcurrentRequests": 5}})
	chat := func(model string) object1 {
		return object1{"model": model, "stream": true, "messages": []object1{{"role": "user", "content": "hi"}}}
	}

	var mu sync.Mutex
	got := map[int]int{}
	var calls sync.WaitGroup
	for i := range 100 {
		calls.Go(func() {
			path, body := "/chat/completions", chat("busy")
			if i%5 == 0 {
				path, body = "/agents/responses", object1{"model": agent, "input": "hi"}
			}
			answered, err := ask(t.Context(), i, path, body)
			mu.Lock()
			defer mu.Unlock()
			if got[answered.status]++; err != nil || i%5 == 0 && answered.status != 200 {
				t.Errorf("a turn waits for its place: %v, %d %s", err, answered.status, answered.text)
			}
			if answered.status == 429 {
				assert.Equal(t, "1", answered.header.Get("Retry-After"))
				assert.Contains(t, answered.text, "Concurrent requests (6) exceeds limit (5)")
			}
		})
	}
	calls.Wait()
	most, made := model.books()
	require.Equal(t, 100, got[200]+got[429], got)
	require.LessOrEqual(t, most, 5, "at once; that five are let in is told below")
	require.Equal(t, got[200], made, "in all: %v", got)
	require.Positive(t, got[429])

	ctx, leave := context.WithCancel(t.Context())
	for i := range 5 { // streams whose clients leave
		calls.Go(func() { _, _ = ask(ctx, i, "/chat/completions", chat("holds")) })
	}
	require.Eventually(t, func() bool { return held.Load() == 5 }, 30*time.Second, 5*time.Millisecond)
	full, err := ask(t.Context(), 0, "/chat/completions", chat("busy"))
	require.NoError(t, err)
	require.Equal(t, 429, full.status, "%s", full.text)
	leave()
	calls.Wait()
	require.Eventually(t, func() bool {
		free, err := ask(t.Context(), 1, "/chat/completions", chat("busy"))
		return err == nil && free.status == 200
	}, 10*time.Second, 5*time.Millisecond, "a client that leaves takes its place along")

	policy("tracing", object1{"quotas": object1{"maxTracingSessions": 4}})
	stored := map[string]bool{}
	report := func(i int) (session, refused string) {
		session = fmt.Sprint("s", i%10)
		answered, err := ask(t.Context(), i, "/tracing/sessions", object1{"sessionId": session})
		if answered.status != 200 {
			refused = answered.text
		}
		if err != nil || answered.status != 200 && (answered.status != 429 || !fullOfFour.MatchString(answered.text)) {
			t.Errorf("%v, %d %s", err, answered.status, answered.text)
		}
		return session, refused
	}
	for i := range 30 {
		calls.Go(func() {
			if session, refused := report(i); refused == "" {
				mu.Lock()
				defer mu.Unlock()
				stored[session] = true
			}
		})
	}
	calls.Wait()
	require.LessOrEqual(t, len(stored), 4)
	require.Eventually(t, func() bool { // one after another, at all nodes
		full := 0
		for i := range 10 {
			session, refused := report(i)
			switch {
			case refused == "":
				stored[session] = true
			case strings.Contains(refused, "(4/4)"):
				full++
			}
		}
		return len(stored) >= 4 && full == 6
	}, 30*time.Second, 10*time.Millisecond)
	require.Len(t, stored, 4)
}
