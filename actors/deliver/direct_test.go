package deliver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// counted is a server that counts its connections.
func counted(t *testing.T, handler http.HandlerFunc) (address string, connections *atomic.Int64) {
	t.Helper()
	connections = &atomic.Int64{}
	server := httptest.NewUnstartedServer(handler)
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	return server.URL, connections
}

// spoken is a server of one connection at a time that answers each request with what it is given, byte for byte.
func spoken(t *testing.T, answers ...string) (address string) {
	t.Helper()
	address, _ = spokenAndClosed(t, answers...)
	return address
}

// spokenAndClosed is spoken that tells of each connection when it has been closed.
func spokenAndClosed(t *testing.T, answers ...string) (address string, closed <-chan struct{}) {
	t.Helper()
	over := make(chan struct{}, len(answers))
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var serving sync.WaitGroup
	serving.Go(func() {
		for _, answer := range answers {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			if request, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
				_, _ = io.Copy(io.Discard, request.Body)
				_, _ = io.WriteString(conn, answer)
			}
			_ = conn.Close()
			over <- struct{}{}
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		serving.Wait()
	})
	return "http://" + listener.Addr().String(), over
}

func loopbackClient(t *testing.T) *http.Client {
	t.Helper()
	guard := NewGuard(GuardConfig{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	t.Cleanup(guard.Close)
	return guard.Direct()
}

func asked(ctx context.Context, t *testing.T, address, body string) *http.Request {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(body))
	require.NoError(t, err)
	request.Header.Set("Accept-Encoding", "identity")
	return request
}

// say makes a call and returns what the server said.
func say(t *testing.T, client *http.Client, address, body string) (int, string, error) {
	t.Helper()
	response, err := client.Do(asked(t.Context(), t, address, body))
	if err != nil {
		return 0, "", err
	}
	text, err := io.ReadAll(response.Body)
	require.NoError(t, response.Body.Close())
	return response.StatusCode, string(text), err
}

func TestDirectCallsShareConnections(t *testing.T) {
	address, connections := counted(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch r.URL.Path {
		case "/empty":
			w.WriteHeader(http.StatusNoContent)
		case "/early":
			w.Header().Set("Link", "</style>")
			w.WriteHeader(http.StatusEarlyHints)
		case "/pieces":
			_, _ = io.WriteString(w, "one ")
			_ = http.NewResponseController(w).Flush()
		}
		if r.URL.Path != "/empty" {
			_, _ = fmt.Fprintf(w, "%s %s %d", r.Host, r.Header.Get("Accept-Encoding"), len(body))
		}
	})
	client := loopbackClient(t)
	var sent atomic.Int64
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{WroteHeaders: func() { sent.Add(1) }})
	host := strings.TrimPrefix(address, "http://")
	for _, one := range []struct {
		path, body, want string
		status           int
	}{
		{"/", "hello", host + " identity 5", 200},
		{"/empty", "hello", "", 204},
		{"/early", "hello", host + " identity 5", 200},
		{"/pieces", "hello", "one " + host + " identity 5", 200},
		{"/", strings.Repeat("x", directBody), fmt.Sprint(host, " identity ", directBody), 200},
	} {
		response, err := client.Do(asked(ctx, t, address+one.path, one.body))
		require.NoError(t, err)
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, one.want, string(text), one.path)
		require.Equal(t, one.status, response.StatusCode)
	}
	require.EqualValues(t, 1, connections.Load())
	require.EqualValues(t, 5, sent.Load(), "what a call costs depends on whether it was sent")

	client.CloseIdleConnections()
	_, _, err := say(t, client, address, "hello")
	require.NoError(t, err)
	require.EqualValues(t, 2, connections.Load())
	_, text, err := say(t, client, address, strings.Repeat("x", directBody+1))
	require.NoError(t, err)
	require.Equal(t, fmt.Sprint(host, " identity ", directBody+1), text)
	require.EqualValues(t, 3, connections.Load(), "a large body is net/http's")
}

func TestDirectCallsAreJudgedWhenTheyConnect(t *testing.T) {
	address, connections := counted(t, func(http.ResponseWriter, *http.Request) {})
	guard := NewGuard(GuardConfig{})
	defer guard.Close()
	_, _, err := say(t, guard.Direct(), address, "hello")
	require.ErrorIs(t, err, ErrForbiddenAddress)
	require.Zero(t, connections.Load())
}

// A connection that the server has closed meanwhile is no reason for a call to fail.
func TestDirectCallAfterTheServerClosed(t *testing.T) {
	const answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	address, closed := spokenAndClosed(t, answer, answer, answer)
	client := loopbackClient(t)
	for range 3 {
		status, text, err := say(t, client, address, "hello")
		require.NoError(t, err)
		require.Equal(t, 200, status)
		require.Equal(t, "ok", text)
		<-closed
	}
}

// What follows an answer on its connection is an answer to nothing.
func TestDirectAnswersStayApart(t *testing.T) {
	const answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	address := spoken(t, answer+"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", answer)
	client := loopbackClient(t)
	for range 2 {
		_, text, err := say(t, client, address, "hello")
		require.NoError(t, err)
		require.Equal(t, "ok", text)
	}
}

func TestDirectAnswersAreBounded(t *testing.T) {
	for name, answer := range map[string]string{
		"head":      "HTTP/1.1 200 OK\r\nX-Long: " + strings.Repeat("x", maxHeaderBytes) + "\r\n\r\n",
		"interim":   strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", maxInterim+1) + "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
		"switching": "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: other\r\n\r\n",
		"cut head":  "HTTP/1.1 200 OK\r\nContent-",
		"cut body":  "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nok",
		"nothing":   "",
		"no HTTP":   "220 mail.example.com ESMTP\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := say(t, loopbackClient(t), spoken(t, answer), "hello")
			require.Error(t, err)
		})
	}
}

// A call ends with its context, wherever it is, and says why; its connection serves no other.
func TestDirectCallsAreCancelled(t *testing.T) {
	errEnough := errors.New("enough")
	release := make(chan struct{})
	address, connections := counted(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/body" {
			_, _ = io.WriteString(w, "begun ")
			_ = http.NewResponseController(w).Flush()
		}
		if r.URL.Path != "/" {
			<-release
		}
	})
	t.Cleanup(func() { close(release) }) // before the server waits for its handlers
	client := loopbackClient(t)
	for i, path := range []string{"/head", "/body"} {
		ctx, cancel := context.WithCancelCause(t.Context())
		request := asked(ctx, t, address+path, "hello")
		ended := make(chan error, 1)
		reading := make(chan struct{})
		go func() {
			response, err := client.Do(request)
			if err == nil {
				_, err = response.Body.Read(make([]byte, 6))
				close(reading)
				if err == nil {
					_, err = response.Body.Read(make([]byte, 6))
				}
				_ = response.Body.Close()
			}
			ended <- err
		}()
		if path == "/body" {
			<-reading
		} else {
			require.Eventually(t, func() bool { return connections.Load() == int64(2*i+1) }, 30*time.Second, time.Millisecond)
		}
		cancel(errEnough)
		select {
		case err := <-ended:
			require.ErrorIs(t, err, errEnough)
		case <-time.After(10 * time.Second):
			t.Fatal("the call goes on")
		}
		_, _, err := say(t, client, address, "hello")
		require.NoError(t, err)
		client.CloseIdleConnections()
		require.EqualValues(t, 2*i+2, connections.Load())
	}
}

// An answer that is left unread ends its connection.
func TestDirectAnswersLeftUnread(t *testing.T) {
	address, connections := counted(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("x", 1<<20))
	})
	client := loopbackClient(t)
	for i := range int64(3) {
		response, err := client.Do(asked(t.Context(), t, address, "hello"))
		require.NoError(t, err)
		_, err = io.ReadFull(response.Body, make([]byte, 100))
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		_, err = response.Body.Read(make([]byte, 1))
		require.ErrorIs(t, err, http.ErrBodyReadAfterClose)
		require.Equal(t, i+1, connections.Load())
	}
}

// Idle connections are bounded in number and time.
func TestDirectConnectionsExpire(t *testing.T) {
	var d direct
	one := func(address string) *directConn {
		near, far := net.Pipe()
		t.Cleanup(func() { _ = far.Close() })
		return &directConn{Conn: near, pool: &d, address: address}
	}
	for range idlePerHost + 1 {
		d.keep(one("a"))
	}
	require.Equal(t, idlePerHost, d.kept)
	middle := time.Now()
	newer := one("b")
	d.keep(newer)
	newer.since = middle.Add(time.Second)
	d.expire(middle)
	require.Equal(t, 1, d.kept)
	require.NotNil(t, d.sweep)
	require.Nil(t, d.take("a"))
	require.Same(t, newer, d.take("b"))
	d.keep(newer)
	d.expire(time.Now())
	require.Zero(t, d.kept)
	require.Nil(t, d.sweep)
	for i := range idleInAll + 9 {
		d.keep(one(fmt.Sprint(i)))
	}
	require.Equal(t, idleInAll, d.kept)
	d.expire(time.Now())
}
