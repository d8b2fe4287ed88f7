package tool

import (
	"bufio"
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
// well, but fails all calls of the session when the stream breaks.
func (s *server) listen(ctx context.Context, open *session, over *wire) {
	streams, is := over.Transport.(*mcp.StreamableClientTransport)
	agreed := open.InitializeResult()
	if !is || agreed == nil || agreed.ProtocolVersion > olderProtocol || agreed.Capabilities == nil ||
		agreed.Capabilities.Tools == nil || !agreed.Capabilities.Tools.ListChanged {
		return
	}
	for pause := s.pool.config.RetryAfter; s.listenOnce(ctx, streams, open.ID(), over.conn); pause = min(2*pause, maxListenWait) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// listenOnce reads one stream to its end. False = there is none.
func (s *server) listenOnce(ctx context.Context, over *mcp.StreamableClientTransport, session string, conn *wireConn) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, over.Endpoint, nil)
	if err != nil {
		return false
	}
	request.Header.Set("Accept", eventStream)
	if session != "" {
		request.Header.Set(headerSession, session)
	}
	response, err := over.HTTPClient.Do(request)
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
