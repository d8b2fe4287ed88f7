package bench

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// jobServer makes jobs that end as it is told; ended is the status in place of a success.
func jobServer(t *testing.T, calls bool, ended string) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body) // a body that is cut has no callback
		status := map[bool]string{true: "succeeded", false: "completed"}[strings.Contains(r.URL.Path, "/agents/runs/")]
		switch {
		case r.Method == http.MethodPost:
			if _, after, found := strings.Cut(string(text), `"http://`); found && calls {
				callback, _, _ := strings.Cut(after, `"`)
				request, err := http.NewRequestWithContext(r.Context(), http.MethodPost, "http://"+callback, http.NoBody)
				if err == nil {
					response, err := http.DefaultClient.Do(request)
					if err == nil {
						_ = response.Body.Close()
					}
				}
			}
			w.WriteHeader(map[bool]int{true: http.StatusCreated, false: http.StatusAccepted}[strings.HasSuffix(r.URL.Path, "/tasks")])
			_, _ = io.WriteString(w, `{"id":"x","task":{"id":"x"}}`)
		case ended != "":
			_, _ = io.WriteString(w, `{"status":"`+ended+`"}`)
		default:
			_, _ = io.WriteString(w, `{"status":"`+status+`"}`)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

// TestJobsAreAudited plants what the audit of jobs must find.
func TestJobsAreAudited(t *testing.T) {
	for name, test := range map[string]struct {
		calls  bool
		ended  string
		faults string // a piece of every fault; "" = there is none
		errors bool
	}{
		"all is well": {calls: true},
		"no callback": {faults: "no callback"},
		"they fail":   {calls: true, ended: "failed", faults: "not one", errors: true},
	} {
		t.Run(name, func(t *testing.T) {
			server := jobServer(t, test.calls, test.ended)
			o := &Options{URLs: []string{server.URL}, BasePath: "/conversations", ClientPath: "/client", AttemptTimeout: time.Second, Timeout: time.Second}
			conversations, err := newClient(o)
			require.NoError(t, err)
			defer conversations.close()
			api, err := newClientAPI(o)
			require.NoError(t, err)
			defer api.close()
			ctx, cancel := context.WithCancel(t.Context())
			j, err := startJobs(ctx, o, conversations, api)
			require.NoError(t, err)
			defer j.close()
			require.Eventually(t, func() bool {
				j.mu.Lock()
				defer j.mu.Unlock()
				return len(j.mu.ended)+len(j.mu.errors) > 1
			}, 10*time.Second, time.Millisecond)
			cancel()
			j.running.Wait()
			report := &Report{Numbers: map[string]float64{}, Errors: map[string]int64{}}
			j.audit(ctx, report)
			require.Equal(t, test.faults != "", len(report.Faults) > 0, report.Faults)
			for _, fault := range report.Faults {
				require.Contains(t, fault, test.faults)
			}
			require.Equal(t, test.errors, len(report.Errors) > 0, report.Errors)
		})
	}
}
