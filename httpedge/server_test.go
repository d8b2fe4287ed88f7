package httpedge_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"parley/httpedge"
	"parley/httpedge/endpoint"
	"parley/httpedge/endpoint/endpointtest"
	"parley/httpedge/site"
)

func TestEveryAnswerCarriesTheEdgesHeaders(t *testing.T) {
	b := serve(t)
	for _, path := range []string{"/desk/echo/a", "/nothing", "/desk/explode"} {
		a := b.do(get(path))
		require.Equal(t, "n1", a.header.Get("X-Served-By"))
		require.Equal(t, "nosniff", a.header.Get("X-Content-Type-Options"))
		require.NotEmpty(t, a.header.Get("X-Request-Id"))
		require.Empty(t, a.header.Get("Server"))
		require.Empty(t, a.header.Get("Access-Control-Allow-Origin"), "CORS is off by default")
	}
}

func TestRequestID(t *testing.T) {
	b := serve(t)
	a := b.do(get("/desk/echo/a", "X-Request-Id", "job-7/step.2"))
	require.Equal(t, "job-7/step.2", a.header.Get("X-Request-Id"))
	require.Equal(t, "job-7/step.2", a.body["RequestID"])
	seen := map[string]bool{}
	for _, insane := range []string{"", "a b", "x\"y", strings.Repeat("x", 129), "ä"} {
		id := b.do(get("/desk/echo/a", "X-Request-Id", insane)).header.Get("X-Request-Id")
		require.Regexp(t, `^req_[0-9a-f]{10}_[0-9a-z]+$`, id)
		require.False(t, seen[id])
		seen[id] = true
	}
}

func TestFaults(t *testing.T) {
	b := serve(t)
	b.refused(500, "SERVER_ERROR", get("/desk/explode"))
	b.refused(500, "SERVER_ERROR", get("/desk/empty"))
	a := b.refused(500, "SERVER_ERROR", get("/desk/break", "X-Request-Id", "id-1"))
	require.NotContains(t, string(a.raw), "wire cut")
	faults := b.log.with("request failed")
	require.Len(t, faults, 3)
	require.Contains(t, faults[0]["err"], "boom")
	require.Contains(t, faults[0]["err"], "explode", "with the stack")
	require.Equal(t, "wire cut", faults[2]["err"])
	require.Equal(t, "id-1", faults[2]["request_id"])
	require.Equal(t, "ERROR", faults[2]["level"])
}

func TestLogHasOneLinePerRequest(t *testing.T) {
	b := serve(t, func(_ *httpedge.Config, parts *httpedge.Parts) {
		parts.Authenticator = endpointtest.Authenticate(endpointtest.ByToken)
	})
	require.Equal(t, "ann", b.do(get("/desk/echo/a?q=secret", "Authorization", "Bearer ann")).body["Caller"])
	b.refused(401, "AUTH_REQUIRED", get("/desk/echo/a"))
	b.refused(404, "NOT_FOUND", get("/else"))
	found := b.log.with("request")
	require.Len(t, found, 3)
	require.Equal(t, "DEBUG", found[0]["level"], "a node at its default says nothing of requests")
	require.Equal(t, "/echo/{name}", found[0]["route"])
	require.Equal(t, "/desk/echo/a", found[0]["path"], "no query: it may hold what is nobody's business")
	require.Equal(t, "ann", found[0]["caller"])
	require.Equal(t, "AUTH_REQUIRED", found[1]["code"])
	require.Equal(t, "unmatched", found[2]["route"])
}

func TestMetrics(t *testing.T) {
	b := serve(t)
	w := b.dial()
	for range 3 {
		require.Equal(t, 200, w.send(get("/desk/echo/a")).answer().status)
	}
	b.refused(404, "NOT_FOUND", get("/else"))
	b.refused(500, "SERVER_ERROR", get("/desk/break"))
	count := func(route, method, status string) float64 {
		families, err := b.registry.Gather()
		require.NoError(t, err)
		for _, family := range families {
			for _, metric := range family.GetMetric() {
				labels := map[string]string{}
				for _, pair := range metric.GetLabel() {
					labels[pair.GetName()] = pair.GetValue()
				}
				if family.GetName() == "parley_http_requests_total" && labels["route"] == route &&
					labels["method"] == method && labels["status"] == status {
					return metric.GetCounter().GetValue()
				}
			}
		}
		return -1
	}
	require.InDelta(t, 3, count("/echo/{name}", "GET", "2xx"), 0)
	require.InDelta(t, 1, count("unmatched", "any", "4xx"), 0)
	require.InDelta(t, 1, count("/break", "GET", "5xx"), 0)
	require.InDelta(t, 0, count("/break", "GET", "2xx"), 0, "all classes are there from the start")
}

func TestCORS(t *testing.T) {
	b := serve(t, limited(func(c *httpedge.Config) { c.CORS.Origins = []string{"https://app.example.com"} }))
	a := b.do(get("/desk/echo/a", "Origin", "https://app.example.com"))
	require.Equal(t, "https://app.example.com", a.header.Get("Access-Control-Allow-Origin"))
	require.Equal(t, "Origin", a.header.Get("Vary"))
	require.Contains(t, a.header.Get("Access-Control-Expose-Headers"), "X-Request-Id")
	require.Empty(t, b.do(get("/desk/echo/a", "Origin", "https://evil.example.com")).header.Get("Access-Control-Allow-Origin"))
	require.NotEmpty(t, b.do(get("/none", "Origin", "https://app.example.com")).header.Get("Access-Control-Allow-Origin"),
		"a page must be able to read errors")

	preflight := b.do(request("OPTIONS", "/desk/echo/a", "", "Origin", "https://app.example.com", "Access-Control-Request-Method", "POST"))
	require.Equal(t, 204, preflight.status)
	require.Equal(t, "GET, POST, PUT, PATCH, DELETE, OPTIONS", preflight.header.Get("Access-Control-Allow-Methods"))
	require.Contains(t, preflight.header.Get("Access-Control-Allow-Headers"), "Authorization")
	require.Equal(t, "86400", preflight.header.Get("Access-Control-Max-Age"))

	preflight = b.do(request("OPTIONS", "/desk/echo/a", "", "Origin", "https://app.example.com", "Access-Control-Request-Method", "POST",
		"Access-Control-Request-Headers", "authorization, x-stainless-lang,X-Stainless-Retry-Count, x-other, x-stainless-(bad)"))
	require.Equal(t, "Content-Type, Authorization, Last-Event-ID, X-Request-Id, X-Read-Consistency, Idempotency-Key, "+
		"x-stainless-lang, x-stainless-retry-count", preflight.header.Get("Access-Control-Allow-Headers"))

	open := serve(t, limited(func(c *httpedge.Config) { c.CORS.Origins = []string{"*"} }))
	require.Equal(t, "*", open.do(get("/desk/echo/a", "Origin", "https://x.example.com")).header.Get("Access-Control-Allow-Origin"))
}

func TestCallerLimits(t *testing.T) {
	b := serve(t, func(_ *httpedge.Config, parts *httpedge.Parts) { parts.Limiter = &onePlace{requests: 1} })
	require.Equal(t, 200, b.do(get("/desk/echo/a")).status)
	a := b.refused(429, "rate_limited", get("/desk/echo/a"))
	require.Equal(t, "7", a.header.Get("Retry-After"))
}

// ---- streams

func TestStreamTakesTheConnection(t *testing.T) {
	b := serve(t, func(config *httpedge.Config, parts *httpedge.Parts) {
		parts.Limiter = &onePlace{requests: 99}
		config.WriteTimeout = 100 * time.Millisecond
	})
	w := b.dial().send(get("/desk/stream", "X-Request-Id", "s-1"))
	take := <-b.desk.streams
	require.IsType(t, &net.TCPConn{}, take.Conn)
	head := string(take.Head)
	require.Contains(t, head, "X-Request-Id: s-1\r\n")
	require.Contains(t, head, "X-Served-By: n1\r\n")
	require.True(t, strings.HasSuffix(head, "\r\n"))
	b.refused(429, "rate_limited", get("/desk/stream"))

	<-time.After(200 * time.Millisecond) // longer than the write timeout, which is not for streams
	write := func(text string) {
		_, err := io.WriteString(take.Conn, text)
		require.NoError(t, err)
	}
	write("HTTP/1.1 200 OK\r\n" + head + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
	a := w.answer()
	require.Equal(t, "hello", string(a.raw))
	require.Equal(t, "s-1", a.header.Get("X-Request-Id"))

	take.Release()
	take.Release()
	take.Reuse(take.Conn)
	require.Equal(t, "again", w.send(get("/desk/echo/again")).answer().body["Name"], "the connection is HTTP again")
	require.Equal(t, "more", w.send(get("/desk/echo/more")).answer().body["Name"])

	second := b.dial().send(get("/desk/stream"))
	take = <-b.desk.streams
	require.NotNil(t, take.Conn, "the caller's place is free again")
	require.NoError(t, take.Conn.Close())
	take.Release()
	second.ended()
	require.Len(t, b.log.with("request"), 5)
}

// TestStreamsThatEndTheirConnection: what is still to come would be taken for another request.
func TestStreamsThatEndTheirConnection(t *testing.T) {
	b := serve(t)
	for name, request := range map[string]string{
		"asked_to":           get("/desk/stream", "Connection", "close"),
		"first_version":      "GET /desk/stream HTTP/1.0\r\nHost: x\r\n\r\n",
		"first_version_kept": "GET /desk/stream HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\n\r\n",
		"body_is_not_all":    get("/desk/stream", "Content-Length", "99") + "GET ",
	} {
		t.Run(name, func(t *testing.T) {
			b.dial().send(request)
			take := <-b.desk.streams
			defer take.Release()
			require.Nil(t, take.Reuse)
			require.NoError(t, take.Conn.Close())
		})
	}
	t.Run("and_one_that_does_not", func(t *testing.T) {
		b.dial().send(request("GET", "/desk/stream", "{}"))
		take := <-b.desk.streams
		defer take.Release()
		require.NotNil(t, take.Reuse)
		require.NoError(t, take.Conn.Close())
	})
}

// TestConnectionThatIsGivenBackIsIdle: the client may be as slow with its next request as on any connection, and hears nothing that
// it did not ask for.
func TestConnectionThatIsGivenBackIsIdle(t *testing.T) {
	b := serve(t, func(config *httpedge.Config, _ *httpedge.Parts) {
		config.ReadTimeout = 50 * time.Millisecond
		config.IdleTimeout = time.Minute
	})
	w := b.dial().send(get("/desk/stream"))
	take := <-b.desk.streams
	take.Release()
	take.Reuse(take.Conn)
	<-time.After(200 * time.Millisecond) // longer than a request may take to come
	require.Equal(t, "late", w.send(get("/desk/echo/late")).answer().body["Name"])
	require.NoError(t, b.server.Stop(t.Context()))
	w.ended()

	t.Run("not_forever", func(t *testing.T) {
		b := serve(t, func(config *httpedge.Config, _ *httpedge.Parts) { config.IdleTimeout = 50 * time.Millisecond })
		w := b.dial().send(get("/desk/stream"))
		take := <-b.desk.streams
		take.Release()
		take.Reuse(take.Conn)
		w.ended()
	})
	t.Run("nor_beyond_the_server", func(t *testing.T) {
		b := serve(t)
		w := b.dial().send(get("/desk/stream"))
		take := <-b.desk.streams
		take.Release()
		take.Reuse(take.Conn)
		require.NoError(t, b.server.Stop(t.Context()))
		w.ended()
	})
}

func TestTooManyStreams(t *testing.T) {
	b := serve(t, limited(func(c *httpedge.Config) { c.MaxStreams = 1 }))
	b.dial().send(get("/desk/stream"))
	take := <-b.desk.streams
	b.refused(503, "unavailable", get("/desk/stream"))
	require.NoError(t, take.Conn.Close())
	take.Release()
	b.dial().send(get("/desk/stream"))
	take = <-b.desk.streams
	require.NoError(t, take.Conn.Close())
	take.Release()
}

// ---- stop

func TestStopWaitsForRequests(t *testing.T) {
	b := serve(t)
	busy, idle := b.dial(), b.dial()
	require.Equal(t, 200, idle.send(get("/desk/echo/a")).answer().status)
	busy.send(get("/desk/wait"))
	<-b.desk.entered
	stopped := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		stopped <- b.server.Stop(ctx)
	}()
	require.Eventually(t, func() bool {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", b.addr)
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	}, 30*time.Second, 10*time.Millisecond, "no more connections")
	late := idle.send(get("/desk/echo/a")).answer()
	require.Equal(t, 503, late.status)
	require.Equal(t, "unavailable", late.body["code"])
	require.Equal(t, "1", late.header.Get("Retry-After"))
	require.True(t, late.close)
	select {
	case err := <-stopped:
		t.Fatalf("stopped under a running request: %v", err)
	default:
	}
	close(b.desk.release)
	require.Equal(t, 204, busy.answer().status)
	require.NoError(t, <-stopped)
	busy.ended()
	<-b.server.Done()
	require.NoError(t, b.server.Err())
	require.NoError(t, b.server.Stop(t.Context()), "twice is fine")
}

// closing does something when the server closes it.
type closing struct {
	net.Listener
	then func()
}

func (c *closing) Close() error {
	err := c.Listener.Close()
	c.then()
	return err
}

// TestStopRefusesBeforeThePortCloses: who knows from the port that the server stops is not served any more.
func TestStopRefusesBeforeThePortCloses(t *testing.T) {
	port := &closing{}
	b := serve(t, func(_ *httpedge.Config, parts *httpedge.Parts) {
		port.Listener = parts.Listener
		parts.Listener = port
	})
	idle := b.dial()
	require.Equal(t, 200, idle.send(get("/desk/echo/a")).answer().status)
	var once sync.Once
	port.then = func() {
		once.Do(func() { require.Equal(t, 503, idle.send(get("/desk/echo/a")).answer().status) })
	}
	require.NoError(t, b.server.Stop(t.Context()))
}

func TestStopCutsOffWhatTakesTooLong(t *testing.T) {
	b := serve(t)
	w := b.dial().send(get("/desk/wait"))
	<-b.desk.entered
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, b.server.Stop(ctx), context.DeadlineExceeded)
	a := w.answer()
	require.Equal(t, 503, a.status, "the handler's context has ended")
	require.Equal(t, "unavailable", a.body["code"])
}

func TestStopBeforeStart(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	b := serve(t)
	server, err := httpedge.New(httpedge.DefaultConfig(), httpedge.Parts{
		Listener: listener, Authenticator: endpointtest.Authenticate(endpointtest.Off), Logger: discard(),
	})
	require.NoError(t, err)
	require.NoError(t, server.Stop(t.Context()))
	require.NoError(t, server.Stop(t.Context()))
	require.Error(t, server.Start())
	require.Error(t, b.server.Start(), "started twice")
}

func TestHandlerDeadline(t *testing.T) {
	b := serve(t, limited(func(c *httpedge.Config) { c.RequestTimeout = 50 * time.Millisecond }))
	b.refused(503, "unavailable", get("/desk/wait"))
}

// ---- files and routes

func TestFiles(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server, err := httpedge.New(httpedge.DefaultConfig(), httpedge.Parts{
		Listener: listener, Authenticator: endpointtest.Authenticate(endpointtest.ByToken), Logger: discard(),
	})
	require.NoError(t, err)
	desk := surface((&desk{}).routes())
	files, err := httpedge.Files(fstest.MapFS{
		"index.html":    {Data: []byte("<!doctype html>")},
		"app.js":        {Data: []byte("1")},
		"img/logo.svg":  {Data: []byte("<svg/>")},
		"a/index.html":  {Data: []byte("<p>")},
		"data.unknown1": {Data: []byte("?")},
		"long.js":       {Data: []byte(strings.Repeat("long ", 1000))},
		"types.d.mts":   {Data: []byte("type")},
	}, "v7", desk, httpedge.Alias{File: "app.js", Paths: []string{"/shell", "/shell/{a}"}})
	require.NoError(t, err)
	require.NoError(t, server.Mount("", files))
	require.NoError(t, server.Mount("/desk", desk))
	require.NoError(t, server.Start())
	defer func() { require.NoError(t, server.Stop(context.Background())) }()
	b := &bench{t: t, addr: listener.Addr().String()}

	page := b.do(get("/"))
	require.Equal(t, 200, page.status, "pages need no authentication")
	require.Equal(t, "<!doctype html>", string(page.raw))
	require.Equal(t, "text/html; charset=utf-8", page.header.Get("Content-Type"))
	require.Equal(t, httpedge.PagePolicy, page.header.Get("Content-Security-Policy"))
	require.Equal(t, "no-cache", page.header.Get("Cache-Control"))
	etag := page.header.Get("ETag")
	for _, match := range []string{etag, "W/" + etag, `"x", ` + etag, "*"} {
		require.Equal(t, 304, b.do(get("/", "If-None-Match", match)).status)
	}
	require.Equal(t, 200, b.do(get("/", "If-None-Match", `"x"`)).status)
	require.Equal(t, "text/javascript; charset=utf-8", b.do(get("/app.js")).header.Get("Content-Type"))
	require.Equal(t, "image/svg+xml", b.do(get("/img/logo.svg")).header.Get("Content-Type"))
	require.Equal(t, "application/octet-stream", b.do(get("/data.unknown1")).header.Get("Content-Type"))
	require.Equal(t, "<p>", string(b.do(get("/a/")).raw))
	for _, alias := range []string{"/shell", "/shell/of-a-page"} {
		require.Equal(t, "1", string(b.do(get(alias)).raw))
	}
	b.refused(404, "NOT_FOUND", get("/types.d.mts"))
	for accepted, packed := range map[string]bool{"gzip": true, "br, GZIP;q=0.5": true, "": false, "br": false, "gzip;q=0": false, "gzip; q=0.00": false, "gzipped": false} {
		a := b.do(get("/long.js", "Accept-Encoding", accepted))
		require.Equal(t, "Accept-Encoding", a.header.Get("Vary"))
		require.Equal(t, packed, a.header.Get("Content-Encoding") == "gzip", accepted)
		require.Equal(t, packed, len(a.raw) < 200, accepted)
		require.Equal(t, 304, b.do(get("/long.js", "Accept-Encoding", accepted, "If-None-Match", a.header.Get("ETag"))).status)
	}
	require.Empty(t, b.do(get("/app.js", "Accept-Encoding", "gzip")).header.Get("Content-Encoding"), "it would only grow")
	kept := b.do(get("/v/v7/long.js", "Accept-Encoding", "gzip"))
	require.Equal(t, "public, max-age=31536000, immutable", kept.header.Get("Cache-Control"))
	require.Equal(t, "gzip", kept.header.Get("Content-Encoding"))
	require.Equal(t, "no-cache", b.do(get("/v/v6/long.js")).header.Get("Cache-Control"), "of a node of another release")
	b.refused(404, "NOT_FOUND", get("/v/v7/index.html"))
	b.refused(404, "NOT_FOUND", get("/index.html"))
	b.refused(404, "NOT_FOUND", get("/../go.mod"))
	b.refused(401, "AUTH_REQUIRED", get("/desk/echo/a"))

	_, err = httpedge.Files(fstest.MapFS{}, "", desk)
	require.Error(t, err)
	_, err = httpedge.Files(fstest.MapFS{"a b.html": {}}, "", desk)
	require.Error(t, err)
}

func TestMountRefusesMistakes(t *testing.T) {
	b := serve(t)
	require.ErrorContains(t, b.server.Mount("/desk", surface(b.desk.routes())), "taken by")
	require.ErrorContains(t, b.server.Mount("desk", surface(nil)), "must begin with /")
	noAccess := []endpoint.Route{endpoint.On("GET /x", "", b.desk.echo)}
	require.ErrorContains(t, b.server.Mount("/x", surface(noAccess)), "no access")
	noParam := []endpoint.Route{endpoint.On("GET /x", "x:read", b.desk.echo)}
	require.ErrorContains(t, b.server.Mount("/x", surface(noParam)), "no {name}")
}

func TestWriteRoutes(t *testing.T) {
	var out strings.Builder
	mounted := []httpedge.Mounted{{Prefix: "/desk/", Surface: surface((&desk{}).routes())}}
	require.NoError(t, httpedge.WriteRoutes(&out, mounted, httpedge.RouteTable{}))
	first := bufio.NewScanner(strings.NewReader(out.String()))
	require.True(t, first.Scan())
	require.Equal(t, "# desk", first.Text())
	require.True(t, first.Scan())
	require.Equal(t, []string{"POST", "/desk/echo/{name}", "echo", "desk:write", "200", "-"}, strings.Fields(first.Text()))
	out.Reset()
	require.NoError(t, httpedge.WriteRoutes(&out, mounted, httpedge.RouteTable{JSON: true, Source: true}))
	var rows []map[string]any
	require.NoError(t, json.Unmarshal([]byte(out.String()), &rows))
	require.Regexp(t, `httpedge/.*_test\.go:\d+$`, rows[0]["source"])
	delete(rows[0], "source")
	require.Equal(t, map[string]any{
		"surface": "desk", "method": "POST", "path": "/desk/echo/{name}", "handler": "echo", "access": "desk:write", "status": 200.0, "errors": []any{},
	}, rows[0])
}

// TestSite: a server that does not ask who calls takes requests of its own pages and of programs.
func TestSite(t *testing.T) {
	b := serve(t, limited(func(c *httpedge.Config) {
		c.Site = &site.Policy{Names: []string{"x"}, Origins: []string{"https://app.example.com"}}
		c.CORS.Origins = []string{"https://app.example.com"}
	}))
	require.Equal(t, 200, b.do(get("/desk/echo/a")).status)
	require.Equal(t, 200, b.do(get("/desk/echo/a", "Origin", "http://x")).status)
	require.Equal(t, 200, b.do(get("/desk/echo/a", "Origin", "https://app.example.com", "Sec-Fetch-Site", "cross-site")).status)
	b.refused(403, "forbidden", get("/desk/echo/a", "Origin", "https://evil.example.com"))
	b.refused(403, "forbidden", get("/desk/echo/a", "Sec-Fetch-Site", "cross-site"))
	b.refused(403, "forbidden", get("/none", "Sec-Fetch-Site", "same-site"))
	rebound := serve(t, limited(func(c *httpedge.Config) { c.Site = &site.Policy{} }))
	rebound.refused(403, "forbidden", get("/desk/echo/a"))
	require.Equal(t, 200, rebound.do("GET /desk/echo/a HTTP/1.1\r\nHost: localhost:1\r\n\r\n").status)
}
