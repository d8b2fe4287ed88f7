package tool

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// What a server may say by itself.
const (
	methodPing        = "ping"
	methodListChanged = "notifications/tools/list_changed"
	methodListen      = "subscriptions/listen"
	notification      = "notifications/"
)

const (
	maxSaid       = 1 << 20 // bytes of a line of its stream
	maxListenWait = time.Minute
)

// hear is a middleware: it notes that the server's list has changed, and refuses the server's own requests (sampling, elicitation,
// roots), which would keep a call waiting.
func (s *server) hear(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, request mcp.Request) (mcp.Result, error) {
		if !s.heard(method) {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "method not found"}
		}
		return next(ctx, method, request)
	}
}

// heard takes note of a method, and reports whether a server may use it.
func (s *server) heard(method string) bool {
	if method == methodListChanged {
		s.mu.Lock()
		s.mu.changed = true
		s.mu.Unlock()
	}
	return method == methodPing || strings.HasPrefix(method, notification)
}

// listen reads what a server says outside of calls, where it may say that its list has changed. The client library can do that as
// well, but fails all calls of the session when the stream breaks, and does not open it again.
func (s *server) listen(ctx context.Context, open *session, over *wire) {
	agreed := open.InitializeResult()
	if agreed == nil || agreed.Capabilities == nil || agreed.Capabilities.Tools == nil || !agreed.Capabilities.Tools.ListChanged {
		return
	}
	ask := stream{session: open.ID()}
	if agreed.ProtocolVersion > olderProtocol {
		ask.body = subscription(agreed.ProtocolVersion)
	}
	var is bool
	if ask.over, is = over.Transport.(*mcp.StreamableClientTransport); !is {
		if ask.body != nil {
			_ = over.conn.Write(ctx, ask.body) // what cannot be written to ends the session by itself
		}
		return
	}
	for pause := s.pool.config.RetryAfter; s.listenOnce(ctx, &ask, over.conn); pause = min(2*pause, maxListenWait) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		s.heard(methodListChanged) // it may have said so meanwhile
	}
}

// subscription asks a server to say when its list changes: in the versions without a handshake none does so by itself.
func subscription(version string) *jsonrpc.Request {
	id, _ := jsonrpc.MakeID("parley-listen")  // a text always is one; those of the client library are numbers
	params, _ := json.Marshal(map[string]any{ // texts always encode
		"_meta": map[string]any{
			mcp.MetaKeyProtocolVersion: version, mcp.MetaKeyClientInfo: client(), mcp.MetaKeyClientCapabilities: struct{}{},
		},
		"notifications": map[string]bool{"toolsListChanged": true},
	})
	return &jsonrpc.Request{ID: id, Method: methodListen, Params: params}
}

// stream is how the stream of what a server says is asked for.
type stream struct {
	over    *mcp.StreamableClientTransport
	session string
	body    *jsonrpc.Request // nil = the version with a stream for everything
}

func (s *stream) request(ctx context.Context) (*http.Request, error) {
	method, body, accepted := http.MethodGet, []byte(nil), eventStream
	if s.body != nil {
		var err error
		if body, err = jsonrpc.EncodeMessage(s.body); err != nil {
			return nil, err
		}
		method, accepted = http.MethodPost, "application/json, "+eventStream
	}
	request, err := http.NewRequestWithContext(ctx, method, s.over.Endpoint, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", accepted)
	if s.session != "" {
		request.Header.Set(headerSession, s.session)
	}
	if s.body != nil {
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Mcp-Method", s.body.Method)
	}
	return request, nil
}

// listenOnce reads one stream to its end. False = there is none.
func (s *server) listenOnce(ctx context.Context, ask *stream, conn *wireConn) bool {
	request, err := ask.request(ctx)
	if err != nil {
		return false
	}
	response, err := ask.over.HTTPClient.Do(request)
	if err != nil {
		return ctx.Err() == nil
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	if kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")); response.StatusCode != http.StatusOK || kind != eventStream {
		return false
	}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, maxSaid)
	var data strings.Builder
	for lines.Scan() {
		if said, is := strings.CutPrefix(lines.Text(), "data:"); is && data.Len()+len(said) <= maxSaid {
			data.WriteString(said)
		}
		if lines.Text() == "" {
			s.said(ctx, data.String(), conn)
			data.Reset()
		}
	}
	return true
}

// said takes a message of the stream.
func (s *server) said(ctx context.Context, data string, conn *wireConn) {
	message, err := jsonrpc.DecodeMessage([]byte(data))
	request, is := message.(*jsonrpc.Request)
	if err != nil || !is {
		return
	}
	answer := &jsonrpc.Response{ID: request.ID, Result: json.RawMessage(`{}`)}
	if !s.heard(request.Method) {
		answer.Result, answer.Error = nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "method not found"}
	}
	if request.IsCall() {
		_ = conn.Write(ctx, answer) // a server that does not take it gets none
	}
}
