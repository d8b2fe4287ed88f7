package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/httpedge/gateway"
)

// TestRefusals: what the edge itself refuses, word by word.
func TestRefusals(t *testing.T) {
	k := serve(t, says(200, answer))
	for _, c := range []struct {
		path, body string
		status     int
		message    string
		param      string
	}{
		{"/chat/completions", ``, 400, "Invalid JSON body", "null"},
		{"/chat/completions", `{`, 400, "Invalid JSON body", "null"},
		{"/chat/completions", `[]`, 400, "Invalid JSON body", "null"},
		{"/chat/completions", `null`, 400, "Invalid JSON body", "null"},
		{"/chat/completions", `{}`, 400, "`model` is required", `"model"`},
		{"/chat/completions", `{"model":"m","messages":[],"request_id":"a\u0000"}`, 400, "`request_id` must not hold control characters", `"request_id"`},
		{"/chat/completions", `{"model":5}`, 400, "`model` is required", `"model"`},
		{"/chat/completions", `{"model":"relayed"}`, 400, "`messages` must be an array of at least one message", `"messages"`},
		{"/chat/completions", `{"model":"relayed","messages":{}}`, 400, "`messages` must be an array of at least one message", `"messages"`},
		{"/chat/completions", `{"model":"relayed","messages":[]}`, 400, "`messages` must be an array of at least one message", `"messages"`},
		{"/chat/completions", "{\"model\":\"relayed\",\"messages\":[ \n]}", 400, "`messages` must be an array of at least one message", `"messages"`},
		{"/chat/completions", `{"model":"none","messages":[{}]}`, 404, "Model `none` not found", `"model"`},
		{"/embeddings", ``, 400, "Invalid JSON body", "null"},
		{"/embeddings", `{"model":"embed"}`, 400, "`input` must be a string or array of strings", `"input"`},
		{"/embeddings", `{"model":"embed","input":[]}`, 400, "`input` must be a string or array of strings", `"input"`},
		{"/embeddings", `{"model":"embed","input":[1,2]}`, 400, "`input` must be a string or array of strings", `"input"`},
		{"/embeddings", `{"model":"embed","input":"x","encoding_format":"int8"}`, 400, "`encoding_format` must be float or base64", `"encoding_format"`},
		{"/moderations", `{}`, 400, "`input` is required", `"input"`},
		{"/moderations", `{"input":"x","model":7}`, 400, "`model` must be a guardrail key string", `"model"`},
		{"/moderations", `{"input":[{"type":"image_url"}]}`, 400, "`input` must be a string, an array of strings or an array of text parts", `"input"`},
		{"/moderations", `{"input":"x","model":"none"}`, 404, "No moderation guardrail with this key: leave `model` out, or name `default`, a guardrail with moderation or a model of category moderation", `"model"`},
	} {
		t.Run(c.path+" "+c.body, func(t *testing.T) {
			status, _, body := k.post(c.path, c.body)
			require.Equal(t, c.status, status, body)
			kind, code := "invalid_request_error", "invalid_request"
			if status == 404 {
				kind, code = "not_found_error", "model_not_found"
			}
			require.JSONEq(t, fmt.Sprintf(`{"error":{"message":%q,"type":%q,"code":%q,"param":%s}}`, c.message, kind, code, c.param), body)
		})
	}
	require.Empty(t, k.asked, "nothing reached the provider")
}

// TestEmbeddingForms: a client gets the form that it asked for, whatever the provider answers with.
func TestEmbeddingForms(t *testing.T) {
	for _, form := range []string{`[0.5,-1]`, `"AAAAPwAAgL8="`} {
		k := serve(t, says(200, `{"data":[{"index":0,"embedding":`+form+`}],"usage":{"prompt_tokens":3,"total_tokens":3}}`))
		for asked, want := range map[string]string{"": `[0.5,-1]`, `,"encoding_format":"float"`: `[0.5,-1]`, `,"encoding_format":"base64"`: `"AAAAPwAAgL8="`} {
			status, _, body := k.post("/embeddings", `{"model":"embed","input":["hi"],"request_id":"r"`+asked+`}`)
			require.Equal(t, 200, status)
			require.JSONEq(t, `{"object":"list","model":"embed","data":[{"object":"embedding","index":0,"embedding":`+want+`}],`+
				`"usage":{"prompt_tokens":3,"total_tokens":3},"request_id":"r"}`, body)
		}
	}
}

func TestModerations(t *testing.T) {
	k := serve(t, says(200, `{"id":"modr-1","model":"up","results":[{"flagged":false,"categories":{},"category_scores":{},"findings":[]}]}`))
	status, _, body := k.post("/moderations", `{"input":[{"type":"text","text":"I will"},{"type":"text","text":"kill you"}]}`)
	require.Equal(t, 200, status)
	require.Regexp(t, `^\{"id":"modr_[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}","model":"default","results":\[\{"flagged":true`, body)
	require.Contains(t, body, `"harassment/threatening":0.9`)
	status, _, body = k.post("/moderations", `{"input":"x","model":"moderate"}`)
	require.Equal(t, 200, status)
	require.JSONEq(t, `{"id":"modr-1","model":"moderate","results":[{"flagged":false,"categories":{},"category_scores":{},"findings":[]}]}`, body)
	require.JSONEq(t, `{"model":"up","input":"x"}`, string(<-k.asked))
	require.Equal(t, "moderations", k.usages()[0].Service)
}

// TestRequestID: the body's, or a UUID.
func TestRequestID(t *testing.T) {
	k := serve(t, says(200, answer))
	_, header, body := k.post("/chat/completions", strings.Replace(hello, `{`, `{"request_id":"mine",`, 1))
	require.Contains(t, body, `"request_id":"mine"`)
	require.NotEmpty(t, header.Get("X-Request-Id"))
	_, _, body = k.post("/chat/completions", hello)
	require.Regexp(t, `"request_id":"[0-9a-f-]{36}"`, body)
}

// raw opens a connection and sends a streamed request on it.
func (k *kit) raw(body string) (net.Conn, *bufio.Reader) {
	k.t.Helper()
	address := strings.TrimPrefix(k.url, "http://")
	host, path, _ := strings.Cut(address, "/")
	conn, err := new(net.Dialer).DialContext(context.Background(), "tcp", host)
	require.NoError(k.t, err)
	k.t.Cleanup(func() { _ = conn.Close() })
	require.NoError(k.t, conn.SetDeadline(time.Now().Add(30*time.Second)))
	k.ask(conn, path, body)
	return conn, bufio.NewReader(conn)
}

func (k *kit) ask(conn net.Conn, path, body string) {
	k.t.Helper()
	_, err := fmt.Fprintf(conn, "POST /%s/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer me\r\nX-Request-Id: abc\r\nContent-Length: %d\r\n\r\n%s",
		path, len(body), body)
	require.NoError(k.t, err)
}

const streamedHello = `{"model":"relayed","stream":true,"request_id":"mine","messages":[{"role":"user","content":"hi"}]}`

// TestWire: head and frames as they go over the wire, and the connection goes on.
func TestWire(t *testing.T) {
	k := serve(t, streams(`{"id":"c","created":5,"choices":[{"index":0,"delta":{"content":"Hi"}}]}`, `{"error":{"message":"oops","type":"rate_limit_error"}}`))
	conn, reader := k.raw(streamedHello)
	for range 2 {
		response, err := http.ReadResponse(reader, nil)
		require.NoError(t, err)
		require.Equal(t, 200, response.StatusCode)
		require.Equal(t, "text/event-stream", response.Header.Get("Content-Type"))
		require.Equal(t, "no-cache, no-transform", response.Header.Get("Cache-Control"))
		require.Equal(t, "no", response.Header.Get("X-Accel-Buffering"))
		require.Equal(t, "abc", response.Header.Get("X-Request-Id"))
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		ids := regexp.MustCompile(`chatcmpl-[0-9a-f]{32}`).FindAllString(string(body), -1)
		require.Len(t, ids, 2)
		require.Equal(t, ids[0], ids[1])
		require.Equal(t, `data: {"id":"ID","object":"chat.completion.chunk","created":5,"model":"relayed","system_fingerprint":null,"choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}

data: {"id":"ID","object":"chat.completion.chunk","created":5,"model":"relayed","system_fingerprint":null,"choices":[{"index":0,"delta":{"content":"Hi"},"logprobs":null,"finish_reason":null}]}

data: {"error":{"message":"oops","type":"rate_limit_error","code":"rate_limit_exceeded","param":null},"request_id":"mine"}

data: [DONE]

`, strings.ReplaceAll(string(body), ids[0], "ID"))
		k.ask(conn, "api/client/v1", streamedHello) // on the same connection
	}
	response, err := http.ReadResponse(reader, nil)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
}

// TestPipelined: a client that does not wait for the end of a stream gets that stream whole, and then its next answers.
func TestPipelined(t *testing.T) {
	for _, together := range []bool{true, false} {
		begun, goOn := make(chan struct{}, 9), make(chan struct{}, 9)
		k := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, `data: {"choices":[{"index":0,"delta":{"content":"Hi"}}]}`+"\n\n")
			_ = http.NewResponseController(w).Flush()
			begun <- struct{}{}
			<-goOn
			_, _ = io.WriteString(w, "data: [DONE]\n\n")
		}, func(c *gateway.Config) { c.PingEvery = 20 * time.Millisecond })
		const path = "api/client/v1"
		conn, reader := k.raw(streamedHello)
		if !together {
			<-begun
		}
		for range 2 {
			k.ask(conn, path, streamedHello)
		}
		for range 3 {
			if together {
				<-begun
			}
			together = true
			goOn <- struct{}{}
			response, err := http.ReadResponse(reader, nil)
			require.NoError(t, err)
			require.Equal(t, 200, response.StatusCode)
			body, err := io.ReadAll(response.Body)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			require.Equal(t, 1, bytes.Count(body, []byte("data: [DONE]\n\n")))
		}
	}
}

// TestFirstVersion: a client of HTTP/1.0 gets the stream as plain text, which ends with the connection.
func TestFirstVersion(t *testing.T) {
	k := serve(t, streams(`{"choices":[{"index":0,"delta":{"content":"Hi"}}]}`, `[DONE]`))
	host, path, _ := strings.Cut(strings.TrimPrefix(k.url, "http://"), "/")
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", host)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	require.NoError(t, conn.SetDeadline(time.Now().Add(30*time.Second)))
	_, err = fmt.Fprintf(conn, "POST /%s/chat/completions HTTP/1.0\r\nConnection: keep-alive\r\nAuthorization: Bearer me\r\nContent-Length: %d\r\n\r\n%s",
		path, len(streamedHello), streamedHello)
	require.NoError(t, err)
	raw, err := io.ReadAll(conn)
	require.NoError(t, err)
	head, body, found := bytes.Cut(raw, []byte("\r\n\r\n"))
	require.True(t, found)
	require.NotContains(t, string(head), "Transfer-Encoding")
	require.Contains(t, string(head), "Connection: close")
	require.NotContains(t, string(body), "\r\n")
	require.True(t, bytes.HasPrefix(body, []byte("data: ")))
	require.True(t, bytes.HasSuffix(body, []byte("data: [DONE]\n\n")))
}

// TestStopLetsStreamsEnd: a stream under way goes on to its end while there is time, and none begins any more.
func TestStopLetsStreamsEnd(t *testing.T) {
	goOn := make(chan struct{})
	var asked atomic.Int32
	k := serve(t, func(w http.ResponseWriter, r *http.Request) {
		flusher, _ := w.(http.Flusher)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, `data: {"choices":[{"index":0,"delta":{"content":"Hi"}}]}`+"\n\n") // of a dead client: seen below
		flusher.Flush()
		if asked.Add(1) == 1 { // a stream that begins before the stop does ends by itself
			select {
			case <-goOn:
			case <-r.Context().Done():
			}
		}
		_, _ = io.WriteString(w, `data: {"choices":[{"index":0,"delta":{"content":" there"},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
	})
	_, reader := k.raw(streamedHello)
	response, err := http.ReadResponse(reader, nil)
	require.NoError(t, err)
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() && !strings.Contains(lines.Text(), "Hi") {
		continue
	}
	stopped := make(chan error, 1)
	go func() { stopped <- k.api.Stop(t.Context()) }()
	require.Eventually(t, func() bool {
		status, _, _ := k.post("/chat/completions", streamedHello)
		return status == 503
	}, 30*time.Second, 5*time.Millisecond, "no new stream begins")
	require.Empty(t, stopped)
	close(goOn)
	rest := ""
	for lines.Scan() {
		rest += lines.Text()
	}
	require.NoError(t, response.Body.Close())
	require.Contains(t, rest, " there")
	require.True(t, strings.HasSuffix(rest, "data: [DONE]"))
	require.NoError(t, <-stopped)
}

// TestStopEndsStreams: when there is no more time, a stream under way ends with an error and the end mark.
func TestStopEndsStreams(t *testing.T) {
	k := serve(t, func(w http.ResponseWriter, r *http.Request) {
		streams(`{"choices":[{"index":0,"delta":{"content":"Hi"}}]}`)(w, r)
		<-r.Context().Done()
	})
	_, reader := k.raw(streamedHello)
	response, err := http.ReadResponse(reader, nil)
	require.NoError(t, err)
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() && !strings.Contains(lines.Text(), "Hi") {
		continue
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- k.api.Stop(over) }()
	rest := ""
	for lines.Scan() {
		rest += lines.Text()
	}
	require.NoError(t, response.Body.Close())
	require.NoError(t, <-stopped)
	require.Contains(t, rest, "shutting down")
	require.True(t, strings.HasSuffix(rest, "data: [DONE]"))
	status, _, body := k.post("/chat/completions", streamedHello)
	require.Equal(t, 503, status, body)
}

// TestStalledClient: a client that takes nothing is let go, and the provider's call with it.
func TestStalledClient(t *testing.T) {
	ended := make(chan struct{})
	piece := `{"choices":[{"index":0,"delta":{"content":"` + strings.Repeat("x", 64<<10) + `"}}]}`
	k := serve(t, func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		w.Header().Set("Content-Type", "text/event-stream")
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, "data: "+piece+"\n\n"); err != nil {
				return
			}
			_ = http.NewResponseController(w).Flush()
		}
	}, func(c *gateway.Config) { c.WriteTimeout = 200 * time.Millisecond })
	k.raw(streamedHello) // and never read
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		t.Fatal("the call went on")
	}
}

// TestGoneBeforeFirstChunk: the handler's time is up before the provider says anything.
func TestGoneBeforeFirstChunk(t *testing.T) {
	ended := make(chan struct{})
	k := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		close(ended)
	}, func(c *gateway.Config) { c.CallTimeout = 100 * time.Millisecond })
	status, _, body := k.post("/chat/completions", streamedHello)
	require.Equal(t, 503, status, body)
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		t.Fatal("the call went on")
	}
}

// TestLargeBody: pictures pass through, up to the limit.
func TestLargeBody(t *testing.T) {
	k := serve(t, says(200, answer))
	picture := strings.Repeat("A", 3<<20)
	status, _, body := k.post("/chat/completions", `{"model":"relayed","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,`+picture+`"}}]}]}`)
	require.Equal(t, 200, status, body)
	require.Greater(t, len(<-k.asked), 3<<20)
	status, _, body = k.post("/chat/completions", `{"model":"relayed","messages":["`+strings.Repeat("A", 11<<20)+`"]}`)
	require.Equal(t, 413, status, body)
}

// TestConfig: settings that cannot be are refused.
func TestConfig(t *testing.T) {
	require.NoError(t, gateway.DefaultConfig().Validate())
	for _, change := range []func(*gateway.Config){
		func(c *gateway.Config) { c.BasePath = "x" },
		func(c *gateway.Config) { c.CallTimeout = 0 },
		func(c *gateway.Config) { c.StreamTimeout = time.Second },
		func(c *gateway.Config) { c.PingEvery = 0 },
		func(c *gateway.Config) { c.WriteTimeout = -1 },
		func(c *gateway.Config) { c.MaxBody = 0 },
	} {
		config := gateway.DefaultConfig()
		change(&config)
		require.Error(t, config.Validate())
	}
}
