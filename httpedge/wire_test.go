package httpedge_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/httpedge"
)

// TestBodyThatIsNotAskedFor: what would be refused in any case is refused before a byte of it has come, and who waits to be told
// to send it is not told to.
func TestBodyThatIsNotAskedFor(t *testing.T) {
	b := serve(t, limited(func(c *httpedge.Config) { c.MaxBodyBytes = 1024 }))
	for name, test := range map[string]struct {
		line   string
		status int
	}{
		"too_large":         {"POST /desk/echo/a", 413},
		"too_large_for_row": {"POST /desk/large", 413},
		"too_large_upload":  {"POST /desk/upload", 413},
		"no_route":          {"POST /desk/nothing", 404},
		"no_method":         {"PUT /desk/echo/a", 405},
	} {
		for _, framing := range []string{"Content-Length: 999999", "Content-Length: 999999\r\nExpect: 100-continue", "Transfer-Encoding: chunked"} {
			if strings.HasPrefix(framing, "Transfer") && test.status == 413 {
				continue // nobody knows how large it is
			}
			t.Run(name+"/"+framing, func(t *testing.T) {
				w := b.dial()
				w.t = t
				began := time.Now()
				w.send(test.line + " HTTP/1.1\r\nHost: x\r\n" + framing + "\r\n\r\n")
				a := w.answer()
				require.Equal(t, test.status, a.status, "%s", a.raw)
				require.True(t, a.close)
				w.ended()
				require.Less(t, time.Since(began), 10*time.Second)
			})
		}
	}
	t.Run("still_sending", func(t *testing.T) {
		w := b.dial()
		w.t = t
		_, err := io.WriteString(w, "POST /desk/nothing HTTP/1.1\r\nHost: x\r\nContent-Length: 4000000\r\n\r\n"+strings.Repeat("x", 4_000_000))
		require.NoError(t, err, "it is not reset")
		require.Equal(t, 404, w.answer().status)
		w.ended()
	})
	t.Run("wanted", func(t *testing.T) {
		w := b.dial()
		w.t = t
		w.send("POST /desk/echo/a HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
		require.Equal(t, 100, w.answer().status)
		require.Equal(t, 200, w.send("{}").answer().status)
		require.Equal(t, 200, w.send(get("/desk/echo/b")).answer().status)
	})
	t.Run("mark_is_ours", func(t *testing.T) {
		require.Equal(t, 400, b.do(request("POST", "/desk/echo/a", "{}", ":unread", "1")).status)
	})
}

// TestAmbiguousHeaders: what somebody in front may read otherwise ends the connection.
func TestAmbiguousHeaders(t *testing.T) {
	b := serve(t, limited(func(c *httpedge.Config) { c.Credentials = []string{"X-Token"} }))
	for name, header := range map[string]string{
		"two_credentials":       "Authorization: Bearer a\r\nauthorization: Bearer b\r\n",
		"two_of_the_same":       "Authorization: Bearer a\r\nAuthorization: Bearer a\r\n",
		"two_of_another_header": "x-token: a\r\nX-Token: b\r\n",
		"folded":                "X-A: 1\r\n 2\r\n",
		"folded_with_a_tab":     "X-A: 1\r\n\t2\r\n",
		"folded_credential":     "Authorization: Bearer\r\n a\r\n",
		"control_in_a_field":    "X-Trace: a\tb\r\n",
		"control_of_latin1":     "X-Trace: a\u0085b\r\n",
		"nul":                   "X-A: a\x00b\r\n",
		"bare_return":           "X-A: a\rb\r\n",
		"delete":                "X-A: a\x7fb\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			w := b.dial()
			w.t = t
			w.send("GET /desk/echo/a HTTP/1.1\r\nHost: x\r\n" + header + "\r\n")
			a := w.answer()
			require.Equal(t, 400, a.status, "%s", a.raw)
			require.Equal(t, "VALIDATION_ERROR", a.body["code"])
			if !strings.HasPrefix(name, "control_") { // where only a value is wrong, nothing behind it is in doubt
				w.ended()
			}
		})
	}
	require.Equal(t, 200, b.do(get("/desk/echo/a", "Authorization", "Bearer a", "X-Token", "b", "X-B", "1", "X-B", "2")).status)
}

// TestForeignTarget: a target that names another host than Host does is not answered.
func TestForeignTarget(t *testing.T) {
	b := serve(t)
	for target, status := range map[string]int{
		"/desk/echo/a": 200, "http://x/desk/echo/a": 200, "http://X/desk/echo/a": 200, "/desk/echo/a?next=http://elsewhere/": 200,
		"http://elsewhere/desk/echo/a": 400, "https://elsewhere:8080/desk/echo/a": 400, "//elsewhere/desk/echo/a": 404, "http:///desk/echo/a": 400,
	} {
		w := b.dial()
		w.send("GET " + target + " HTTP/1.1\r\nHost: x\r\n\r\n")
		a := w.answer()
		require.Equal(t, status, a.status, "%s %s", target, a.raw)
		if status == 400 {
			w.ended()
		}
	}
}

// TestNothingOfARequestIsLogged: at the lowest level, too, a request that could not be read is not shown.
func TestNothingOfARequestIsLogged(t *testing.T) {
	log := &lines{}
	b := serve(t, func(_ *httpedge.Config, parts *httpedge.Parts) {
		parts.Logger = slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	const secret = "plr_very-secret"
	for _, text := range []string{
		"GET /desk/echo/a HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + secret + "\x00\r\n\r\n",
		"GET /desk/echo/a HTTP/1.1\r\nHost: x\r\nAuthorization Bearer " + secret + "\r\n\r\n",
		"GET /desk/echo/a HTTP/1.1\r\nHost: x\r\nAuth(" + secret + "): x\r\n\r\n",
		"GET /desk/echo/a HTTP/1.1\r\nHost: x\r\nTrailer: " + secret + "\x01\r\n\r\n",
		"GET /desk/echo/a?token=" + secret + " HTTP/9.9\r\nHost: x\r\n\r\n",
		"GET /desk/\x01" + secret + " HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /desk/echo/a?token=" + secret + " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + secret + "\r\n\r\n",
	} {
		w := b.dial().send(text)
		w.answer()
		_ = w.Close()
	}
	again := b.dial().send(get("/desk/stream")) // fasthttp serves it otherwise afterwards
	take := <-b.desk.streams
	take.Release()
	take.Reuse(take.Conn)
	again.send("GET /desk/echo/a HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + secret + "\x00\r\n\r\n").answer()
	require.NoError(t, b.server.Stop(t.Context()))
	log.mu.Lock()
	defer log.mu.Unlock()
	require.Greater(t, len(log.all), 8, "it is logged that something was wrong")
	require.NotContains(t, fmt.Sprint(log.all), secret)
}

// TestRequestBehindAStream: what the client has sent before its stream has ended is answered after it, however it came.
func TestRequestBehindAStream(t *testing.T) {
	b := serve(t)
	for _, together := range []bool{true, false} {
		t.Run(fmt.Sprint("together_", together), func(t *testing.T) {
			next := request("POST", "/desk/echo/b", `{"text":"`+strings.Repeat("x", 5000)+`"}`) + get("/desk/stream") + get("/desk/echo/c")
			w := b.dial()
			w.t = t
			if together {
				w.send(get("/desk/stream") + next)
			} else {
				w.send(get("/desk/stream"))
			}
			for i := range 2 {
				take := <-b.desk.streams
				if i == 0 && !together {
					w.send(next)
				}
				_, err := fmt.Fprintf(take.Conn, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n%d", i)
				require.NoError(t, err)
				take.Release()
				take.Reuse(take.Conn)
				require.Equal(t, fmt.Sprint(i), string(w.answer().raw))
				if i == 0 {
					a := w.answer()
					require.Equal(t, "b", a.body["Name"])
					require.Len(t, a.body["Text"], 5000)
				}
			}
			require.Equal(t, "c", w.answer().body["Name"])
			require.Equal(t, "d", w.send(get("/desk/echo/d")).answer().body["Name"])
		})
	}
}

// TestFirstVersion: a client of HTTP/1.0 gets no chunks: what has no length ends with the connection.
func TestFirstVersion(t *testing.T) {
	b := serve(t)
	for _, header := range []string{"", "Connection: keep-alive\r\n"} {
		w := b.dial().send("GET /desk/download/300000?how=unknown HTTP/1.0\r\n" + header + "\r\n")
		raw, err := io.ReadAll(w)
		require.NoError(t, err)
		head, content, found := bytes.Cut(raw, []byte("\r\n\r\n"))
		require.True(t, found)
		require.NotContains(t, strings.ToLower(string(head)), "transfer-encoding")
		require.NotContains(t, strings.ToLower(string(head)), "content-length")
		require.Contains(t, string(head), "Connection: close")
		require.Contains(t, string(head), " 200 OK")
		require.Equal(t, pattern(300000), content)
		<-b.desk.closed

		b.dial().send("GET /desk/stream HTTP/1.0\r\n" + header + "\r\n")
		take := <-b.desk.streams
		require.True(t, take.Plain)
		require.Nil(t, take.Reuse)
		require.NoError(t, take.Conn.Close())
		take.Release()
	}
	w := b.dial().send("GET /desk/echo/a HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /desk/download/10 HTTP/1.0\r\n\r\n")
	require.Equal(t, "a", w.answer().body["Name"], "what has a length leaves the connection open")
	response, err := http.ReadResponse(bufio.NewReader(w.reader), nil)
	require.NoError(t, err)
	require.EqualValues(t, 10, response.ContentLength)
	require.NoError(t, response.Body.Close())
	cut := b.dial().send("GET /desk/download/300000?how=unknown HTTP/1.0\r\n\r\n")
	require.NoError(t, cut.Close())
	<-b.desk.closed
	require.Eventually(t, func() bool { return b.metric(t, "parley_http_connections_open") <= 1 }, 10*time.Second, time.Millisecond)
}
