package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// smallConfig is a node on which every limit that a client can meet is small, and what can be moved is elsewhere.
const smallConfig = `
node: {name: spec-5}
log: {level: warn}
builtin_assistant: false
http:
  base_path: /v9/talk/
  docs: false
  page: false
  max_body: 4KiB
  max_header: 4KiB
  max_path: 512B
  max_json_depth: 4
  cors: {origins: ["https://one.example", "https://two.example:8443"], headers: [Content-Type, X-Custom], max_age: 1h}
conversation:
  max_message: 100B
  max_metadata: 64B
  list_page_size: 2
  max_list_page_size: 3
  message_page_size: 2
  max_page_size: 3
  event_page_size: 2
  max_event_page_size: 3
  max_bulk_delete: 2
  anonymous_list: true
sse: {ping: 100ms}
hitl: {client_tool_max_output: 4KiB}
auth: {resolve_user_id: []}
agents:
  - id: quick
    model: {provider: scripted, script: {text: "one two three"}}
`

func small(t *testing.T) *process {
	t.Helper()
	p := shared.of(t, smallConfig)
	p.base = "/v9/talk"
	return p
}

func TestSpecSettings(t *testing.T) {
	t.Parallel()
	p := small(t)
	t.Run("base_path_without_its_slash", func(t *testing.T) {
		p.ask(t, "GET", "/agents", nil).fits(200, anyObject)
		p.ask(t, "GET", "http://"+p.listen+"/v9/talk//agents", nil).refused(404, "NOT_FOUND")
		signedIn := p.ask(t, "GET", "http://"+p.listen+"/api/agents/agents", nil) // below /api is what people with a browser session use, in its own words
		require.Equal(t, 404, signedIn.status)
		require.Contains(t, signedIn.text, `"code":"not_found"`)
	})
	t.Run("only_the_configured_agents", func(t *testing.T) {
		agents := p.ask(t, "GET", "/agents", nil).fits(200, anyObject).at("agents").list()
		require.Equal(t, []string{"quick"}, texts(agents, "id"))
	})
	t.Run("docs_and_page_are_off", func(t *testing.T) {
		for _, path := range []string{"/docs", "/docs/openapi.json", "/docs/swagger-ui.css"} {
			p.ask(t, "GET", path, nil).refused(404, "NOT_FOUND")
		}
		p.ask(t, "GET", "http://"+p.listen+"/", nil).refused(404, "NOT_FOUND")
		require.Equal(t, 404, p.ask(t, "GET", "http://"+p.listen+"/api/client/v1/docs", nil).status)
		require.Equal(t, 200, p.ask(t, "GET", "http://"+p.listen+"/api/client/v1/openapi.json", nil).status)
	})
	id := p.newConversation(t, "quick", "")
	for range 2 {
		p.say(t, id, "hello")
	}
	t.Run("configured_pages", func(t *testing.T) {
		for query, want := range map[string]int{"": 2, "?limit=100": 3, "?limit=1": 1} {
			read := p.ask(t, "GET", "/conversations/"+id+query, nil).fits(200, conversationRead(messagesPage{want, "asc", true, false}))
			require.Len(t, read.at("messages").list(), want)
			p.ask(t, "GET", "/conversations/"+id+"/messages"+query, nil).fits(200, messagePage(fields{"limit": exactly(want), "total": exactly(4), "hasMore": exactly(true)}))
			page := p.ask(t, "GET", "/conversations/"+id+"/events"+query, nil).fits(200, eventsRecord(fields{"hasMore": exactly(true), "lastSeq": exactly(8)}))
			require.Len(t, page.at("events").list(), want)
		}
	})
	t.Run("configured_sizes", func(t *testing.T) {
		p.say(t, id, strings.Repeat("x", 100))
		p.ask(t, "POST", "/conversations/"+id+"/messages", map[string]string{"message": strings.Repeat("x", 101)}).refused(400, "VALIDATION_ERROR")
		p.ask(t, "PATCH", "/conversations/"+id, map[string]any{"metadata": map[string]string{"x": strings.Repeat("x", 56)}}).fits(200, anyObject) // 64 bytes
		p.ask(t, "PATCH", "/conversations/"+id, map[string]any{"metadata": map[string]string{"x": strings.Repeat("x", 57)}}).refused(400, "VALIDATION_ERROR")
		p.ask(t, "POST", "/conversations", `{"agentId":"quick","title":"`+strings.Repeat("x", 4096)+`"}`).refused(413, "too_large")
		p.ask(t, "GET", "/agents/"+strings.Repeat("x", 512), nil).refused(414, "path_too_long")
		p.ask(t, "GET", "/agents?x="+strings.Repeat("x", 512), nil).fits(200, anyObject)
		p.ask(t, "GET", "/agents", nil, "X-Big", strings.Repeat("x", 5000)).refused(431, "header_too_large")
		p.ask(t, "POST", "/conversations", `{"agentId":"quick","metadata":{"a":{"b":{}}}}`).fits(201, anyObject)
		p.ask(t, "POST", "/conversations", `{"agentId":"quick","metadata":{"a":{"b":{"c":{}}}}}`).refused(400, "VALIDATION_ERROR")
	})
	t.Run("configured_bulk_delete", func(t *testing.T) {
		p.ask(t, "POST", "/conversations/bulk-delete", `{"ids":["a","b","a"]}`).fits(200, anyObject)
		p.ask(t, "POST", "/conversations/bulk-delete", `{"ids":["a","b","c"]}`).refused(400, "VALIDATION_ERROR")
	})
	t.Run("user_id_of_requests_is_not_believed", func(t *testing.T) {
		made := p.ask(t, "POST", "/conversations?userId=ada", `{"agentId":"quick","userId":"ada"}`).fits(201, anyObject)
		require.Nil(t, made.at("conversation", "userId").v)
	})
	t.Run("anonymous_list_shows_those_of_nobody", func(t *testing.T) {
		for _, query := range []string{"", "?userId=ada"} {
			page := p.ask(t, "GET", "/conversations"+query, nil).fits(200, conversationPage(fields{
				"conversations": listOf(conversationRecord(fields{"userId": nil})), "limit": exactly(2),
			}))
			require.Len(t, page.at("conversations").list(), 2)
		}
		p.ask(t, "GET", "/conversations?limit=4", nil).fits(200, conversationPage(fields{"limit": exactly(3)}))
	})
	t.Run("ping_after_silence", func(t *testing.T) {
		s := p.follow(t, "GET", "/conversations/"+id+"/events/stream?after=1000", nil)
		s.pings = true
		require.Equal(t, []string{": open", ": ping", ": ping"}, s.peek(t, 3))
	})
}

func TestSpecCORS(t *testing.T) {
	t.Parallel()
	p := small(t)
	id := p.newConversation(t, "quick", "")
	paths := []string{"/agents", "/nothing", "/conversations/x", "/conversations"}
	preflight := func(t *testing.T, p *process, path, origin string) http.Header {
		t.Helper()
		a := p.ask(t, "OPTIONS", path, nil, "Origin", origin, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "content-type")
		a.empty(204)
		return a.header
	}
	t.Run("configured_origin_is_allowed", func(t *testing.T) {
		for _, origin := range []string{"https://one.example", "https://two.example:8443"} {
			for _, path := range paths {
				header := p.ask(t, "GET", path, nil, "Origin", origin).header
				require.Equal(t, origin, header.Get("Access-Control-Allow-Origin"), path)
				require.Contains(t, header.Get("Access-Control-Expose-Headers"), "X-Request-Id")
				require.Equal(t, "Origin", header.Get("Vary"))
				require.Empty(t, header.Get("Access-Control-Allow-Credentials"))
			}
			s := p.follow(t, "GET", "/conversations/"+id+"/events/stream", nil, "Origin", origin)
			require.Equal(t, origin, s.header.Get("Access-Control-Allow-Origin"), "streams, too")
			s = p.follow(t, "POST", "/conversations/"+id+"/messages", `{"message":"x","stream":true}`, "Origin", origin, "Content-Type", "application/json")
			require.Equal(t, origin, s.header.Get("Access-Control-Allow-Origin"))
			s.drain()
		}
	})
	t.Run("preflight", func(t *testing.T) {
		for _, path := range append(paths, "/conversations/"+id+"/events/stream") {
			header := preflight(t, p, path, "https://one.example")
			require.Equal(t, "https://one.example", header.Get("Access-Control-Allow-Origin"))
			require.Equal(t, "GET, POST, PUT, PATCH, DELETE, OPTIONS", header.Get("Access-Control-Allow-Methods"))
			require.Equal(t, "Content-Type, X-Custom, Authorization", header.Get("Access-Control-Allow-Headers"))
			require.Equal(t, "3600", header.Get("Access-Control-Max-Age"))
		}
	})
	t.Run("other_origins_are_not", func(t *testing.T) {
		for _, origin := range []string{"https://evil.example", "http://one.example", "https://one.example:443", "https://sub.one.example", "null", "https://ONE.example"} {
			for _, header := range []http.Header{p.ask(t, "GET", "/agents", nil, "Origin", origin).header, preflight(t, p, "/agents", origin)} {
				require.Empty(t, header.Get("Access-Control-Allow-Origin"), origin)
				require.Empty(t, header.Get("Access-Control-Allow-Methods"), origin)
			}
		}
		require.Empty(t, p.ask(t, "GET", "/agents", nil).header.Get("Access-Control-Allow-Origin"), "no origin, no answer about it")
	})
	t.Run("any_origin", func(t *testing.T) {
		p := shared.of(t, tokenConfig)
		header := preflight(t, p, "/conversations", "https://anywhere.example")
		require.Equal(t, "*", header.Get("Access-Control-Allow-Origin"), "without a token: browsers send none")
		require.Equal(t, "Content-Type, Authorization, Last-Event-ID, X-Request-Id, X-Read-Consistency, Idempotency-Key", header.Get("Access-Control-Allow-Headers"))
		require.Equal(t, "86400", header.Get("Access-Control-Max-Age"))
		a := p.ask(t, "GET", "/conversations", nil, "Origin", "https://anywhere.example")
		a.refused(401, "AUTH_REQUIRED")
		require.Equal(t, "*", a.header.Get("Access-Control-Allow-Origin"), "so that the page can read the refusal")
	})
}

// limitConfig is a node with limits per caller.
const limitConfig = `
node: {name: spec-6}
log: {level: warn}
limits: {requests_per_second: 0.01, burst: 4, streams_per_caller: 2}
auth:
  enabled: true
  provider: static
  tokens: [{token: ada-token, user_id: ada}, {token: bob-token, user_id: bob}, {token: zoe-token, user_id: zoe}]
agents:
  - id: quick
    model: {provider: scripted, script: {text: "one two three"}}
`

func TestSpecLimitsPerCaller(t *testing.T) {
	t.Parallel()
	p := shared.of(t, limitConfig)
	t.Run("requests_over_the_rate_are_429", func(t *testing.T) {
		for range 4 {
			p.ask(t, "GET", "/agents", nil, bearer("ada-token")...).fits(200, anyObject)
		}
		a := p.ask(t, "GET", "/agents", nil, bearer("ada-token")...)
		require.Positive(t, a.refused(429, "rate_limited").number("retryAfter"))
		p.ask(t, "GET", "/agents", nil, bearer("bob-token")...).fits(200, anyObject)
	})
	t.Run("streams_over_the_limit_are_429", func(t *testing.T) {
		zoe := bearer("zoe-token")
		id := p.newConversation(t, "quick", "", zoe...)
		for range 2 {
			p.follow(t, "GET", "/conversations/"+id+"/events/stream", nil, zoe...)
		}
		p.ask(t, "GET", "/conversations/"+id+"/events/stream", nil, zoe...).refused(429, "rate_limited")
	})
}

// TestClientsBehindAProxy: each is an address of its own, for whoever is a trusted proxy only.
func TestClientsBehindAProxy(t *testing.T) {
	t.Parallel()
	p := shared.of(t, testAgents+"limits: {streams_per_caller: 1}\nhttp: {trusted_proxies: [127.0.0.0/8], forwarded_header: Forwarded}\n")
	id := p.newConversation(t, "quick", "ada")
	path := "/conversations/" + id + "/events/stream?userId=ada"
	p.follow(t, "GET", path, nil, "Forwarded", "for=198.51.100.1")
	p.ask(t, "GET", path, nil, "Forwarded", "for=198.51.100.1").refused(429, "rate_limited")
	p.ask(t, "GET", path, nil, "Forwarded", "for=203.0.113.1, for=198.51.100.1").refused(429, "rate_limited")
	p.follow(t, "GET", path, nil, "Forwarded", `for="[2001:db8::1]:4711"`)
	p.follow(t, "GET", path, nil, "X-Forwarded-For", "198.51.100.1") // not the header: the proxy itself
}

// TestClientsBehindABalancer: one that passes connections on says in a PROXY header whose they are.
func TestClientsBehindABalancer(t *testing.T) {
	t.Parallel()
	p := shared.of(t, testAgents+"limits: {streams_per_caller: 1}\nhttp: {trusted_proxies: [127.0.0.2], proxy_protocol: true}\n")
	id, next := p.newConversation(t, "quick", "ada"), p.newConversation(t, "quick", "ada")
	stream := func(id string) string { return "/conversations/" + id + "/events/stream?userId=ada" }
	const ada, bob = "PROXY TCP4 198.51.100.1 192.0.2.1 4711 80\r\n", "PROXY TCP6 2001:db8::1 2001:db8::2 4711 80\r\n"
	first := behind(t, p, ada)
	opened := first.get(t, stream(id)) //nolint:bodyclose // when the test ends
	require.Equal(t, 200, opened.StatusCode)
	require.Equal(t, 429, behind(t, p, ada).status(t, stream(id)))
	require.Equal(t, 200, behind(t, p, bob).status(t, stream(id)))
	require.Equal(t, 400, behind(t, p, "").status(t, stream(id)), "the balancer must say it")
	require.Contains(t, p.log.String(), "PROXY protocol header")

	p.ask(t, "DELETE", "/conversations/"+id, nil).empty(204)
	require.Contains(t, readAll(t, opened), ": open")
	require.Equal(t, 200, first.status(t, stream(next)))
	require.EqualValues(t, 1, first.dialled.Load(), "the stream has given its connection back")
	require.Equal(t, 429, behind(t, p, ada).status(t, stream(next)), "it is Ada's as before")

	p.follow(t, "GET", stream(next), nil)
	p.ask(t, "GET", stream(next), nil).refused(429, "rate_limited")
	p.ask(t, "GET", "/conversations/"+next, nil, "Forwarded", "for=198.51.100.1").fits(200, anyObject)
}

// balanced is a client whose connections begin with a header, from an address of their own.
type balanced struct {
	http.Client
	p       *process
	dialled atomic.Int64
}

func behind(t *testing.T, p *process, header string) *balanced {
	t.Helper()
	b := &balanced{p: p}
	balancer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	b.Transport = &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		b.dialled.Add(1)
		conn, err := balancer.DialContext(ctx, network, address)
		if err == nil {
			_, err = io.WriteString(conn, header)
		}
		return conn, err
	}}
	t.Cleanup(b.CloseIdleConnections)
	return b
}

// get leaves the body of the answer open until the test ends.
func (b *balanced) get(t *testing.T, path string) *http.Response {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, b.p.url(path), nil)
	require.NoError(t, err)
	response, err := b.Do(request)
	require.NoError(t, err)
	t.Cleanup(func() { cancel(); _ = response.Body.Close() })
	return response
}

func (b *balanced) status(t *testing.T, path string) int {
	t.Helper()
	return b.get(t, path).StatusCode //nolint:bodyclose // when the test ends
}
