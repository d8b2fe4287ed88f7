package httpedge_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/httpedge"
)

func limited(change func(*httpedge.Config)) setting {
	return func(config *httpedge.Config, _ *httpedge.Parts) { change(config) }
}

func TestBodyTooLarge(t *testing.T) {
	b := serve(t, limited(func(c *httpedge.Config) { c.MaxBodyBytes = 1024 }))
	fits := `{"text":"` + strings.Repeat("x", 1000) + `"}`
	require.Equal(t, 200, b.do(request("POST", "/desk/echo/a", fits)).status)

	for name, size := range map[string]int{"a_little": 2_000, "a_lot": 3 << 20} {
		t.Run(name, func(t *testing.T) {
			body := `{"text":"` + strings.Repeat("x", size) + `"}`
			w := b.dial()
			w.t = t
			go func() { _, _ = io.WriteString(w, request("POST", "/desk/echo/a", body)) }() // may be cut off
			a := w.answer()
			require.Equal(t, 413, a.status)
			require.Equal(t, "too_large", a.body["code"])
			require.True(t, a.close)
			w.ended()
		})
	}
	t.Run("chunked", func(t *testing.T) {
		chunk := "400\r\n" + strings.Repeat("x", 1024) + "\r\n"
		w := b.dial()
		w.t = t
		go func() {
			_, _ = io.WriteString(w, "POST /desk/echo/a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"+
				strings.Repeat(chunk, 8)+"0\r\n\r\n")
		}()
		require.Equal(t, 413, w.answer().status)
	})
	t.Run("declared_only", func(t *testing.T) {
		w := b.dial()
		w.t = t
		w.send("POST /desk/echo/a HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999999\r\n\r\n{")
		require.Equal(t, 413, w.answer().status)
	})
}

func TestHeaderTooLarge(t *testing.T) {
	b := serve(t)
	require.Equal(t, 200, b.do(get("/desk/echo/a", "X-Big", strings.Repeat("x", 7000))).status)
	a := b.refused(431, "header_too_large", get("/desk/echo/a", "X-Big", strings.Repeat("x", 9000)))
	require.True(t, a.close)
	require.NotEmpty(t, a.header.Get("X-Request-Id"))
	b.refused(431, "header_too_large", get("/desk/echo/"+strings.Repeat("x", 9000)))
}

func TestPathTooLong(t *testing.T) {
	b := serve(t)
	require.Equal(t, 200, b.do(get("/desk/echo/"+strings.Repeat("x", 2000))).status)
	b.refused(414, "path_too_long", get("/desk/echo/"+strings.Repeat("x", 2048)))
	require.Equal(t, 200, b.do(get("/desk/echo/x?q="+strings.Repeat("x", 5000))).status, "the query is not part of it")
}

func TestBodyTooDeep(t *testing.T) {
	b := serve(t, limited(func(c *httpedge.Config) { c.MaxJSONDepth = 5 }))
	deep := func(n int) string {
		return request("POST", "/desk/echo/a", `{"x":`+strings.Repeat("[", n-1)+strings.Repeat("]", n-1)+`}`)
	}
	require.Equal(t, 200, b.do(deep(5)).status)
	b.refused(400, "VALIDATION_ERROR", deep(6))
	brackets := `{"text":"` + strings.Repeat(`[{\"`, 50) + `"}`
	require.Equal(t, 200, b.do(request("POST", "/desk/echo/a", brackets)).status, "brackets in texts do not count")
}

func TestSlowLoris(t *testing.T) {
	b := serve(t, limited(func(c *httpedge.Config) { c.ReadTimeout, c.IdleTimeout = 300*time.Millisecond, 300*time.Millisecond }))
	drip := func(w *wire, text string) {
		for i := range len(text) {
			if _, err := w.Write([]byte{text[i]}); err != nil {
				return
			}
			<-time.After(20 * time.Millisecond)
		}
	}
	cases := map[string]func(w *wire){
		"header": func(w *wire) { go drip(w, get("/desk/echo/a", "X-Slow", strings.Repeat("x", 1000))) },
		"body": func(w *wire) {
			w.send("POST /desk/echo/a HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")
			go drip(w, strings.Repeat("x", 1000))
		},
		"second_request": func(w *wire) {
			w.send(get("/desk/echo/a"))
			require.Equal(w.t, 200, w.answer().status)
			go drip(w, get("/desk/echo/a", "X-Slow", strings.Repeat("x", 1000)))
		},
	}
	for name, begin := range cases {
		t.Run(name, func(t *testing.T) {
			w := b.dial()
			w.t = t
			start := time.Now()
			begin(w)
			a := w.answer()
			require.Equal(t, 408, a.status)
			require.Equal(t, "request_timeout", a.body["code"])
			_ = w.CloseWrite()
			require.Less(t, time.Since(start), 15*time.Second)
		})
	}
	t.Run("silent", func(t *testing.T) {
		w := b.dial()
		w.t = t
		_, err := io.ReadAll(w)
		require.NoError(t, err, "closed by the server")
	})
	t.Run("idle", func(t *testing.T) {
		w := b.dial()
		w.t = t
		w.send(get("/desk/echo/a"))
		require.Equal(t, 200, w.answer().status)
		w.ended()
	})
	require.Equal(t, 200, b.do(get("/desk/echo/a")).status)
}

// CloseWrite lets a dripping sender end.
func (w *wire) CloseWrite() error {
	tcp, ok := w.Conn.(*net.TCPConn)
	if !ok {
		return nil
	}
	return tcp.CloseWrite()
}

func TestTooManyConnections(t *testing.T) {
	b := serve(t, limited(func(c *httpedge.Config) { c.MaxConnections = 2 }))
	first, second := b.dial(), b.dial()
	require.Equal(t, 200, first.send(get("/desk/echo/a")).answer().status)
	require.Equal(t, 200, second.send(get("/desk/echo/a")).answer().status)
	third := b.dial()
	a := third.answer()
	require.Equal(t, 503, a.status)
	require.Equal(t, "unavailable", a.body["code"])
	require.Equal(t, "1", a.header.Get("Retry-After"))
	third.ended()
	require.NoError(t, first.Close())
	require.Eventually(t, func() bool {
		return b.dial().send(get("/desk/echo/a")).answer().status == 200
	}, 30*time.Second, 10*time.Millisecond, "a closed connection makes room")
	require.Len(t, b.log.with("connections are refused: too many are open"), 1)
}

func TestMalformedRequests(t *testing.T) {
	b := serve(t)
	for name, text := range map[string]string{
		"garbage":          "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
		"no_version":       "GET /desk/echo/a\r\n\r\n",
		"bad_length":       "POST /desk/echo/a HTTP/1.1\r\nHost: x\r\nContent-Length: abc\r\n\r\n",
		"negative_length":  "POST /desk/echo/a HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
		"bad_header":       "GET /desk/echo/a HTTP/1.1\r\nHost x\r\n\r\n",
		"bad_chunk":        "POST /desk/echo/a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
		"bad_escape":       get("/desk/echo/%zz"),
		"bad_utf8_path":    get("/desk/echo/%ff"),
		"bad_utf8_query":   get("/desk/echo/a?q=%ff"),
		"bad_utf8_body":    request("POST", "/desk/echo/a", "{\"text\":\"\xff\"}"),
		"not_an_object":    request("POST", "/desk/echo/a", "7"),
		"wrong_type":       request("POST", "/desk/echo/a", `{"text":[]}`),
		"unfinished":       request("POST", "/desk/echo/a", `{"text":`),
		"two_values":       request("POST", "/desk/echo/a", `{} {}`),
		"only_white_space": request("POST", "/desk/echo/a", "  "),
	} {
		t.Run(name, func(t *testing.T) {
			inner := *b
			inner.t = t
			inner.refused(400, "VALIDATION_ERROR", text)
		})
	}
	require.Equal(t, 200, b.do(get("/desk/echo/a")).status)
	require.Empty(t, b.log.with("request failed"), "bad input is no fault")
}

// TestTwoFramings: a body with two lengths, of which a proxy may have believed the other, ends the connection, so that
// nothing in it is taken for a request.
func TestTwoFramings(t *testing.T) {
	b := serve(t)
	hidden := get("/desk/echo/hidden")
	for _, order := range []string{
		"Transfer-Encoding: chunked\r\nContent-Length: %d\r\n", "content-length: %d\r\nTransfer-Encoding: chunked\r\n",
	} {
		framing := fmt.Sprintf(order, len(hidden)+len("0\r\n\r\n"))
		w := b.dial().send("POST /desk/echo/a HTTP/1.1\r\nHost: x\r\n" + framing + "\r\n0\r\n\r\n" + hidden)
		require.Equal(t, 400, w.answer().status)
		w.ended()
	}
}

func TestInputIsDecoded(t *testing.T) {
	b := serve(t)
	a := b.do(request("POST", "/desk/echo/%C3%A4%2Fb?q=%E2%82%AC&q=2", `{"text":"\u00e4","Name":"x","other":1}`))
	require.Equal(t, 200, a.status)
	require.Equal(t, "ä/b", a.body["Name"], "nothing of the body stands for the path")
	require.Equal(t, "€", a.body["Query"])
	require.Equal(t, "ä", a.body["Text"])
	empty := b.do(request("POST", "/desk/echo/a", ""))
	require.Equal(t, 200, empty.status, "no body is an empty object")
}

func TestPipelinedRequests(t *testing.T) {
	b := serve(t)
	w := b.dial().send(get("/desk/echo/a") + get("/desk/echo/b") + request("POST", "/desk/echo/c", `{}`))
	for _, name := range []string{"a", "b", "c"} {
		require.Equal(t, name, w.answer().body["Name"])
	}
}

func TestConfigValidate(t *testing.T) {
	require.NoError(t, httpedge.DefaultConfig().Validate())
	for name, change := range map[string]func(*httpedge.Config){
		"read":        func(c *httpedge.Config) { c.ReadTimeout = 0 },
		"idle":        func(c *httpedge.Config) { c.IdleTimeout = -1 },
		"write":       func(c *httpedge.Config) { c.WriteTimeout = 0 },
		"request":     func(c *httpedge.Config) { c.RequestTimeout = 0 },
		"recheck":     func(c *httpedge.Config) { c.RecheckEvery = 0 },
		"header":      func(c *httpedge.Config) { c.MaxHeaderBytes = 10 },
		"buffer":      func(c *httpedge.Config) { c.WriteBufferBytes = 0 },
		"body":        func(c *httpedge.Config) { c.MaxBodyBytes = 0 },
		"large":       func(c *httpedge.Config) { c.MaxLargeBodies = 0 },
		"transfers":   func(c *httpedge.Config) { c.MaxTransfers = 0 },
		"path":        func(c *httpedge.Config) { c.MaxPathBytes = 1 << 20 },
		"depth":       func(c *httpedge.Config) { c.MaxJSONDepth = 0 },
		"connections": func(c *httpedge.Config) { c.MaxConnections = 0 },
		"streams":     func(c *httpedge.Config) { c.MaxStreams = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			config := httpedge.DefaultConfig()
			change(&config)
			require.Error(t, config.Validate())
		})
	}
}

func TestUnknownMethod(t *testing.T) {
	b := serve(t)
	a := b.refused(405, "method_not_allowed", "BREW /desk/echo/a HTTP/1.1\r\nHost: x\r\n\r\n")
	require.Equal(t, "GET, HEAD, POST", a.header.Get("Allow"))
	b.refused(404, "NOT_FOUND", get("/elsewhere"))
	b.refused(404, "NOT_FOUND", get("/"))
	b.refused(404, "NOT_FOUND", get("/desk/echo/a/"))
	require.Equal(t, http.StatusNotFound, b.do(get("/desk/../desk/echo/a")).status, "paths are taken as they come")
}
