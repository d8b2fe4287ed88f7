package opsapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type fixture struct {
	*Server
	address string
	reason  atomic.Pointer[string]

	client *http.Client
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return listener
}

func start(t *testing.T, change func(*Config)) *fixture {
	t.Helper()
	registry := prometheus.NewRegistry()
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "parley_test_things_total", Help: "Things."})
	registry.MustRegister(counter)
	counter.Add(3)
	config := DefaultConfig()
	if change != nil {
		change(&config)
	}
	f := &fixture{client: &http.Client{Transport: &http.Transport{}, Timeout: 30 * time.Second}}
	listener := listen(t)
	f.address = listener.Addr().String()
	server, err := New(config, Parts{
		Listener: listener,
		Ready: func() error {
			if reason := f.reason.Load(); reason != nil {
				return errors.New(*reason)
			}
			return nil
		},
		Gatherer: registry, Version: map[string]string{"version": "1.2.3"}, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	f.Server = server
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		f.client.CloseIdleConnections()
		_ = server.Stop(context.Background())
	})
	return f
}

func (f *fixture) get(t *testing.T, path string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+f.address+path, nil)
	require.NoError(t, err)
	response, err := f.client.Do(request)
	require.NoError(t, err)
	defer func() { require.NoError(t, response.Body.Close()) }()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(body)
}

func TestRoutes(t *testing.T) {
	f := start(t, nil)
	for path, want := range map[string]struct {
		status int
		body   string
	}{
		"/healthz":                             {200, `{"status":"ok"}`},
		"/readyz":                              {200, `{"ready":true}`},
		"/version":                             {200, `{"version":"1.2.3"}`},
		"/metrics":                             {200, "parley_test_things_total 3"},
		"/debug/pprof/":                        {200, "goroutine"},
		"/debug/pprof/heap":                    {200, ""},
		"/debug/pprof/goroutine?debug=1":       {200, "goroutine profile"},
		"/debug/pprof/cmdline":                 {200, ""},
		"/debug/pprof/trace?seconds=0.01":      {200, ""},
		"/debug/pprof/profile?seconds=1000000": {400, "seconds must be between 0 and 120"},
		"/debug/pprof/trace?seconds=NaN":       {400, "seconds"},
		"/debug/pprof/trace?seconds=-1":        {400, "seconds"},
		"/":                                    {404, ""},
		"/healthz/":                            {404, ""},
	} {
		t.Run(strings.NewReplacer("/", "_", "?", "_").Replace(path), func(t *testing.T) {
			status, body := f.get(t, path)
			require.Equal(t, want.status, status, body)
			require.Contains(t, body, want.body)
		})
	}
}

func TestReadyTellsTheReason(t *testing.T) {
	f := start(t, nil)
	reason := "3 of 16 shards have no leader"
	f.reason.Store(&reason)
	status, body := f.get(t, "/readyz")
	require.Equal(t, 503, status)
	require.JSONEq(t, `{"ready":false,"reason":"3 of 16 shards have no leader"}`, body)
	status, _ = f.get(t, "/healthz")
	require.Equal(t, 200, status, "alive though not ready")
	f.reason.Store(nil)
	status, _ = f.get(t, "/readyz")
	require.Equal(t, 200, status)
}

func TestOnlyGet(t *testing.T) {
	f := start(t, nil)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+f.address+"/healthz", strings.NewReader("x"))
	require.NoError(t, err)
	response, err := f.client.Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusMethodNotAllowed, response.StatusCode)
}

func TestProfilesAreForLoopback(t *testing.T) {
	for remote, allowed := range map[string]bool{
		"127.0.0.1:5": true, "[::1]:5": true, "[::ffff:127.0.0.1]:5": true, "10.0.0.1:5": false, "[2001:db8::1]:5": false, "junk": false,
	} {
		for _, open := range []bool{false, true} {
			s := &Server{config: Config{RemotePprof: open}}
			request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/debug/pprof/heap", nil)
			request.RemoteAddr, request.Host = remote, "localhost"
			recorder := httptest.NewRecorder()
			s.localOnly(s.config.RemotePprof, "ops.remote_pprof", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(recorder, request)
			require.Equal(t, allowed || open, recorder.Code == 200, remote)
		}
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	f := start(t, func(c *Config) { c.MaxConnections = 2 })
	dial := func() net.Conn {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", f.address)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	ask := func(conn net.Conn) {
		_, err := fmt.Fprintf(conn, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
		require.NoError(t, err)
	}
	hears := func(conn net.Conn, wait time.Duration) bool {
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(wait)))
		_, err := conn.Read(make([]byte, 4096))
		return err == nil
	}
	first, second, third := dial(), dial(), dial()
	for _, conn := range []net.Conn{first, second, third} {
		ask(conn)
	}
	require.True(t, hears(first, 5*time.Second))
	require.True(t, hears(second, 5*time.Second))
	require.False(t, hears(third, 100*time.Millisecond), "waits while both places are taken")
	require.NoError(t, first.Close())
	require.True(t, hears(third, 5*time.Second))
}

func TestStop(t *testing.T) {
	f := start(t, nil)
	status, _ := f.get(t, "/healthz")
	require.Equal(t, 200, status)
	require.NoError(t, f.Stop(t.Context()))
	require.NoError(t, f.Stop(t.Context()), "twice")
	_, err := new(net.Dialer).DialContext(t.Context(), "tcp", f.address)
	require.Error(t, err)
	require.Error(t, f.Start(), "serves once")

	parts := f.parts
	parts.Listener = listen(t)
	never, err := New(DefaultConfig(), parts)
	require.NoError(t, err)
	require.NoError(t, never.Stop(t.Context()), "before Start")
	require.NoError(t, never.Stop(t.Context()))
	require.Error(t, never.Start())
	_, err = new(net.Dialer).DialContext(t.Context(), "tcp", parts.Listener.Addr().String())
	require.Error(t, err, "the listener is closed in any case")
}

// A profile that is under way when the node stops is cut, not waited for.
func TestStopCutsLongProfiles(t *testing.T) {
	f := start(t, nil)
	began := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", f.address)
		if err == nil {
			_, err = fmt.Fprintf(conn, "GET /debug/pprof/trace?seconds=60 HTTP/1.1\r\nHost: x\r\n\r\n")
			close(began)
			if err == nil {
				_, _ = io.Copy(io.Discard, conn) // ends when the connection is cut
			}
			_ = conn.Close()
		}
	}()
	<-began
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_ = f.Stop(ctx)
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		require.Fail(t, "the profile goes on")
	}
}

func TestVersionOfTheBuild(t *testing.T) {
	require.NotEmpty(t, buildVersion()["version"])
}

func TestNewRefuses(t *testing.T) {
	_, err := New(Config{}, Parts{})
	require.Error(t, err)
	_, err = New(DefaultConfig(), Parts{})
	require.Error(t, err)
}

// TestPagesOfBrowsers: nobody is asked who calls, so no page may.
func TestPagesOfBrowsers(t *testing.T) {
	s := start(t, nil)
	for _, path := range []string{"/healthz", "/metrics", "/version", "/debug/pprof/heap", "/v1/status"} {
		for name, change := range map[string]func(*http.Request){
			"rebinding":    func(r *http.Request) { r.Host = "evil.example:9090" },
			"other_origin": func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") },
			"other_site":   func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		} {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.address+path, http.NoBody)
			require.NoError(t, err)
			change(request)
			response, err := s.client.Do(request)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			require.Equal(t, http.StatusForbidden, response.StatusCode, "%s %s", name, path)
		}
	}
}
