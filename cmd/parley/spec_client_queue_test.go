package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestClientQueue: what becomes of a message while a turn of the session runs is up to its sender.
func TestClientQueue(t *testing.T) {
	t.Parallel()
	n := onFloor(t)
	id := n.session(t, "worker", nil)
	busy := func(gate string) func() answer {
		came := n.p.asking(t, "POST", n.url("/agents/responses"), n.order("worker", script(part{Text: "held", Hold: gate}), object1{"session_id": id}),
			"Authorization", "Bearer "+n.token)
		n.becomes(t, id, "running")
		return came
	}
	queued := object(fields{
		"id": exactly("resp_" + id), "object": exactly("response"), "status": exactly("queued"), "model": nonEmpty, "output": exactly([]any{}),
		"session_id": exactly(id), "run_id": nonEmpty, "message_id": nonEmpty, "position": number,
	})

	first := busy("queue-1")
	later := object1{"session_id": id, "on_busy": "queue"}
	told := n.respond(t, "worker", script(part{Text: "second"}), later, "Idempotency-Key", "queue-key")
	told.fits(202, queued)
	again := n.respond(t, "worker", script(part{Text: "second"}), later, "Idempotency-Key", "queue-key")
	require.Equal(t, told.text, again.text, "the same key, the same answer")
	taken := n.respond(t, "worker", script(part{Text: "never"}), later).fits(202, queued).text("run_id")
	n.respond(t, "worker", "hi", object1{"session_id": id, "on_busy": "shout"}).coded(400, "invalid_request")
	n.respond(t, "worker", "hi", object1{"session_id": id, "on_busy": 1}).coded(400, "invalid_request")
	n.respond(t, "worker", "hi", object1{"session_id": id, "on_busy": "queue", "background": true}).coded(400, "invalid_request")
	n.respond(t, "worker", "hi", object1{"session_id": id, "on_busy": "reject"}).coded(409, "agent_run_conflict")
	n.post(t, "/agents/sessions/"+id+"/cancel?run_id="+taken, nil).fits(200, anyObject)
	close(n.shop.gate("queue-1"))
	first().fits(200, anyObject)
	n.becomes(t, id, "idle")

	second := busy("queue-2")
	n.respond(t, "worker", script(part{Text: "third"}), object1{"session_id": id, "on_busy": "interrupt"}).fits(200, anyObject)
	require.Equal(t, "cancelled", second().fits(200, anyObject).text("status"))
	close(n.shop.gate("queue-2"))

	var answers []string
	for _, message := range n.get(t, "/agents/sessions/"+id+"/messages").fits(200, anyObject).at("data").list() {
		if message.text("role") == "assistant" {
			answers = append(answers, message.text("content"))
		}
	}
	require.Contains(t, answers, "second")
	require.Equal(t, "third", answers[len(answers)-1])
	require.NotContains(t, answers, "never")
	other := newTenant(t, n.p, "ON_PREMISE")
	other.post(t, "/agents/sessions/"+id+"/cancel?run_id="+taken, nil).coded(404, "session_not_found")
}
