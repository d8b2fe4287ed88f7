package bench

import (
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

// forgetful is a server to soak. What it leaks doubles from one look at its metrics to the next, so that it is found however
// slow the machine is.
type forgetful struct {
	leaks string
	made  atomic.Int64
	asked atomic.Int64 // for its metrics
	mu    struct {
		sync.Mutex
		turns map[string]chan struct{} // closed when a turn has ended
	}
}

func (f *forgetful) start(t *testing.T) string {
	t.Helper()
	f.mu.turns = map[string]chan struct{}{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/agents/conversations", func(w http.ResponseWriter, _ *http.Request) {
		id := fmt.Sprint("conv_", f.made.Add(1))
		f.mu.Lock()
		f.mu.turns[id] = make(chan struct{})
		f.mu.Unlock()
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"conversation":{"id":%q}}`, id)
	})
	mux.HandleFunc("POST /api/agents/conversations/{id}/messages", func(w http.ResponseWriter, r *http.Request) {
		close(f.turn(r))
		fmt.Fprint(w, `{"stopReason":"end_turn"}`)
	})
	mux.HandleFunc("DELETE /api/agents/conversations/{id}", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /api/agents/conversations/{id}/events/stream", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, ": open\n\n")
		if http.NewResponseController(w).Flush() != nil {
			return
		}
		select {
		case <-f.turn(r):
			fmt.Fprint(w, "id: 1\nevent: session.status_idle\ndata: {\"seq\":1}\n\n")
		case <-r.Context().Done():
		}
	})
	mux.HandleFunc("GET /debug/pprof/heap", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /metrics", f.metrics)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

func (f *forgetful) turn(r *http.Request) chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.turns[r.PathValue("id")]
}

func (f *forgetful) metrics(w http.ResponseWriter, _ *http.Request) {
	asked := f.asked.Add(1)
	of := func(what string, most, each int64) int64 {
		if what == f.leaks {
			return most + each<<min(asked, 40)
		}
		return most
	}
	for name, value := range map[string]int64{
		statHeap:                       of("heap", 50e6, 1e3),
		statGoroutines:                 of("goroutines", 300, 10),
		statDescriptors:                of("descriptors", 100, 10) + of("tables", 5, 10),
		statTables:                     of("tables", 5, 10),
		statMemory:                     of("memory", 150e6, 1e3),
		"parley_persistence_wal_bytes": of("disk", 1e6, 1e3),
	} {
		fmt.Fprintf(w, "# TYPE %s gauge\n%s %d\n", name, name, value)
	}
	fmt.Fprintf(w, "# HELP parley_queue_rows What waits.\n# TYPE parley_queue_rows gauge\nparley_queue_rows{of=\"a b\"} 3\nparley_queue_rows{of=\"c\"} %d\n",
		of("queue", 10, 20))
	fmt.Fprintf(w, "# TYPE parley_done_total counter\nparley_done_total %d\n", 1000*f.made.Load())
}

// A soak finds what grows, whatever it is, and lets be what may.
func TestSoakFindsWhatGrows(t *testing.T) {
	for leaks, fault := range map[string]string{
		"": "", "heap": "live heap, bytes grew", "goroutines": "goroutines grew", "descriptors": "descriptors but those of tables grew",
		"queue": "parley_queue_rows grew", "memory": "MB are resident", "tables": "", "disk": "",
	} {
		t.Run("leaks="+leaks, func(t *testing.T) {
			url := (&forgetful{leaks: leaks}).start(t)
			code, report, stderr := run(t, "soak", "-url", url, "-ops-url", url, "-duration", "1500ms", "-settle", "10ms",
				"-concurrency", "4", "-rate", "200", "-json")
			require.Positive(t, report.OK, stderr)
			if fault == "" {
				require.Zero(t, code, "%v %v", report.Faults, report.Errors)
				return
			}
			require.Equal(t, exitFailed, code)
			require.Len(t, report.Faults, 1)
			require.Contains(t, report.Faults[0], fault)
			require.Empty(t, report.Errors)
		})
	}
}

func TestSoakNeedsToSeeTheServer(t *testing.T) {
	code, _, stderr := run(t, "soak", "-url", "http://127.0.0.1:9")
	require.Equal(t, exitFailed, code)
	require.Contains(t, stderr, "-ops-url")
}

func TestGrowthComparesQuarters(t *testing.T) {
	start := time.Now()
	var g growth
	var busy growth // the same with twice the load in the end
	for i := 1; i <= 40; i++ {
		values := map[string]float64{whatHeap: 100e6, "parley_up": 1000 * float64(i), "parley_filled": min(1000*float64(i), 9000)}
		if i%5 == 0 { // one high sample of five is chance
			values[whatHeap] = 300e6
		}
		at := start.Add(time.Duration(i) * time.Second)
		g.samples = append(g.samples, sample{at, int64(i), values})
		busy.samples = append(busy.samples, sample{at, int64(i + max(0, i-30)), map[string]float64{
			"parley_waiting": float64(5000 + 5000*min(1, max(0, i-30))), "parley_up": float64(1000 * (i + max(0, i-30))),
		}})
	}
	report := &Report{Numbers: map[string]float64{}}
	faults := g.judge(report)
	require.Equal(t, []string{"parley_up grew from 16000 to 36000"}, faults)
	require.Equal(t, []string{"parley_up grew from 16000 to 42000"}, busy.judge(report))
	require.Len(t, (&growth{}).judge(report), 1, "nothing was seen")
	require.Equal(t, map[string]float64{"a": 4, "b": 1e6}, parseGauges(strings.NewReader(
		"# TYPE a gauge\na{x=\"# {} 7\"} 1\na{y=\"2\"} 3\n# TYPE c counter\nc 5\n# TYPE b gauge\nb 1e+06\n",
	)))
}
