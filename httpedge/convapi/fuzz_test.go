package convapi_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"parley/httpedge/convapi"
	"parley/httpedge/endpoint"
	"parley/httpedge/endpoint/endpointtest"
	"parley/proto/conversationpb"
)

// FuzzRequest throws anything at every route. Whatever comes in is the client's doing: it is answered with JSON, and
// never with a 500. The runtime answers as one that finds nothing.
func FuzzRequest(f *testing.F) {
	for _, seed := range [][3]string{
		{"GET", "/api/agents/conversations?userId=a&limit=5&offset=1&order=asc&orderBy=updatedAt&pinned=none", ""},
		{"POST", "/api/agents/conversations", `{"agentId":"assistant","title":"x","metadata":{"a":1},"budget":{"maxCostUsd":1}}`},
		{"GET", "/api/agents/conversations/" + conv1 + "?before=msg_1&limit=3", ""},
		{"PATCH", "/api/agents/conversations/" + conv1, `{"title":null,"pinned":true,"metadata":{},"budget":null}`},
		{"DELETE", "/api/agents/conversations/" + conv1, ""},
		{"POST", "/api/agents/conversations/bulk-delete", `{"ids":["a","b"]}`},
		{"POST", "/api/agents/conversations/" + conv1 + "/messages", `{"message":"x","files":[{"name":"a"}],"stream":false}`},
		{"GET", "/api/agents/conversations/" + conv1 + "/events?after=1&types=a,b&limit=2", ""},
		{"POST", "/api/agents/conversations/" + conv1 + "/messages/" + msg2 + "/regenerate", `{"metadata":{"a":1}}`},
		{"POST", "/api/agents/conversations/" + conv1 + "/messages/" + msg1 + "/edit", `{"message":"x","fileIds":[],"files":null}`},
		{"POST", "/api/agents/conversations/" + conv1 + "/messages/" + msg2 + "/feedback", `{"rating":"down","reasons":["a"],"comment":"b"}`},
		{"POST", "/api/agents/conversations/" + conv1 + "/actions/act_1", `{"resolution":{"type":"tool_approval","decision":"allow","approvedArgs":{"a":[1]}}}`},
		{"POST", "/api/agents/conversations/" + conv1 + "/actions/act_1", `{"resolution":{"type":"user_question","answers":{"q":"a"}}}`},
		{"POST", "/api/agents/conversations/" + conv1 + "/actions/act_1", `{"resolution":{"type":"client_tool","output":{"x":null}}}`},
		{"DELETE", "/api/agents/conversations/" + conv1 + "/remembered-tools/a%2fb/c", ""},
		{"POST", "/api/agents/conversations/" + conv1 + "/continue", `{"stream":false}`},
		{"POST", "/api/agents/conversations/%ff%00%2e/cancel", "{}"},
		{"GET", "/api/agents/docs/..%2f..%2fx", ""},
		{"GET", "http://[::1/%zz?%=%&=&&", "\xff"},
	} {
		f.Add(seed[0], seed[1], []byte(seed[2]))
	}
	store := &endpointtest.Store{}
	entities := endpointtest.Entities{}
	store.Serve(entities)
	store.Put(endpointtest.Talk(conv1, "", 5))
	runtime := &endpointtest.Runtime{OnAsk: func(context.Context, *conversationpb.Command) (*conversationpb.Reply, error) {
		return nil, fail(1, "nothing here")
	}}
	config := endpoint.MuxConfig{
		MaxPathBytes: 2048, MaxJSONDepth: 64, MaxStreams: 10, RequestTimeout: time.Minute,
		Authenticator: endpointtest.Authenticate(endpointtest.Off),
	}
	mux := endpoint.NewMux(config)
	api := convapi.New(convapi.DefaultConfig(), convapi.Parts{
		Runtime: runtime, Entities: entities, Agents: agents(), IDs: &endpointtest.IDs{},
		Files: &endpointtest.Files{},
	})
	require.NoError(f, mux.Mount(api.BasePath(), api.Surface()))
	f.Fuzz(func(t *testing.T, method, uri string, body []byte) {
		var request fasthttp.Request
		request.Header.SetMethod(method)
		request.SetRequestURI(uri)
		request.SetBody(body)
		if request.URI() == nil || streams(&request) {
			return
		}
		rc := &fasthttp.RequestCtx{}
		rc.Init(&request, nil, nil)
		mux.Serve(rc)
		status, answer := rc.Response.StatusCode(), rc.Response.Body()
		require.NotEqual(t, 500, status, "%s", answer)
		if status >= 400 {
			require.True(t, json.Valid(answer), "%d %q", status, answer)
		}
	})
}

// streams says that a request would open a stream, for which there is no connection here.
func streams(request *fasthttp.Request) bool {
	var body struct {
		Stream bool `json:"stream"`
	}
	path := string(request.URI().PathOriginal())
	return json.Unmarshal(request.Body(), &body) == nil && body.Stream || len(path) > 7 && path[len(path)-7:] == "/stream"
}
