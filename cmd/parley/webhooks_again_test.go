package main

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// failedHooks has an endpoint that refuses what it is told of some sessions, until nothing waits any more.
func failedHooks(t *testing.T, owner *visitor, many int) (id string, r *hookListener) {
	t.Helper()
	r = newHookListener(t)
	r.answers(http.StatusGone) // a delivery fails at once
	a := owner.call(t, "POST", consoleAPI+"/webhooks", object1{"url": r.URL, "events": []string{"session.idled"}})
	require.Equal(t, 201, a.status, a.text)
	id = decode(t, a.text).text("endpoint", "id")
	agent := furnish(t, owner)
	for range many {
		turnOf(t, owner, agent)
	}
	require.Eventually(t, func() bool { return len(failedOf(t, owner, id)) == many }, time.Minute, 20*time.Millisecond)
	return id, r
}

// failedOf are the deliveries of an endpoint that failed.
func failedOf(t *testing.T, owner *visitor, id string) []tree {
	t.Helper()
	a := owner.call(t, "GET", consoleAPI+"/webhooks/"+id+"/deliveries?status=failed&limit=200", nil)
	require.Equal(t, 200, a.status, a.text)
	return decode(t, a.text).at("deliveries").list()
}

// distinct counts the events among what a receiver was told.
func distinct(all []told) map[string]int {
	events := map[string]int{}
	for _, one := range all {
		events[one.Headers["Webhook-Id"]]++
	}
	return events
}

// TestWebhooksAgain: all that failed within a span of time is sent again, once, whoever asks for it and how often.
func TestWebhooksAgain(t *testing.T) {
	t.Parallel()
	p := shared.of(t, accountsConfig)
	owner, _, _ := company(t, p)
	const many = 6
	id, r := failedHooks(t, owner, many)
	path := consoleAPI + "/webhooks/" + id + "/redeliver"
	again := func(b *visitor, body object1) tree {
		a := b.call(t, "POST", path, body)
		require.Equal(t, 202, a.status, a.text)
		return decode(t, a.text)
	}
	require.Zero(t, again(owner, object1{"to": "2001-01-01T00:00:00Z"}).number("redelivered"), "another span")
	counted := again(owner, object1{"dryRun": true})
	require.Equal(t, many, int(counted.number("redelivered")))
	span := object1{"from": failedOf(t, owner, id)[many-1].text("createdAt"), "to": counted.text("to")}

	stranger, _, _ := company(t, p)
	require.Equal(t, 404, stranger.call(t, "POST", path, span).status)
	require.Equal(t, 401, newVisitor(t, p).call(t, "POST", path, span).status)

	before := len(r.got("session.idled"))
	r.answers(http.StatusNoContent)
	var all sync.WaitGroup
	counts := make([]float64, 4)
	for i := range counts {
		all.Go(func() { counts[i] = again(owner, span).number("redelivered") })
	}
	all.Wait()
	sum := 0.0
	for _, count := range counts {
		sum += count
	}
	require.Equal(t, many, int(sum), "each by one of those who asked at once: %v", counts)
	told := r.hears(t, "session.idled", before+many)
	require.Eventually(t, func() bool { return len(failedOf(t, owner, id)) == 0 }, time.Minute, 20*time.Millisecond)
	require.Len(t, r.got("session.idled"), before+many, "each once")
	for event, times := range distinct(told) {
		require.Equal(t, 2, times, "%s is told as the same event", event)
	}
	require.Zero(t, again(owner, span).number("redelivered"), "a repeat")
}

// TestWebhooksAgainOverKill: the node dies while deliveries are made again; who asks again has the rest sent, and nothing is lost.
func TestWebhooksAgainOverKill(t *testing.T) {
	t.Parallel()
	p := newProcess(t, accountsConfig)
	p.start()
	owner, _, _ := company(t, p)
	const many = 12
	id, r := failedHooks(t, owner, many)
	before := len(r.got("session.idled"))
	now := time.Now().UTC().Format(time.RFC3339Nano)
	path, body := consoleAPI+"/webhooks/"+id+"/redeliver", object1{"to": now}
	first := owner.call(t, "POST", path, object1{"to": now, "dryRun": true})
	require.Equal(t, many, int(decode(t, first.text).number("redelivered")))
	r.answers(http.StatusNoContent)
	asked := owner.call(t, "POST", path, body)
	require.Equal(t, 202, asked.status, asked.text)
	p.kill() // some are told, some are not
	p.start()
	repeated := owner.call(t, "POST", path, body)
	require.Equal(t, 202, repeated.status, repeated.text)
	require.Zero(t, decode(t, repeated.text).number("redelivered"), "they were stored before the answer")
	r.hears(t, "session.idled", before+many)
	require.Eventually(t, func() bool {
		a := owner.call(t, "GET", consoleAPI+"/webhooks/"+id+"/deliveries?status=delivered&limit=200", nil)
		return len(decode(t, a.text).at("deliveries").list()) == many
	}, time.Minute, 20*time.Millisecond)
	require.Len(t, distinct(r.got("session.idled")), many)
}
