package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fakeServer speaks just enough of the API over a real socket to try the harness itself: it can lose a token.
func fakeServer(t *testing.T, loseToken bool) *httptest.Server {
	t.Helper()
	var made atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/agents/conversations", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"conversation":{"id":"conv_%d"}}`, made.Add(1))
	})
	mux.HandleFunc("GET /api/agents/conversations/{id}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"conversation":{},"messages":[],"messagesPage":{}}`)
	})
	mux.HandleFunc("POST /api/agents/conversations/{id}/messages", func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Stream bool }
		if json.NewDecoder(r.Body).Decode(&body) != nil || !body.Stream {
			fmt.Fprint(w, `{"stopReason":"end_turn"}`)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "event: stream.start\ndata: {\"type\":\"stream.start\",\"seq\":1}\n\n")
		for i := 1; i <= 3; i++ {
			if !loseToken || i != 2 {
				fmt.Fprintf(w, "event: stream.text\ndata: {\"type\":\"stream.text\",\"text\":\"w%d \",\"seq\":%d}\n\n", i, i+1)
				if http.NewResponseController(w).Flush() != nil {
					return
				}
			}
		}
		fmt.Fprint(w, "event: stream.done\ndata: {\"type\":\"stream.done\",\"content\":\"w1 w2 w3 \",\"stopReason\":\"end_turn\",\"seq\":5}\n\n")
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

func run(t *testing.T, args ...string) (int, *Report, string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := Main(t.Context(), args, &stdout, &stderr, nil)
	var report Report
	if stdout.Len() > 0 && strings.HasPrefix(stdout.String(), "{") {
		require.NoError(t, json.Unmarshal(stdout.Bytes(), &report))
	}
	return code, &report, stderr.String()
}

func TestScenariosAgainstARealSocket(t *testing.T) {
	server := fakeServer(t, false)
	for _, scenario := range []string{"create", "turn", "read"} {
		t.Run(scenario, func(t *testing.T) {
			code, report, stderr := run(t, scenario, "-url", server.URL, "-count", "40", "-warm-up", "0", "-concurrency", "4", "-records", "8", "-json")
			require.Zero(t, code, stderr)
			require.EqualValues(t, 40, report.OK)
			require.EqualValues(t, 40, report.Latencies["request"].Count)
		})
	}
	t.Run("stream", func(t *testing.T) {
		code, report, stderr := run(t, "stream", "-url", server.URL, "-rounds", "2", "-ramp", "1ms", "-concurrency", "5", "-json")
		require.Zero(t, code, stderr)
		require.EqualValues(t, 10, report.OK)
		require.EqualValues(t, 20, report.Latencies["token gap"].Count)
	})
}

func TestALostTokenFailsTheRun(t *testing.T) {
	server := fakeServer(t, true)
	code, report, _ := run(t, "stream", "-url", server.URL, "-rounds", "1", "-ramp", "1ms", "-concurrency", "2", "-json")
	require.Equal(t, exitFailed, code)
	require.Len(t, report.Faults, 2)
}

func TestRefusalsAreCountedByCode(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, `{"error":"no","code":"unavailable"}`)
	}))
	t.Cleanup(server.Close)
	code, report, _ := run(t, "create", "-url", server.URL, "-count", "5", "-warm-up", "0", "-json")
	require.Equal(t, exitFailed, code)
	require.Equal(t, map[string]int64{"503 unavailable": 5}, report.Errors)
}

// TestLimitsAreHonoured: what a 429 asks for is waited for, and the setting that was met is named.
func TestLimitsAreHonoured(t *testing.T) {
	t.Parallel()
	const refused = `{"error":"no","code":"rate_limited","message":"no","details":{"retryAfter":1,"maxStreams":7}}`
	for scenario, args := range map[string][]string{
		"stream": {"-rounds", "2", "-ramp", "1ms"}, "create": {"-count", "2", "-warm-up", "0"},
	} {
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var came []time.Time
			refuse := func(w http.ResponseWriter, _ *http.Request) {
				mu.Lock()
				came = append(came, time.Now())
				mu.Unlock()
				w.WriteHeader(http.StatusTooManyRequests)
				fmt.Fprint(w, refused)
			}
			mux := http.NewServeMux()
			mux.HandleFunc("POST /api/agents/conversations", func(w http.ResponseWriter, r *http.Request) {
				if scenario == "create" {
					refuse(w, r)
					return
				}
				w.WriteHeader(http.StatusCreated)
				fmt.Fprint(w, `{"conversation":{"id":"conv_1"}}`)
			})
			mux.HandleFunc("POST /api/agents/conversations/{id}/messages", refuse)
			server := httptest.NewServer(mux)
			t.Cleanup(server.Close)
			_, report, stderr := run(t, append([]string{scenario, "-url", server.URL, "-concurrency", "1", "-json"}, args...)...)
			require.Equal(t, map[string]int64{"429 rate_limited: the server's limits.streams_per_caller = 7": 2}, report.Errors, stderr)
			require.Len(t, came, 2)
			require.GreaterOrEqual(t, came[1].Sub(came[0]), time.Second)
		})
	}
}

func TestUsage(t *testing.T) {
	for name, args := range map[string][]string{
		"none": {}, "unknown": {"nonsense"}, "flag": {"turn", "-nonsense"}, "argument": {"turn", "more"},
		"concurrency": {"turn", "-concurrency", "0"}, "duration": {"turn", "-duration", "0s"}, "writers": {"disk", "-writers", "x"},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, stderr := run(t, args...)
			require.Equal(t, exitUsage, code)
			require.NotEmpty(t, stderr)
		})
	}
	code, _, _ := run(t, "help")
	require.Zero(t, code)
}

// TestOpenLoopCountsFromTheDueTime: a server that stalls shows the stall in every request that was due meanwhile.
func TestOpenLoopCountsFromTheDueTime(t *testing.T) {
	release := make(chan struct{})
	var once atomic.Bool
	l := &load{
		options: &Options{Concurrency: 1, Count: 20, Rate: 1000}, live: newProgress(&bytes.Buffer{}, true),
		op: func(int, int) error {
			if once.CompareAndSwap(false, true) {
				<-release
			}
			return nil
		},
	}
	const stall = 200 * time.Millisecond
	timer := time.AfterFunc(stall, func() { close(release) })
	t.Cleanup(func() { timer.Stop() })
	total, _ := l.run(context.Background())
	require.EqualValues(t, 20, total.ok)
	require.Greater(t, total.latency.ValueAtQuantile(50), int64(150*1000), "all twenty were due within 20 ms and waited for the stall")
}
