package opsapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"parley/actors/core/failure"
	"parley/proto/failurepb"
)

// admin serves an Admin and returns a way to ask it.
// serveAdmin returns where a server with these parts is, and a client for it.
func serveAdmin(t *testing.T, parts Admin) (url string, client *http.Client) {
	t.Helper()
	listener := listen(t)
	server, err := New(DefaultConfig(), Parts{
		Listener: listener, Ready: func() error { return nil }, Gatherer: prometheus.NewRegistry(),
		Admin: parts, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	require.NoError(t, server.Start())
	client = &http.Client{Transport: &http.Transport{}, Timeout: 30 * time.Second}
	t.Cleanup(func() {
		client.CloseIdleConnections()
		require.NoError(t, server.Stop(context.Background()))
	})
	return "http://" + listener.Addr().String(), client
}

func admin(t *testing.T, parts Admin) func(method, path string, header ...string) (status int, body string, cut error) {
	t.Helper()
	url, client := serveAdmin(t, parts)
	return func(method, path string, header ...string) (int, string, error) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, url+path, nil)
		require.NoError(t, err)
		for i := 0; i < len(header); i += 2 {
			request.Header.Set(header[i], header[i+1])
		}
		response, err := client.Do(request)
		require.NoError(t, err)
		defer func() { require.NoError(t, response.Body.Close()) }()
		body, err := io.ReadAll(response.Body)
		return response.StatusCode, strings.TrimSpace(string(body)), err
	}
}

func TestAdminRoutesThatANodeDoesNotHave(t *testing.T) {
	ask := admin(t, Admin{})
	for _, route := range []string{"GET /v1/status", "POST /v1/nodes/n1/drain", "GET /v1/backup"} {
		method, path, _ := strings.Cut(route, " ")
		status, _, err := ask(method, path)
		require.NoError(t, err)
		require.Equal(t, 404, status, route)
	}
}

func TestStatus(t *testing.T) {
	var fault error
	ask := admin(t, Admin{Status: func(context.Context) (any, error) { return map[string]int{"shards": 16}, fault }})
	status, body, err := ask("GET", "/v1/status")
	require.NoError(t, err)
	require.Equal(t, 200, status)
	require.JSONEq(t, `{"shards":16}`, body)

	for want, err := range map[int]error{
		500: errors.New("disk on fire"),
		503: fmt.Errorf("ask the leader: %w", context.DeadlineExceeded),
	} {
		fault = err
		status, body, readErr := ask("GET", "/v1/status")
		require.NoError(t, readErr)
		require.Equal(t, want, status)
		require.Contains(t, body, err.Error())
	}
}

func TestDrain(t *testing.T) {
	var told []string
	ask := admin(t, Admin{Drain: func(_ context.Context, node string, drain bool) error {
		if node == "n9" {
			return failure.Verbatim(failurepb.Code_NOT_FOUND, fmt.Sprintf("no node %s", node))
		}
		told = append(told, fmt.Sprint(node, " ", drain))
		return nil
	}})
	cases := []struct {
		method, path string
		header       []string
		status       int
		body         string
	}{
		{"POST", "/v1/nodes/n2/drain", nil, 200, `"draining":true`},
		{"DELETE", "/v1/nodes/n2/drain", nil, 200, `"draining":false`},
		{"POST", "/v1/nodes/n9/drain", nil, 404, "no node n9"},
		{"GET", "/v1/nodes/n2/drain", nil, 405, ""},
		{"POST", "/v1/nodes/n2/drain", []string{"Origin", "http://evil.test"}, 403, "may not call"},
		{"POST", "/v1/nodes/n2/drain", []string{"Sec-Fetch-Site", "none"}, 403, "not for pages"},
	}
	for _, c := range cases {
		status, body, err := ask(c.method, c.path, c.header...)
		require.NoError(t, err)
		require.Equal(t, c.status, status, "%s %s: %s", c.method, c.path, body)
		require.Contains(t, body, c.body)
	}
	require.Equal(t, []string{"n2 true", "n2 false"}, told)
}

func TestAdminIsForLoopback(t *testing.T) {
	for _, c := range []struct {
		remote, host string
		open         bool
		status       int
	}{
		{"127.0.0.1:5", "127.0.0.1:8081", false, 200},
		{"127.0.0.1:5", "localhost", false, 200},
		{"127.0.0.1:5", "localhost:8081", false, 200},
		{"[::1]:5", "[::1]", false, 200},
		{"[::1]:5", "[::1]:8081", false, 200},
		{"127.0.0.1:5", "evil.test:8081", false, 403},
		{"127.0.0.1:5", "", false, 403},
		{"10.0.0.1:5", "10.0.0.2:8081", false, 403},
		{"10.0.0.1:5", "ops.test", true, 200},
		{"nonsense", "localhost", false, 403},
	} {
		s := &Server{config: DefaultConfig()}
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/backup", nil)
		request.RemoteAddr, request.Host = c.remote, c.host
		recorder := httptest.NewRecorder()
		s.localOnly(c.open, "ops.remote_admin", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(recorder, request)
		require.Equal(t, c.status, recorder.Code, "%+v", c)
	}
}

func TestBackup(t *testing.T) {
	t.Run("whole", func(t *testing.T) {
		ask := admin(t, Admin{Backup: func(_ context.Context, w io.Writer) error {
			for range 100 {
				if _, err := io.WriteString(w, strings.Repeat("x", 10_000)); err != nil {
					return err
				}
			}
			return nil
		}})
		status, body, err := ask("GET", "/v1/backup")
		require.NoError(t, err)
		require.Equal(t, 200, status)
		require.Len(t, body, 1_000_000)
	})
	t.Run("fails_before_it_begins", func(t *testing.T) {
		ask := admin(t, Admin{Backup: func(context.Context, io.Writer) error { return errors.New("no leader of shard 3") }})
		status, body, err := ask("GET", "/v1/backup")
		require.NoError(t, err)
		require.Equal(t, 500, status)
		require.Contains(t, body, "no leader of shard 3")
	})
	t.Run("fails_half_way", func(t *testing.T) {
		ask := admin(t, Admin{Backup: func(_ context.Context, w io.Writer) error {
			_, err := io.WriteString(w, strings.Repeat("x", 100_000))
			return errors.Join(err, errors.New("lost shard 3"))
		}})
		_, _, err := ask("GET", "/v1/backup")
		require.ErrorIs(t, err, io.ErrUnexpectedEOF, "the half is not taken for the whole")
	})
	t.Run("one_at_a_time", func(t *testing.T) {
		inside, leave := make(chan struct{}), make(chan struct{})
		ask := admin(t, Admin{Backup: func(_ context.Context, w io.Writer) error {
			close(inside)
			<-leave
			_, err := io.WriteString(w, "x")
			return err
		}})
		first := make(chan int, 1)
		go func() {
			status, _, err := ask("GET", "/v1/backup")
			if err != nil {
				status = 0
			}
			first <- status
		}()
		<-inside
		status, body, err := ask("GET", "/v1/backup")
		require.NoError(t, err)
		require.Equal(t, 503, status)
		require.Contains(t, body, "running already")
		close(leave)
		require.Equal(t, 200, <-first)
	})
}
