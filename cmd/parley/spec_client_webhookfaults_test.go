package main

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestClientWebhookFaults: what an endpoint's answer does to the delivery and to the endpoint.
func TestClientWebhookFaults(t *testing.T) {
	t.Parallel()
	n := newTenant(t, house(t).p, "ON_PREMISE")
	n.scripted(t)
	agent := n.newAgent(t, object1{"name": "Teller", "config": object1{"modelKey": "scripted"}})
	var followed, asked atomic.Int64
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed.Add(1) }))
	t.Cleanup(target.Close)
	answering := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, target.URL, http.StatusPermanentRedirect)
		case "/gone":
			asked.Add(1)
			w.WriteHeader(http.StatusGone)
		default:
			w.Header().Set("Retry-After", "1200")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	t.Cleanup(answering.Close)
	made := map[string]string{}
	for _, path := range []string{"/moved", "/gone", "/busy"} {
		made[path] = n.done(t, "POST", "/webhooks", object1{"url": answering.URL + path, "events": []string{"session.idled"}}).text("endpoint", "id")
	}
	begun := time.Now()
	n.done(t, "POST", "/agents/responses", object1{"model": agent, "input": "hi"})
	// first is an endpoint's delivery after its first attempt.
	first := func(path string) (delivery tree) {
		require.Eventually(t, func() bool {
			all := n.done(t, "GET", "/webhooks/"+made[path]+"/deliveries", nil).at("deliveries").list()
			if len(all) == 1 {
				delivery = all[0]
			}
			return len(all) == 1 && delivery.number("attempts") == 1
		}, time.Minute, 20*time.Millisecond, path)
		return delivery
	}

	moved := first("/moved")
	require.Equal(t, []string{"failed", "Endpoint answered HTTP 308"}, []string{moved.text("status"), moved.text("lastError")})
	var endpoint tree
	require.Eventually(t, func() bool {
		endpoint = n.done(t, "GET", "/webhooks/"+made["/moved"], nil).at("endpoint")
		return endpoint.text("status") == "disabled"
	}, time.Minute, 20*time.Millisecond)
	require.Equal(t, "redirect", endpoint.text("disabledReason"))
	require.NotNil(t, endpoint.at("failingSince").v)
	require.Zero(t, followed.Load(), "a redirect is not followed")

	gone := first("/gone")
	require.Equal(t, []string{"failed", "Endpoint answered HTTP 410"}, []string{gone.text("status"), gone.text("lastError")}, "no further attempt")
	require.EqualValues(t, 1, asked.Load())
	require.Equal(t, "active", n.done(t, "GET", "/webhooks/"+made["/gone"], nil).text("endpoint", "status"), "of this delivery, not of the endpoint")

	busy := first("/busy")
	require.Equal(t, []string{"pending", "Endpoint answered HTTP 429"}, []string{busy.text("status"), busy.text("lastError")})
	next, err := time.Parse(time.RFC3339, busy.text("nextAttemptAt"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, next.Sub(begun), 1199*time.Second, "not the minute of the schedule")
}
