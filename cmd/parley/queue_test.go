package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

type queuedMessage struct {
	RunID     string `json:"runId"`
	MessageID string `json:"messageId"`
	Status    string `json:"status"`
	Position  int    `json:"position"`
}

func (p *process) queue(id, text string) queuedMessage {
	p.t.Helper()
	queued := call[queuedMessage](p, "POST", "/conversations/"+id+"/messages", map[string]any{"message": text, "onBusy": "queue"}, http.StatusAccepted)
	require.Equal(p.t, "queued", queued.Status)
	return queued
}

// said is the messages of users in a log, in order.
func said(t *testing.T, events []wireEvent) (texts []string) {
	t.Helper()
	for _, event := range events {
		var data struct {
			Content string `json:"content"`
		}
		if event.Type == "user.message" {
			require.NoError(t, json.Unmarshal(event.Data, &data))
			texts = append(texts, data.Content)
		}
	}
	return texts
}

// speaking is a server with a conversation in which the turn of "one" has begun to answer its sender.
func speaking(t *testing.T) (p *process, id string, sender *sse) {
	t.Helper()
	p = newProcess(t, testAgents)
	p.start()
	id = p.create("slow")
	sender = p.open("POST", "/conversations/"+id+"/messages", map[string]any{"message": "one", "stream": true}, "")
	sender.until("stream.text")
	return p, id, sender
}

// TestQueueSurvivesKill: messages that wait for their turns have them in order, once each, also after kill -9.
func TestQueueSurvivesKill(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds the binary and runs processes")
	}
	m := newOddModel(t)
	p := newProcess(t, fmt.Sprintf(deathAgents, m.URL))
	p.start()
	id := p.create("odd")
	path := "/conversations/" + id
	m.hangs.Store(true)
	p.open("POST", path+"/messages", map[string]any{"message": "one", "stream": true}, "")
	m.call(t) // its turn runs for as long as the model hangs

	two, three, four := p.queue(id, "two"), p.queue(id, "three"), p.queue(id, "four")
	require.Equal(t, []int{1, 2, 3}, []int{two.Position, three.Position, four.Position})
	status, text := p.try("POST", p.url(path+"/messages"), map[string]any{"message": "five"})
	require.Equalf(t, http.StatusConflict, status, "%s", text)
	require.Contains(t, string(text), "conversation_busy")
	status, text = p.try("POST", p.url(path+"/messages"), map[string]any{"message": "five", "onBusy": "shout"})
	require.Equalf(t, http.StatusBadRequest, status, "%s", text)
	cancelled := call[map[string]any](p, "POST", path+"/cancel?runId="+three.RunID, nil, http.StatusOK)
	require.Equal(t, true, cancelled["cancelled"])
	for n := range 14 {
		p.queue(id, fmt.Sprintf("more %d", n))
	}
	status, text = p.try("POST", p.url(path+"/messages"), map[string]any{"message": "too many", "onBusy": "queue"})
	require.Equalf(t, http.StatusConflict, status, "%s", text)
	p.kill()
	m.hangs.Store(false)
	p.start()

	follower := p.open("GET", path+"/events/stream", nil, "0")
	for ended := false; !ended; {
		idle := follower.until("session.status_idle")
		ended = idle.Data["run_id"] == four.RunID
	}
	events := p.events(id)
	require.Equal(t, []string{"one", "two", "four"}, said(t, events)[:3])
	begun := map[string]int{}
	for i, event := range events {
		require.EqualValues(t, i+1, event.Seq, "the log has no hole")
		if event.Type == "session.status_running" {
			begun[event.RunID]++
		}
	}
	require.Equal(t, 1, begun[two.RunID])
	require.Equal(t, 1, begun[four.RunID])
	require.Zero(t, begun[three.RunID], "taken back")
	require.NoError(t, p.terminate())
}

// TestInterrupt: the turn that runs ends, what it said stays, and the message has its turn before those that wait.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds the binary and runs processes")
	}
	p, id, sender := speaking(t)
	path := "/conversations/" + id
	p.queue(id, "later")
	turn := call[turnResult](p, "POST", path+"/messages", map[string]any{"message": "now", "onBusy": "interrupt"}, http.StatusOK)
	require.Equal(t, "end_turn", turn.StopReason)
	require.Equal(t, "now", turn.Message.Content)
	require.Equal(t, "cancelled", sender.until("stream.done").Data["stopReason"])

	streamed := p.open("POST", path+"/messages", map[string]any{"message": "last", "onBusy": "queue", "stream": true}, "")
	require.Equal(t, "queued", streamed.until("stream.start").Data["status"])
	require.Equal(t, "end_turn", streamed.until("stream.done").Data["stopReason"])
	events := p.events(id)
	require.Equal(t, []string{"one", "now", "later", "last"}, said(t, events))
	for _, event := range events {
		if event.Type == "agent.message" {
			require.True(t, strings.Contains(string(event.Data), "cancelled") && strings.Contains(string(event.Data), "w1"), "%s", event.Data)
			break
		}
	}

	// Twelve senders at once: each message has a turn of its own, none is lost.
	crowd := p.create("quick")
	var all sync.WaitGroup
	answers := make([]int, 12)
	for n := range answers {
		all.Go(func() {
			answers[n], _ = p.try("POST", p.url("/conversations/"+crowd+"/messages"), map[string]any{"message": fmt.Sprint("m", n), "onBusy": "queue"})
		})
	}
	all.Wait()
	for _, status := range answers {
		require.Contains(t, []int{http.StatusOK, http.StatusAccepted}, status)
	}
	follower := p.open("GET", "/conversations/"+crowd+"/events/stream", nil, "0")
	for range answers {
		follower.until("session.status_idle")
	}
	texts := map[string]bool{}
	for _, text := range said(t, p.events(crowd)) {
		require.False(t, texts[text], "twice")
		texts[text] = true
	}
	require.Len(t, texts, len(answers))
}
