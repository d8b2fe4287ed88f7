package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestKillStory plays what the README promises, step by step: go test -run TestKillStory -v prints it.
func TestKillStory(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds the binary and runs processes")
	}
	// Turns of four seconds: the second one is still running when a slow machine kills the process.
	p := newProcess(t, strings.Replace(testAgents, "token_interval: 50ms", "token_interval: 100ms", 1))
	p.start()
	id := p.create("slow")
	t.Logf("a conversation: %s", id)

	first := p.send(id, "first question")
	require.Equal(t, "end_turn", first.StopReason)
	t.Logf("a whole turn, answered: %.30q...", first.Response.Content)
	before := p.events(id)
	require.NotEmpty(t, before)

	follower := p.open("GET", "/conversations/"+id+"/events/stream", nil, strconv.FormatUint(before[len(before)-1].Seq, 10))
	answer := p.open("POST", "/conversations/"+id+"/messages", map[string]any{"message": "second question", "stream": true}, "")
	accepted := answer.until("stream.start")
	for range 5 {
		answer.until("stream.text")
	}
	seen := follower.until("session.status_running")
	run, _ := seen.Data["run_id"].(string)
	t.Logf("a second turn streams (run %s); five words have come; now kill -9", run)
	p.kill()

	began := time.Now()
	p.start()
	t.Logf("started again, ready after %v", time.Since(began).Round(time.Millisecond))
	after := p.events(id)
	require.GreaterOrEqual(t, len(after), len(before)+2)
	require.Equal(t, before, after[:len(before)], "every acknowledged event is there, as it was")
	require.Equal(t, "user.message", after[len(before)].Type)
	require.Contains(t, string(after[len(before)].Data), accepted.Data["messageId"])

	again := p.open("GET", "/conversations/"+id+"/events/stream", nil, seen.ID)
	recovered := again.until("session.recovered")
	require.Equal(t, run, recovered.Data["run_id"])
	t.Logf("a follower goes on from event %s and hears that the run was recovered", seen.ID)
	message := again.until("agent.message")
	idle := again.until("session.status_idle")
	require.Equal(t, run, message.Data["run_id"])
	data, _ := idle.Data["data"].(map[string]any)
	require.Equal(t, "end_turn", data["stop_reason"])
	t.Logf("the interrupted turn has finished: event %s, %v", idle.ID, data)

	all := p.events(id)
	for i, event := range all {
		require.EqualValues(t, i+1, event.Seq, "the log has no hole")
	}
	third := p.send(id, "third question")
	require.Equal(t, "end_turn", third.StopReason)
	t.Logf("and the conversation goes on: %d events in its log", len(p.events(id)))
	require.NoError(t, p.terminate(), "a graceful stop exits 0")
}

// TestGracefulStopLetsTurnsFinish: a turn that runs when the process is told to stop still reaches its stream and its
// waiting caller, and new ones are refused meanwhile.
func TestGracefulStopLetsTurnsFinish(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds the binary and runs processes")
	}
	// Turns of eight seconds: they are still running when a slow machine has seen that the process stops.
	p := newProcess(t, strings.Replace(testAgents, "token_interval: 50ms", "token_interval: 200ms", 1))
	p.start()
	streamed, waited, idle := p.create("slow"), p.create("slow"), p.create("quick")
	answer := p.open("POST", "/conversations/"+streamed+"/messages", map[string]any{"message": "to a stream", "stream": true}, "")
	answer.until("stream.text")
	result := make(chan turnResult, 1)
	go func() {
		var got turnResult
		if status, text := p.try("POST", p.url("/conversations/"+waited+"/messages"), map[string]any{"message": "to a caller"}); status == http.StatusOK {
			_ = json.Unmarshal(text, &got) // an empty result fails below
		}
		result <- got
	}()
	follower := p.open("GET", "/conversations/"+waited+"/events/stream", nil, "")
	follower.until("session.status_running")

	stopped := make(chan error, 1)
	go func() { stopped <- p.terminate() }()
	require.Eventually(t, func() bool {
		status, _ := p.try("GET", "http://"+p.ops+"/readyz", nil)
		return status == http.StatusServiceUnavailable
	}, 30*time.Second, 5*time.Millisecond)
	status, text := p.try("POST", p.url("/conversations/"+idle+"/messages"), map[string]any{"message": "too late"})
	require.Equal(t, http.StatusServiceUnavailable, status, string(text))

	done := answer.until("stream.done")
	require.Equal(t, "end_turn", done.Data["stopReason"])
	require.Contains(t, done.Data["content"], "w40")
	require.Equal(t, "end_turn", (<-result).StopReason)
	follower.until("session.status_idle")
	require.NoError(t, <-stopped)

	p.start()
	require.Len(t, p.events(streamed), 4, "nothing was left to recover")
	require.Len(t, p.events(waited), 4)
	require.Empty(t, p.events(idle))
}

// acknowledged is what a client was told is done.
type acknowledged struct {
	mu    sync.Mutex
	turns map[string][]turnResult
}

// TestKillsUnderLoad kills the process at random moments under load: nothing acknowledged is lost, no log has a hole,
// and no conversation stays in a turn for ever.
func TestKillsUnderLoad(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: starts and kills real processes for seconds")
	}
	seed := seedOf(t)
	random := rand.New(rand.NewPCG(seed, 1))
	p := newProcess(t, testAgents)
	p.start()
	var ids []string
	for range 12 {
		ids = append(ids, p.create("quick"))
	}
	told := &acknowledged{turns: map[string][]turnResult{}}
	for range 4 {
		stop := make(chan struct{})
		var clients sync.WaitGroup
		for _, id := range ids {
			clients.Go(func() { talk(p, id, told, stop) })
		}
		timer := time.NewTimer(time.Duration(150+random.IntN(500)) * time.Millisecond)
		<-timer.C
		p.kill()
		close(stop)
		clients.Wait()
		p.start()
		check(t, p, ids, told)
	}
	total := 0
	for _, turns := range told.turns {
		total += len(turns)
	}
	require.Positive(t, total)
	t.Logf("%d acknowledged turns over 4 kills, none lost", total)
}

func seedOf(t *testing.T) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("PARLEY_TEST_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("PARLEY_TEST_SEED=%d", seed)
	return seed
}

// talk sends messages until told to stop; what fails was not acknowledged and is not asked for later.
func talk(p *process, id string, told *acknowledged, stop <-chan struct{}) {
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		default:
		}
		status, text := p.try("POST", p.url("/conversations/"+id+"/messages"), map[string]any{"message": fmt.Sprintf("message %d", n)})
		if status != http.StatusOK {
			continue
		}
		var result turnResult
		if json.Unmarshal(text, &result) == nil && result.StopReason == "end_turn" {
			told.mu.Lock()
			told.turns[id] = append(told.turns[id], result)
			told.mu.Unlock()
		}
	}
}

type readAnswer struct {
	Conversation struct {
		Runtime struct {
			Status string `json:"status"`
		} `json:"runtime"`
	} `json:"conversation"`
}

func check(t *testing.T, p *process, ids []string, told *acknowledged) {
	t.Helper()
	for _, id := range ids {
		require.Eventually(t, func() bool {
			return call[readAnswer](p, "GET", "/conversations/"+id, nil, http.StatusOK).Conversation.Runtime.Status == "idle"
		}, 30*time.Second, 20*time.Millisecond, "conversation %s stays in a turn", id)
		events := p.events(id)
		var text strings.Builder
		running := false
		for i, event := range events {
			require.EqualValuesf(t, i+1, event.Seq, "hole in the log of %s", id)
			switch event.Type {
			case "session.status_running":
				require.Falsef(t, running, "two turns at once in %s", id)
				running = true
			case "session.status_idle":
				running = false
			}
			text.Write(event.Data)
		}
		for _, turn := range told.turns[id] {
			require.Containsf(t, text.String(), turn.Message.ID, "acknowledged message is gone")
			require.Containsf(t, text.String(), turn.Response.ID, "acknowledged answer is gone")
		}
	}
}
