package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fakeCluster is two servers that share their conversations and can be told to do wrong.
type fakeCluster struct {
	plant   string // the fault
	servers []*httptest.Server
	mu      sync.Mutex
	logs    map[string][]string // events as JSON
	changed chan struct{}       // closed at every change
	runs    int
}

// wrongAt is the turn in which a planted fault shows.
const wrongAt = 3

// turnsSent is how many turns the test makes.
const turnsSent = 8

func newFakeCluster(t *testing.T, plant string) *fakeCluster {
	t.Helper()
	f := &fakeCluster{plant: plant, logs: map[string][]string{}, changed: make(chan struct{})}
	for n := range 2 {
		mux := http.NewServeMux()
		mux.HandleFunc("POST /api/agents/conversations", f.create)
		mux.HandleFunc("POST /api/agents/conversations/{id}/messages", f.send)
		mux.HandleFunc("GET /api/agents/conversations/{id}/events", func(w http.ResponseWriter, r *http.Request) { f.list(w, r, n) })
		mux.HandleFunc("GET /api/agents/conversations/{id}/events/stream", func(w http.ResponseWriter, r *http.Request) { f.stream(w, r, n) })
		server := httptest.NewServer(mux)
		t.Cleanup(server.Close)
		f.servers = append(f.servers, server)
	}
	return f
}

func (f *fakeCluster) create(w http.ResponseWriter, _ *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	id := fmt.Sprintf("conv_%d", len(f.logs))
	f.logs[id] = nil
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, `{"conversation":{"id":%q}}`, id)
}

func (f *fakeCluster) appendLocked(id, format string, args ...any) {
	seq := len(f.logs[id]) + 1
	f.logs[id] = append(f.logs[id], fmt.Sprintf(`{"seq":%d,`, seq)+fmt.Sprintf(format, args...)+`,"created_at":"`+time.Now().UTC().Format(time.RFC3339Nano)+`"}`)
}

func (f *fakeCluster) send(w http.ResponseWriter, r *http.Request) {
	var body struct{ Message string }
	if json.NewDecoder(r.Body).Decode(&body) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	id := r.PathValue("id")
	f.runs++
	wrong := f.runs == wrongAt
	times := 1
	switch {
	case wrong && f.plant == "acknowledged and lost":
		times = 0
	case wrong && f.plant == "done twice":
		times = 2
	}
	for n := range times {
		run := fmt.Sprintf("run_%d_%d", f.runs, n)
		f.appendLocked(id, `"type":"user.message","run_id":%q,"data":{"content":%q,"message_id":"q_%s"}`, run, body.Message, run)
		f.appendLocked(id, `"type":"session.status_running","run_id":%q,"data":{}`, run)
		f.appendLocked(id, `"type":"agent.message","run_id":%q,"data":{"content":"w1","message_id":"a_%s"}`, run, run)
		if f.runs != turnsSent || f.plant != "stuck" {
			f.appendLocked(id, `"type":"session.status_idle","run_id":%q,"data":{"stop_reason":"end_turn"}`, run)
		}
	}
	close(f.changed)
	f.changed = make(chan struct{})
	w.Header().Set("X-Served-By", "n1")
	run := fmt.Sprintf("run_%d_0", f.runs)
	fmt.Fprintf(w, `{"message":{"id":"q_%s"},"response":{"id":"a_%s","content":"w1"},"stopReason":"end_turn","runId":%q}`, run, run, run)
}

// shownLocked is a conversation's log as a node shows it.
func (f *fakeCluster) shownLocked(id string, node int) []string {
	log := f.logs[id]
	if f.plant == "a node is behind" && node == 1 && len(log) > 4 {
		log = log[:4]
	}
	if f.plant == "a node shows another text" && node == 1 && len(log) > 2 {
		log = append(append(append([]string{}, log[:2]...), strings.Replace(log[2], "w1", "w2", 1)), log[3:]...)
	}
	return log
}

func (f *fakeCluster) list(w http.ResponseWriter, r *http.Request, node int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	after, err := strconv.Atoi(r.URL.Query().Get("after"))
	log := f.shownLocked(r.PathValue("id"), node)
	if err != nil || after > len(log) {
		after = len(log)
	}
	fmt.Fprintf(w, `{"events":[%s],"hasMore":false}`, strings.Join(log[after:], ","))
}

func (f *fakeCluster) stream(w http.ResponseWriter, r *http.Request, node int) {
	sent, err := strconv.Atoi(r.Header.Get("Last-Event-ID"))
	if err != nil {
		sent = 0
	}
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprint(w, ": open\n\n")
	flush := http.NewResponseController(w).Flush
	for {
		f.mu.Lock()
		log, changed := f.shownLocked(r.PathValue("id"), node), f.changed
		f.mu.Unlock()
		for ; sent < len(log); sent++ {
			at := sent
			switch {
			case sent == 5 && node == 1 && f.plant == "lost on a stream":
				continue
			case sent == 5 && node == 1 && f.plant == "reordered on a stream" && len(log) > 6:
				at = 6
			case sent == 5 && node == 1 && f.plant == "doubled on a stream":
				at = 4
			}
			fmt.Fprintf(w, "id: %d\nevent: x\ndata: %s\n\n", at+1, log[at])
		}
		if flush() != nil {
			return
		}
		if sent == 4 && f.plant == "streams break" {
			return // the follower comes back for more
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

// TestPlantedFaultsAreFound runs a load against servers that do one thing wrong, and audits it.
func TestPlantedFaultsAreFound(t *testing.T) {
	t.Parallel()
	for plant, want := range map[string]string{
		"":                          "",
		"streams break":             "",
		"acknowledged and lost":     "lost: message q_run_3_0",
		"done twice":                "doubled: message \"message 2.1",
		"stuck":                     "stuck",
		"a node is behind":          "one node shows",
		"a node shows another text": "nodes show different events 3",
		"lost on a stream":          "event 7 after 5",
		"reordered on a stream":     "event 7 after 5",
		"doubled on a stream":       "event 5 after 5",
	} {
		t.Run(plant, func(t *testing.T) {
			t.Parallel()
			servers := newFakeCluster(t, plant)
			o := &Options{
				URLs: []string{servers.servers[0].URL, servers.servers[1].URL}, BasePath: "/api/agents", Concurrency: 2,
				Timeout: 5 * time.Second, AttemptTimeout: 5 * time.Second, RetryFor: time.Second,
			}
			c, err := newCrowd(t.Context(), o, newProgress(&bytes.Buffer{}, true), 2, nil)
			require.NoError(t, err)
			defer c.close()
			if want != "" { // what is right may take its time on a busy machine, what is wrong is not waited for
				c.patience = 300 * time.Millisecond
			}
			require.NoError(t, c.follow(t.Context(), 4))
			for n := range turnsSent {
				require.NoError(t, c.turn(n%2, n))
			}
			found := strings.Join(c.audit(t.Context()), "\n")
			if want == "" {
				require.Empty(t, found)
			} else {
				require.Contains(t, found, want)
			}
			if plant == "streams break" {
				require.NotEmpty(t, c.streamEnds())
			}
		})
	}
}

// TestTheClockOfAKill: a command and an event count from the kill, and only those that came about after it.
func TestTheClockOfAKill(t *testing.T) {
	servers := newFakeCluster(t, "")
	o := &Options{
		URLs: []string{servers.servers[0].URL}, BasePath: "/api/agents", Concurrency: 2,
		Timeout: 5 * time.Second, AttemptTimeout: 5 * time.Second, RetryFor: time.Second,
	}
	c, err := newCrowd(t.Context(), o, newProgress(&bytes.Buffer{}, true), 2, nil)
	require.NoError(t, err)
	defer c.close()
	require.NoError(t, c.follow(t.Context(), 2))
	require.NoError(t, c.ledgers[0].turn())
	require.Equal(t, map[string]int{"n1": 1, "": 1}, c.owners())
	affected, wait := c.ownerKilled("n1", time.Now().Add(-400*time.Millisecond))
	wait()
	require.Equal(t, 1, affected)
	require.EqualValues(t, 1, c.first.h.TotalCount())
	require.GreaterOrEqual(t, c.first.h.Max(), int64(400_000))
	require.Eventually(t, func() bool {
		c.heard.Lock()
		defer c.heard.Unlock()
		return c.heard.h.TotalCount() == 1
	}, 30*time.Second, time.Millisecond)
	at := time.Date(2026, 11, 21, 1, 2, 3, 0, time.UTC)
	require.True(t, createdAfter([]byte(`{"created_at":"2026-11-21T01:02:03.001Z"}`), at))
	require.False(t, createdAfter([]byte(`{"created_at":"2026-11-21T01:02:02.999Z"}`), at))
	require.False(t, createdAfter([]byte(`{}`), at))
}
