package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// told is a delivery as a receiver got it.
type told struct {
	Body    string            `json:"body"`
	Headers map[string]string `json:"headers"`
}

// hookListener is a receiver: it takes deliveries and answers as it was told.
type hookListener struct {
	*httptest.Server

	every int // refuses each attempt of this number; 0 = none

	mu       sync.Mutex
	status   int
	attempts int
	all      []told
}

func newHookListener(t *testing.T) *hookListener {
	t.Helper()
	r := &hookListener{status: http.StatusNoContent}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		if err != nil {
			return
		}
		headers := map[string]string{}
		for name := range request.Header {
			headers[name] = request.Header.Get(name)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.attempts++; r.every > 0 && r.attempts%r.every == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		r.all = append(r.all, told{string(body), headers})
		w.WriteHeader(r.status)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *hookListener) answers(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

// got are the deliveries of a type so far.
func (r *hookListener) got(kind string) (all []told) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range r.all {
		if d.Headers["X-Service-Event"] == kind {
			all = append(all, d)
		}
	}
	return all
}

// hears waits for deliveries of a type.
func (r *hookListener) hears(t *testing.T, kind string, many int) []told {
	t.Helper()
	require.Eventually(t, func() bool { return len(r.got(kind)) >= many }, time.Minute, 20*time.Millisecond, kind)
	return r.got(kind)
}

// official has the libraries of npm, unchanged, verify deliveries under a secret.
func official(t *testing.T, secret string, deliveries []told) {
	t.Helper()
	dir := filepath.Join("testdata", "openai")
	_, missing := os.Stat(filepath.Join(dir, "node_modules", "standardwebhooks"))
	node, err := exec.LookPath("node")
	if err != nil || missing != nil {
		t.Skip("Node.js or the clients are not installed: make openai")
	}
	var lines bytes.Buffer
	for _, d := range deliveries {
		require.NoError(t, json.NewEncoder(&lines).Encode(d))
	}
	command := exec.CommandContext(t.Context(), node, "webhooks.mjs", secret)
	command.Dir, command.Stdin = dir, &lines
	output, err := command.CombinedOutput()
	require.NoErrorf(t, err, "%s", output)
	require.Equal(t, len(deliveries), strings.Count(string(output), `"error":null`), "%s", output)
}

// TestClientWebhooks drives every route of webhooks on one node, with deliveries to a receiver on this machine.
func TestClientWebhooks(t *testing.T) {
	t.Parallel()
	n := newTenant(t, house(t).p, "ON_PREMISE")
	n.scripted(t)
	webhooksWork(t, n, []*process{n.p})
}

// webhooksWork creates an endpoint at one node, and has things told, tested, sent again and forgotten at others.
func webhooksWork(t *testing.T, n *tenant, members []*process) {
	t.Helper()
	at := func(i int) apiCaller { return n.at(members[i%len(members)]) }
	r := newHookListener(t)
	agent := n.newAgent(t, object1{"name": "Teller", "config": object1{"modelKey": "scripted"}})
	made := at(0).done(t, "POST", "/webhooks", object1{
		"url": "http" + "://ann:pw@" + strings.TrimPrefix(r.URL, "http://") + "/in?key=1", "events": []string{"session.*", "session.idled"},
	}).at("endpoint")
	id, secret := made.text("id"), made.text("secret")
	require.Equal(t, n.project, made.text("projectId"))
	require.Len(t, at(1).done(t, "GET", "/webhooks/events", nil).at("events").list(), 12)
	require.Eventually(t, func() bool { // another node's memory follows
		return len(at(1).done(t, "GET", "/webhooks", nil).at("endpoints").list()) == 1
	}, time.Minute, 5*time.Millisecond)
	session := at(2).done(t, "POST", "/agents/sessions", object1{"agent": agent}).text("id")
	at(1).done(t, "POST", "/agents/responses", object1{"model": agent, "input": "hi", "session_id": session})
	heard := append(r.hears(t, "session.idled", 1), r.hears(t, "session.work_done", 1)...)
	require.Contains(t, heard[0].Body, session)
	require.Equal(t, "service-webhooks/1.0", heard[0].Headers["User-Agent"])
	require.True(t, strings.HasPrefix(heard[0].Headers["Authorization"], "Basic "), "userinfo is sent as Basic")

	test := at(2).done(t, "POST", "/webhooks/"+id+"/test", nil).at("delivery")
	require.Equal(t, "delivered", test.text("status"))
	heard = append(heard, r.hears(t, "webhook.test", 1)...)
	t.Run("official_libraries", func(t *testing.T) { official(t, secret, heard) })

	reader := n.with(operate(t, n.p, "POST", "/tokens", object1{
		"userId": n.owner, "label": "reader", "servicePermissions": object1{"webhooks": "read"},
	}).text("token"))
	redacted := reader.done(t, "GET", "/webhooks/"+id, nil).at("endpoint")
	require.True(t, redacted.flag("urlRedacted"))
	require.Equal(t, r.URL+"/in", redacted.text("url"))
	reader.ask(t, "POST", "/webhooks/"+id+"/test", nil).refusal("webhooks", "admin", "The token's scope does not include webhooks:admin")

	var settled tree
	require.Eventually(t, func() bool {
		settled = reader.done(t, "GET", "/webhooks/"+id+"/deliveries?status=delivered", nil)
		return len(settled.at("deliveries").list()) == 3
	}, time.Minute, 20*time.Millisecond)
	require.Len(t, at(1).done(t, "GET", "/webhooks/"+id+"/deliveries?limit=1&skip=1", nil).at("deliveries").list(), 1)
	again := "/webhooks/deliveries/" + test.text("id") + "/redeliver"
	at(0).done(t, "PATCH", "/webhooks/"+id, object1{"status": "disabled"})
	require.Eventually(t, func() bool {
		return at(1).done(t, "GET", "/webhooks/"+id, nil).text("endpoint", "status") == "disabled"
	}, time.Minute, 5*time.Millisecond)
	at(1).ask(t, "POST", again, nil).denied(409, "endpoint_disabled", "The webhook endpoint is disabled")
	require.Equal(t, "delivered", at(1).done(t, "POST", "/webhooks/"+id+"/test", nil).text("delivery", "status"), "also while it is disabled")
	at(2).done(t, "PATCH", "/webhooks/"+id, object1{"status": "active"})

	renewed := at(2).done(t, "POST", "/webhooks/"+id+"/rotate-secret", nil).text("endpoint", "secret")
	require.NotEqual(t, secret, renewed)
	r.answers(http.StatusInternalServerError)
	require.Equal(t, 202, at(0).ask(t, "POST", again, nil).status)
	sent := r.hears(t, "webhook.test", 3)[2]
	require.Equal(t, test.text("eventId"), sent.Headers["Webhook-Id"], "the same event")
	t.Run("secret_is_renewed_at_once", func(t *testing.T) { official(t, renewed, []told{sent}) })
	require.Eventually(t, func() bool {
		a := at(1).ask(t, "POST", again, nil)
		return a.status == 409 && strings.Contains(a.text, "delivery_pending")
	}, time.Minute, 20*time.Millisecond)
	require.Eventually(t, func() bool {
		waiting := reader.done(t, "GET", "/webhooks/"+id+"/deliveries?status=pending", nil).at("deliveries").list()
		return len(waiting) == 1 && waiting[0].at("lastError").v == "Endpoint answered HTTP 500" && waiting[0].at("nextAttemptAt").v != nil
	}, time.Minute, 20*time.Millisecond)

	require.True(t, at(0).done(t, "DELETE", "/webhooks/"+id, nil).flag("deleted"))
	at(1).ask(t, "GET", "/webhooks/"+id, nil).denied(404, "not_found", "Webhook endpoint not found")
	at(2).ask(t, "POST", again, nil).denied(404, "not_found", "Webhook delivery not found")
	t.Run("fifty_exactly", func(t *testing.T) {
		var all sync.WaitGroup
		var mu sync.Mutex
		statuses := map[int]int{}
		for i := range 60 {
			all.Go(func() {
				a := at(i).trying(t, "POST", "/webhooks", object1{"url": r.URL, "events": []string{"schedule.fired"}})
				for began := time.Now(); a.status == 503 && time.Since(began) < time.Minute; { // sixty that meet at one count: it says when to ask again
					a = at(i).trying(t, "POST", "/webhooks", object1{"url": r.URL, "events": []string{"schedule.fired"}})
				}
				mu.Lock()
				defer mu.Unlock()
				statuses[a.status]++
			})
		}
		all.Wait()
		require.Equal(t, 60, statuses[201]+statuses[409], statuses)
		require.Len(t, reader.done(t, "GET", "/webhooks", nil).at("endpoints").list(), 50)
	})
}
