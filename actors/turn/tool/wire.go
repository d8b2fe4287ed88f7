package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Methods whose results are read here.
const (
	methodInitialize = "initialize"
	methodDiscover   = "server/discover"
	methodListTools  = "tools/list"
	methodCallTool   = "tools/call"
)

// reply is the result of one request as it came. The client library would make doubles of its numbers, and refuse all of it for
// one part that it does not know.
type reply struct{ result json.RawMessage }

type replyKey struct{}

// withReply returns a context whose request leaves its result in the reply.
func withReply(ctx context.Context) (context.Context, *reply) {
	made := new(reply)
	return context.WithValue(ctx, replyKey{}, made), made
}

// wire is a transport whose results of tools are taken out before the client library decodes them.
type wire struct {
	mcp.Transport
	http *headerTransport // nil = a process
	conn *wireConn        // once it is connected
}

// Connect implements mcp.Transport.
func (w *wire) Connect(ctx context.Context) (mcp.Connection, error) {
	inner, err := w.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	w.conn = &wireConn{Connection: inner, http: w.http, waiting: make(map[jsonrpc.ID]asked)}
	return w.conn, nil
}

type wireConn struct {
	mcp.Connection
	http *headerTransport

	mu      sync.Mutex
	waiting map[jsonrpc.ID]asked
}

// asked is a request whose result is awaited.
type asked struct {
	method, version string
	reply           *reply
}

// Write implements mcp.Connection.
func (c *wireConn) Write(ctx context.Context, message jsonrpc.Message) error {
	request, is := message.(*jsonrpc.Request)
	if !is || !request.IsCall() {
		return c.Connection.Write(ctx, message)
	}
	one := asked{method: request.Method}
	switch request.Method {
	case methodListTools, methodCallTool:
		one.reply, _ = ctx.Value(replyKey{}).(*reply)
	case methodDiscover:
		var params struct {
			Meta map[string]json.RawMessage `json:"_meta"`
		}
		if json.Unmarshal(request.Params, &params) == nil {
			_ = json.Unmarshal(params.Meta[mcp.MetaKeyProtocolVersion], &one.version) // "" = unknown
		}
	case methodInitialize:
		c.http.speaks("") // the newer protocol was refused
	default:
		return c.Connection.Write(ctx, message)
	}
	c.mu.Lock()
	c.waiting[request.ID] = one
	c.mu.Unlock()
	context.AfterFunc(ctx, func() { c.take(request.ID) }) // it may never be answered
	err := c.Connection.Write(ctx, message)
	if err != nil {
		c.take(request.ID)
	}
	return err
}

// take returns what waits for an answer, and forgets it.
func (c *wireConn) take(id jsonrpc.ID) asked {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.waiting[id]
	delete(c.waiting, id)
	return one
}

// Read implements mcp.Connection.
func (c *wireConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	message, err := c.Connection.Read(ctx)
	answer, is := message.(*jsonrpc.Response)
	if err != nil || !is || answer.Error != nil {
		return message, err
	}
	switch one := c.take(answer.ID); one.method {
	case methodInitialize:
		var result struct {
			ProtocolVersion string `json:"protocolVersion"`
		}
		_ = json.Unmarshal(answer.Result, &result) // the client library says what is wrong with it
		c.http.speaks(result.ProtocolVersion)
	case methodDiscover:
		c.http.speaks(one.version)
	case methodCallTool:
		if one.reply != nil {
			one.reply.result, answer.Result = answer.Result, json.RawMessage(`{"content":[]}`)
		}
	case methodListTools:
		if one.reply != nil {
			one.reply.result, answer.Result = answer.Result, headersOnly(answer.Result)
		}
	}
	return answer, nil
}

// headerAnnotation is of parameters that the client library sends as header fields.
const headerAnnotation = `"x-mcp-header"`

// headersOnly is a page of a list as far as the client library needs it.
func headersOnly(page json.RawMessage) json.RawMessage {
	type slim struct {
		Name        string          `json:"name"`
		InputSchema json.RawMessage `json:"inputSchema"`
	}
	kept := struct {
		Tools []slim `json:"tools"`
	}{Tools: []slim{}}
	if bytes.Contains(page, []byte(headerAnnotation)) {
		var whole struct {
			Tools []json.RawMessage `json:"tools"`
		}
		_ = json.Unmarshal(page, &whole) // readPage says what is wrong with it
		for _, raw := range whole.Tools {
			var one slim
			if strings.Contains(string(raw), headerAnnotation) && json.Unmarshal(raw, &one) == nil {
				kept.Tools = append(kept.Tools, one)
			}
		}
	}
	raw, err := json.Marshal(kept)
	if err != nil {
		return json.RawMessage(`{"tools":[]}`)
	}
	return raw
}
