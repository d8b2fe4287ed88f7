package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fakeAPI speaks just enough of the Client API, and of the conversation server, to try the harness: its list of sessions can
// be wrong.
type fakeAPI struct {
	wrong string // what is wrong with its list: "", lost, twice or order

	mu struct {
		sync.Mutex
		sessions []string       // as the list shows them, oldest first
		model    string         // base URL of the model that was recorded
		traces   map[string]int // spans by trace
	}
}

const fakeToken = "service_fake"

func (f *fakeAPI) start(t *testing.T) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/agents/conversations", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, `{"conversation":{"id":"conv_1"}}`)
	})
	mux.HandleFunc("POST /api/agents/conversations/{id}/messages", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"stopReason":"end_turn"}`)
	})
	mux.HandleFunc("POST /api/client/v1/agents/responses", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"id":"resp_conv_1","status":"completed"}`)
	})
	mux.HandleFunc("POST /api/client/v1/a2a/{agent}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"result":{"kind":"task","status":{"state":"completed"}}}`)
	})
	mux.HandleFunc("POST /api/client/v1/agents/sessions", f.create)
	mux.HandleFunc("GET /api/client/v1/agents/sessions", f.list)
	mux.HandleFunc("POST /api/client/v1/models/providers", func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Settings struct{ BaseURL string } }
		_ = json.NewDecoder(r.Body).Decode(&body) // a call that fails shows it
		f.mu.Lock()
		f.mu.model = body.Settings.BaseURL
		f.mu.Unlock()
		w.WriteHeader(http.StatusCreated)
	})
	mux.HandleFunc("POST /api/client/v1/models", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) })
	mux.HandleFunc("POST /api/client/v1/chat/completions", f.complete)
	mux.HandleFunc("POST /api/client/v1/traces", f.trace)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+fakeToken {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error":{"message":"no","code":"invalid_api_key"}}`)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// trace takes a report, but one whose spans are of several traces.
func (f *fakeAPI) trace(w http.ResponseWriter, r *http.Request) {
	var report struct {
		ResourceSpans []struct {
			ScopeSpans []struct{ Spans []struct{ TraceID string } }
		}
	}
	_ = json.NewDecoder(r.Body).Decode(&report) // what is none has no spans
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.traces == nil {
		f.mu.traces = map[string]int{}
	}
	stored := 0
	for _, resource := range report.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			for _, span := range scope.Spans {
				if f.mu.traces[span.TraceID]++; span.TraceID == scope.Spans[0].TraceID {
					stored++
				}
			}
		}
	}
	fmt.Fprintf(w, `{"success":true,"sessionsIngested":1,"eventsStored":%d,"spansProcessed":%d}`, stored, stored)
}

func (f *fakeAPI) create(w http.ResponseWriter, _ *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := len(f.mu.sessions)
	id := fmt.Sprint("conv_", n)
	f.mu.sessions = append(f.mu.sessions, fmt.Sprintf(`{"id":%q,"created_at":"2026-01-01T00:00:00.%03dZ"}`, id, n))
	w.WriteHeader(http.StatusCreated)
	fmt.Fprint(w, f.mu.sessions[n])
}

func (f *fakeAPI) list(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	shown := slices.Clone(f.mu.sessions)
	f.mu.Unlock()
	slices.Reverse(shown)
	switch f.wrong {
	case "lost":
		shown = slices.Delete(shown, 7, 8)
	case "twice":
		shown = slices.Insert(shown, 9, shown[3])
	case "order":
		shown[1], shown[2] = shown[2], shown[1]
	}
	at, _ := strconv.Atoi(r.URL.Query().Get("after")) // 0 without one
	end, next := min(at+sessionPage, len(shown)), "null"
	if end < len(shown) {
		next = strconv.Quote(strconv.Itoa(end))
	}
	page, _ := json.Marshal(raws(shown[at:end])) // is JSON already
	fmt.Fprintf(w, `{"object":"list","data":%s,"has_more":%v,"next_cursor":%s}`, page, next != "null", next)
}

func raws(texts []string) []json.RawMessage {
	all := make([]json.RawMessage, len(texts))
	for i, text := range texts {
		all[i] = json.RawMessage(text)
	}
	return all
}

// complete calls the model that was recorded, as a gateway does.
func (f *fakeAPI) complete(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	to := f.mu.model
	f.mu.Unlock()
	request, err := http.NewRequestWithContext(r.Context(), http.MethodPost, to+"/chat/completions", r.Body)
	if err == nil {
		var response *http.Response
		if response, err = http.DefaultClient.Do(request); err == nil {
			_, err = io.Copy(w, response.Body)
			_ = response.Body.Close() // was read
		}
	}
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
	}
}

func TestContestsTellOneFromTheOther(t *testing.T) {
	url := (&fakeAPI{}).start(t)
	t.Run("gateway", func(t *testing.T) {
		code, report, stderr := run(t, "gateway", "-url", url, "-token", fakeToken, "-rate", "50", "-duration", "1s", "-warm-up", "0s", "-json")
		require.Zero(t, code, stderr, report.Errors)
		require.Positive(t, report.Latencies["direct"].Count)
		require.Positive(t, report.Latencies["gateway"].Count)
		require.Contains(t, report.Numbers, "added by the gateway, p50 ms")
		require.True(t, report.Open)
	})
	t.Run("responses", func(t *testing.T) {
		code, report, stderr := run(t, "responses", "-url", url, "-token", fakeToken, "-concurrency", "2", "-duration", "1s", "-warm-up", "0s", "-json")
		require.Zero(t, code, stderr, report.Errors)
		require.Len(t, report.Latencies, 4)
		for _, ratio := range []string{"response over send", "response in a new session over create and send"} {
			require.Positive(t, report.Numbers[ratio], ratio)
		}
	})
}

func TestA2AOverSend(t *testing.T) {
	url := (&fakeAPI{}).start(t)
	code, report, stderr := run(t, "a2a", "-url", url, "-token", fakeToken, "-concurrency", "2", "-duration", "1s", "-warm-up", "0s", "-json")
	require.Zero(t, code, stderr, report.Errors)
	require.Positive(t, report.Numbers["message/send over send"])
	require.Positive(t, report.Numbers["message/send in a new session over create and send"])
}

// TestSpans: every report is a trace of its own, whose spans are told by the second.
func TestSpans(t *testing.T) {
	f := &fakeAPI{}
	code, report, stderr := run(t, "spans", "-url", f.start(t), "-token", fakeToken, "-concurrency", "2", "-count", "6", "-records", "3", "-warm-up", "0s", "-json")
	require.Zero(t, code, stderr, report.Errors)
	require.Len(t, f.mu.traces, 6)
	for _, spans := range f.mu.traces {
		require.Equal(t, 3, spans)
	}
	require.InDelta(t, 3*report.PerSecond, report.Numbers["spans per second"], 1e-6)
}

func TestWrongListFailsTheRun(t *testing.T) {
	for wrong, faults := range map[string]int{"": 0, "lost": 1, "twice": 2, "order": 1} { // what comes twice is out of order, too
		t.Run("wrong="+wrong, func(t *testing.T) {
			url := (&fakeAPI{wrong: wrong}).start(t)
			// The first request of each ten is for the first page alone; the next three are one walk.
			code, report, stderr := run(t, "sessions", "-url", url, "-token", fakeToken, "-records", "250", "-concurrency", "1", "-count", "4", "-warm-up", "0s", "-json")
			require.Equal(t, faults > 0, code != 0, stderr)
			require.Len(t, report.Faults, faults)
			require.EqualValues(t, 4, report.OK)
			require.InDelta(t, 1, report.Numbers["whole walks"], 0)
		})
	}
}

func TestTheClientAPITakesAToken(t *testing.T) {
	url := (&fakeAPI{}).start(t)
	code, _, stderr := run(t, "sessions", "-url", url, "-json")
	require.Equal(t, exitFailed, code)
	require.Contains(t, stderr, "-token or PARLEY_TOKEN")
	code, _, stderr = run(t, "sessions", "-url", url, "-token", "other", "-records", "1", "-json")
	require.Equal(t, exitFailed, code)
	require.Contains(t, stderr, "401 invalid_api_key")
}

func TestRatiosOfContests(t *testing.T) {
	slow := &rival{name: "slow", total: newTally(), took: 2 * time.Second, rates: []float64{50, 100}, cpu: 2}
	quick := &rival{name: "quick", total: newTally(), took: time.Second, rates: []float64{100, 100}, cpu: 1}
	for range 100 {
		slow.total.add(nil, time.Millisecond)
		quick.total.add(nil, time.Millisecond)
	}
	report := contestReport(&Options{}, []*rival{slow, quick})
	slow.against(report, quick)
	require.InDelta(t, 0.5, report.Numbers["slow over quick"], 1e-9)
	require.InDelta(t, 1, report.Numbers["slow over quick, median of slices"], 1e-9)
	require.InDelta(t, 0.5, report.Numbers["slow over quick, tenth of slices below"], 1e-9)
	require.InDelta(t, 0.5, report.Numbers["slow over quick, by server CPU"], 1e-9)
}
