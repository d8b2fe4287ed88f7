package bench

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWhatIsRepeated(t *testing.T) {
	busy := &callError{Status: 409, Code: codeBusy}
	for name, c := range map[string]struct {
		err           error
		first, second bool
	}{
		"unavailable": {&callError{Status: 503, Code: "503 unavailable"}, true, true},
		"no_answer":   {&callError{Code: "timeout"}, true, true},
		"busy":        {busy, false, true},
		"under_way":   {&callError{Status: 409, Code: codeKeyTaken}, false, true},
		"refused":     {&callError{Status: 400, Code: "400 VALIDATION_ERROR"}, false, false},
		"broken":      {errors.New("bad answer"), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRetry(time.Minute)
			require.Equal(t, c.first, r.again(c.err))
			require.Equal(t, c.second, r.again(c.err))
			require.False(t, newRetry(0).again(c.err), "without a limit nothing is repeated")
			require.False(t, newRetry(time.Millisecond).again(c.err), "the time is over before the pause is")
		})
	}
}

func TestPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		r := newRetry(time.Minute)
		down := &callError{Code: codeRefused}
		for range 2 {
			require.True(t, r.again(down))
			r.pause(3)
			require.Zero(t, time.Since(start), "a node that takes no connection costs no time")
		}
		require.True(t, r.again(down))
		r.pause(3)
		require.Equal(t, firstRetryPause, time.Since(start), "all were asked")
		for range 10 {
			require.True(t, r.again(&callError{Status: 503}))
			r.pause(3)
		}
		require.Equal(t, longestRetryPause, r.wait)
	})
}

func TestBlackouts(t *testing.T) {
	start := time.Now()
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	b := newBlackouts([]string{"a", "b"})
	b.success(0, at(-1000)) // before the beginning
	b.begin(at(0))
	b.success(0, at(100))
	b.success(1, at(400))
	b.success(0, at(500))
	report := &Report{Numbers: map[string]float64{}}
	b.report(report, at(600))
	const name = "longest time without an answer, ms, "
	require.Equal(t, map[string]float64{name + "a": 400, name + "b": 400, name + "all nodes together": 300}, report.Numbers)
}

// TestRequestsFailOver: one server is gone, one is not available, the third answers.
func TestRequestsFailOver(t *testing.T) {
	const gone = "http://127.0.0.1:1"
	var asked atomic.Int64
	down := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, `{"code":"unavailable"}`)
	}))
	t.Cleanup(down.Close)
	up := fakeServer(t, false)
	code, report, stderr := run(t, "create", "-url", gone+","+down.URL+","+up.URL, "-count", "30", "-warm-up", "0s", "-concurrency", "3", "-json")
	require.Zero(t, code, stderr)
	require.EqualValues(t, 30, report.OK)
	require.Positive(t, asked.Load())
	require.GreaterOrEqual(t, report.Numbers["repeated attempts"], 20.0)
}
