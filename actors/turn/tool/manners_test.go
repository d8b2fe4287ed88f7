package tool_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/actors/turn/tool"
	"parley/proto/agentpb"
)

// rude is an MCP server, written by hand, that speaks as a row of the table says. Without one it is polite.
type rude struct {
	t *testing.T
	manners

	mu       sync.Mutex
	sessions int // begun
	calls    int // that ran
	called   string
	answers  chan message
	streams  chan chan string // of standalone streams: what is to be said
}

// manners are what a row changes. Empty fields are polite.
type manners struct {
	list   func(cursor string) string                           // the result of tools/list
	result string                                               // of tools/call
	ask    string                                               // a request that the server makes within the call, and whose answer is its result
	refuse func(w http.ResponseWriter, session string) bool     // a request with a session; true = it was refused
	header func(header http.Header, session string, number int) // of an answer
}

type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

const oneTool = `{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}`

func speak(t *testing.T, with manners) (*rude, string) {
	t.Helper()
	r := &rude{t: t, manners: with, answers: make(chan message, 1), streams: make(chan chan string, 1)}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	return r, server.URL
}

// ServeHTTP implements http.Handler.
func (r *rude) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	session := request.Header.Get("Mcp-Session-Id")
	if session != "" && r.refuse != nil && r.refuse(w, session) {
		return
	}
	switch request.Method {
	case http.MethodGet:
		r.stand(w, request)
		return
	case http.MethodDelete:
		return
	}
	body, _ := io.ReadAll(request.Body) // a test's own
	var asked message
	_ = json.Unmarshal(body, &asked)
	switch asked.Method {
	case "":
		select {
		case r.answers <- asked:
		default:
		}
		w.WriteHeader(http.StatusAccepted)
	case "initialize":
		r.mu.Lock()
		r.sessions++
		w.Header().Set("Mcp-Session-Id", fmt.Sprint("s", r.sessions))
		r.mu.Unlock()
		r.say(w, asked.ID, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"rude","version":"1"}}`)
	case "tools/list":
		if request.Header.Get("Mcp-Protocol-Version") != "2025-11-25" {
			r.t.Errorf("version %q", request.Header.Get("Mcp-Protocol-Version"))
		}
		result := oneTool
		if r.list != nil {
			var params struct{ Cursor string }
			_ = json.Unmarshal(asked.Params, &params)
			result = r.list(params.Cursor)
		}
		r.say(w, asked.ID, result)
	case "tools/call":
		r.mu.Lock()
		var params struct{ Name string }
		_ = json.Unmarshal(asked.Params, &params)
		r.calls++
		r.called = params.Name
		number := r.calls
		r.mu.Unlock()
		if r.header != nil {
			r.header(w.Header(), session, number)
		}
		r.answer(w, asked.ID)
	default:
		if strings.HasPrefix(asked.Method, "notifications/") {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"unknown"}}`, asked.ID)
	}
}

func (r *rude) say(w http.ResponseWriter, id json.RawMessage, result string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
}

// answer is of a call: its result, or what the client said to the server's own request.
func (r *rude) answer(w http.ResponseWriter, id json.RawMessage) {
	if r.ask == "" {
		result := r.result
		if result == "" {
			result = `{"content":[{"type":"text","text":"done"}]}`
		}
		r.say(w, id, result)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":\"q1\",\"method\":%q,\"params\":{}}\n\n", r.ask)
	_ = http.NewResponseController(w).Flush()
	said := <-r.answers
	text, _ := json.Marshal(string(said.Result) + string(said.Error))
	fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[{\"type\":\"text\",\"text\":%s}]}}\n\n", id, text)
}

// stand is the stream on which the server speaks first.
func (r *rude) stand(w http.ResponseWriter, request *http.Request) {
	lines := make(chan string)
	w.Header().Set("Content-Type", "text/event-stream")
	_ = http.NewResponseController(w).Flush()
	select {
	case r.streams <- lines:
	default: // nobody asks
	}
	for {
		select {
		case line := <-lines:
			fmt.Fprintf(w, "data: %s\n\n", line)
			_ = http.NewResponseController(w).Flush()
		case <-request.Context().Done():
			return
		}
	}
}

var pixel, _ = base64.StdEncoding.DecodeString("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")

func TestMCPManners(t *testing.T) {
	t.Parallel()
	picture := base64.StdEncoding.EncodeToString(pixel)
	content := func(parts string) manners { return manners{result: `{"content":` + parts + `}`} }
	for name, row := range map[string]struct {
		manners
		want   string // its text, or after "error: " that of its error
		images int
	}{
		"polite": {want: "done"},

		"values are as they came": {manners: manners{result: `{"content":[{"type":"text","text":"see there"}],` +
			`"structuredContent":{"id":12345678901234567890,"price":0.10,"far":1e400}}`}, want: "see there\n" + `{"id":12345678901234567890,"price":0.10,"far":1e400}`},
		"structured content is not told twice": {manners: manners{result: `{"content":[{"type":"text","text":"{ \"a\": 1, \"b\": [2] }"}],` +
			`"structuredContent":{"b":[2],"a":1}}`}, want: `{ "a": 1, "b": [2] }`},
		"structured content beside a number": {
			manners: manners{result: `{"content":[{"type":"text","text":"3"}],"structuredContent":{"it":3}}`},
			want:    "3\n" + `{"it":3}`,
		},
		"structured content alone": {manners: manners{result: `{"structuredContent":[1,2]}`}, want: "[1,2]"},
		"first version":            {manners: manners{result: `{"toolResult":{"n":9007199254740993}}`}, want: `{"n":9007199254740993}`},

		"image":          {manners: content(`[{"type":"image","data":"` + picture + `","mimeType":"image/png"}]`), want: "(an image, image/png, 70 bytes)", images: 1},
		"image by bytes": {manners: content(`[{"type":"image","data":"data:image/jpg;base64,` + strings.TrimRight(picture, "=") + `","mimeType":"image/jpg"}]`), want: "(an image, image/png, 70 bytes)", images: 1},
		"image in a resource": {
			manners: content(`[{"type":"resource","resource":{"uri":"f:///p","mimeType":"image/png","blob":"` + picture + `"}}]`),
			want:    "(a resource, f:///p, image/png, 70 bytes)", images: 1,
		},
		"no image":           {manners: content(`[{"type":"image","data":"aGVsbG8=","mimeType":"image/png"}]`), want: "(an image, image/png, 5 bytes)"},
		"image of nonsense":  {manners: content(`[{"type":"text","text":"a"},{"type":"image","data":"%%%","mimeType":"image/png"}]`), want: "a\n(an image, image/png, whose data cannot be read)"},
		"sound":              {manners: content(`[{"type":"audio","data":"aGVsbG8=","mimeType":"audio/wav"}]`), want: "(a sound, audio/wav, 5 bytes)"},
		"resource":           {manners: content(`[{"type":"resource","resource":{"uri":"f:///a","text":"inside"}}]`), want: "inside"},
		"empty resource":     {manners: content(`[{"type":"text","text":"a"},{"type":"resource","resource":{"uri":"f:///a","text":""}}]`), want: "a\n"},
		"text in a blob":     {manners: content(`[{"type":"resource","resource":{"uri":"f:///a","mimeType":"text/plain","blob":"aGVsbG8="}}]`), want: "hello"},
		"blob":               {manners: content(`[{"type":"resource","resource":{"uri":"f:///a","mimeType":"application/zip","blob":"aGVsbG8="}}]`), want: "(a resource, f:///a, application/zip, 5 bytes)"},
		"link":               {manners: content(`[{"type":"resource_link","name":"b","uri":"f:///b","mimeType":"text/plain","description":"The second."}]`), want: "(a resource, b: f:///b, text/plain: The second.)"},
		"unknown kind":       {manners: content(`[{"type":"video","seconds":9007199254740993}, {"type":"text","text":"a"}]`), want: `{"type":"video","seconds":9007199254740993}` + "\na"},
		"one part":           {manners: content(`{"type":"text","text":"a"}`), want: "a"},
		"content is text":    {manners: content(`"a"`), want: "a"},
		"content is null":    {manners: content(`null`), want: "(no content)"},
		"part of wrong type": {manners: content(`[{"type":"text","text":{"a":1}}]`), want: `{"type":"text","text":{"a":1}}`},
		"error":              {manners: manners{result: `{"content":[{"type":"text","text":"no"}],"isError":true}`}, want: "error: no"},
		"error as text":      {manners: manners{result: `{"content":[{"type":"text","text":"no"}],"isError":"true"}`}, want: "error: no"},
		"no result":          {manners: manners{result: `"a"`}, want: "error: the tool's answer is not a result of the protocol"},
		"wants input":        {manners: manners{result: `{"resultType":"input_required","inputRequests":{}}`}, want: "error: the tool wants to ask for something that this client cannot give"},

		"ping":        {manners: manners{ask: "ping"}, want: "{}"},
		"sampling":    {manners: manners{ask: "sampling/createMessage"}, want: `{"code":-32601,"message":"method not found: \"sampling/createMessage\""}`},
		"elicitation": {manners: manners{ask: "elicitation/create"}, want: `{"code":-32601,"message":"method not found: \"elicitation/create\""}`},
		"roots":       {manners: manners{ask: "roots/list"}, want: `{"code":-32601,"message":"method not found: \"roots/list\""}`},

		"another session in an answer": {manners: manners{header: func(header http.Header, _ string, number int) {
			header.Set("Mcp-Session-Id", fmt.Sprint("x", number))
		}}, want: "done"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, url := speak(t, row.manners)
			set := open(t, local(t), mcpAgent(&agentpb.MCP{Name: "r", Url: url, ConnectTimeoutMs: 60_000}))
			for number := range 2 { // the session is whole after it
				result, err := find(t, set, "r_echo").Run(t.Context(), tool.Call{Args: []byte(`{}`)})
				if message, failed := strings.CutPrefix(row.want, "error: "); failed {
					require.EqualError(t, err, message)
				} else {
					require.NoError(t, err)
					require.Equal(t, row.want, result.Text)
				}
				require.Len(t, result.Images, row.images)
				for _, image := range result.Images {
					require.Equal(t, "image/png", image.MIME)
					require.Equal(t, pixel, image.Data)
				}
				require.Equal(t, number+1, server.calls)
			}
			require.Equal(t, 1, server.sessions)
		})
	}
}

// TestMCPForgottenSession: however a server says that it does not know the session, the call is made again in a new one, once.
func TestMCPForgottenSession(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		status   int
		body     string
		sessions int
		want     string // of the error
	}{
		"by the protocol":   {404, "", 2, ""},
		"in JSON-RPC":       {404, `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}`, 2, ""},
		"in HTML":           {404, "<h1>Not Found</h1>", 2, ""},
		"as a bad request":  {400, `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":4}`, 2, ""},
		"in words":          {400, "Invalid session", 2, ""},
		"as a fresh server": {400, `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: Server not initialized"},"id":null}`, 2, ""},
		"another bad request": {
			400, `{"jsonrpc":"2.0","error":{"code":-32602,"message":"Bad Request: no"},"id":1}`, 1,
			"the tool answered with an error: Bad Request: no",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			forgotten := false
			refuse := func(w http.ResponseWriter, session string) bool {
				if session == "s1" && forgotten {
					w.WriteHeader(row.status)
					_, _ = io.WriteString(w, row.body)
				}
				return session == "s1" && forgotten
			}
			server, url := speak(t, manners{})
			set := open(t, local(t), mcpAgent(&agentpb.MCP{Name: "r", Url: url, ConnectTimeoutMs: 60_000}))
			server.refuse, forgotten = refuse, true
			said, err := run(t, set, "r_echo", `{}`)
			if row.want != "" {
				require.EqualError(t, err, row.want)
			} else {
				require.NoError(t, err)
				require.Equal(t, "done", said)
				require.Equal(t, 1, server.calls)
			}
			require.Equal(t, row.sessions, server.sessions)
		})
	}
}

// TestMCPForgetfulServer: one that forgets every session at once is not asked for ever.
func TestMCPForgetfulServer(t *testing.T) {
	t.Parallel()
	server, url := speak(t, manners{})
	set := open(t, local(t), mcpAgent(&agentpb.MCP{Name: "r", Url: url, ConnectTimeoutMs: 60_000}))
	server.refuse = func(w http.ResponseWriter, _ string) bool {
		w.WriteHeader(http.StatusNotFound)
		return true
	}
	_, err := run(t, set, "r_echo", `{}`)
	require.Error(t, err)
	require.LessOrEqual(t, server.sessions, 4)
}

// TestMCPLists: what is wrong with a list, or one tool of it, costs no other tool, and who edits the agent is told.
func TestMCPLists(t *testing.T) {
	t.Parallel()
	named := func(name string) string { return fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"}}`, name) }
	long := strings.Repeat("x", 80)
	for name, row := range map[string]struct {
		list    func(cursor string) string
		tools   []string
		dropped []tool.Dropped
	}{
		"cursor that stands": {
			func(string) string { return `{"tools":[` + named("a") + `],"nextCursor":"c"}` },
			[]string{"r_a"},
			[]tool.Dropped{{Server: "r", Name: "a", Reason: "the server lists it twice"}},
		},
		"cursors in a circle": {func(cursor string) string {
			next := map[string]string{"": "x", "x": "y", "y": "x"}[cursor]
			return fmt.Sprintf(`{"tools":[%s],"nextCursor":%q}`, named("t"+cursor), next)
		}, []string{"r_t", "r_tx", "r_ty"}, nil},
		"cursor is null":    {func(string) string { return `{"tools":[` + named("a") + `],"nextCursor":null}` }, []string{"r_a"}, nil},
		"cursor is a blank": {func(string) string { return `{"tools":[` + named("a") + `],"nextCursor":""}` }, []string{"r_a"}, nil},
		"bad tools": {func(string) string {
			return `{"tools":[{"name":"number","inputSchema":{"type":"number"}},{"name":"list","inputSchema":[]},{"inputSchema":{}},{"name":7},` +
				`{"name":"task","execution":{"taskSupport":"required"}},{"name":"bare"},{"name":"none","inputSchema":null},` + named("good") + `]}`
		}, []string{"r_bare", "r_good", "r_none"}, []tool.Dropped{
			{Server: "r", Name: "number", Reason: "the schema is not of an object"},
			{Server: "r", Name: "list", Reason: "the schema is not a JSON object"},
			{Server: "r", Name: "", Reason: "it has no name"},
			{Server: "r", Name: "", Reason: "it has no name"},
			{Server: "r", Name: "task", Reason: "it runs as a task only, which is not supported"},
		}},
		"names that meet": {func(string) string {
			return `{"tools":[` + strings.Join([]string{named("a.b"), named("a_b"), named("a/b"), named("c d"), named(long + "1"), named(long + "2")}, ",") + `]}`
		}, []string{
			"r_a_b", "r_a_b_4771eb39", "r_a_b_fc96681b", "r_c_d",
			"r_" + long[:53] + "_c8220b2f", "r_" + long[:53] + "_dffef4bb",
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, url := speak(t, manners{list: row.list})
			box, err := tool.New(local(t))
			require.NoError(t, err)
			t.Cleanup(box.Close)
			set, dropped, err := box.Inspect(t.Context(), mcpAgent(&agentpb.MCP{Name: "r", Url: url, ConnectTimeoutMs: 60_000}))
			require.NoError(t, err)
			require.Equal(t, row.tools, names(set))
			require.Equal(t, row.dropped, dropped)
			called := make(map[string]bool)
			for _, name := range names(set) { // each is the one that it is called for
				_, err := run(t, set, name, `{}`)
				require.NoError(t, err)
				require.True(t, strings.HasPrefix(name, "r_"+strings.NewReplacer(".", "_", "/", "_", " ", "_").Replace(server.called)[:1]))
				called[server.called] = true
			}
			require.Len(t, called, len(names(set)))
		})
	}
}

// TestMCPListChanged: a turn that begins after the server said that its list has changed has the new one.
func TestMCPListChanged(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	listed := "before"
	server, url := speak(t, manners{list: func(string) string {
		mu.Lock()
		defer mu.Unlock()
		return fmt.Sprintf(`{"tools":[{"name":%q,"inputSchema":{"type":"object"}}]}`, listed)
	}})
	box, err := tool.New(local(t))
	require.NoError(t, err)
	t.Cleanup(box.Close)
	agent := mcpAgent(&agentpb.MCP{Name: "r", Url: url, ConnectTimeoutMs: 60_000})
	set, err := box.Open(t.Context(), agent)
	require.NoError(t, err)
	require.Equal(t, []string{"r_before"}, names(set))
	stream := <-server.streams
	mu.Lock()
	listed = "after"
	mu.Unlock()
	stream <- `{"jsonrpc":"2.0","id":"p1","method":"ping"}`
	require.JSONEq(t, `{}`, string((<-server.answers).Result))
	stream <- `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
	require.Eventually(t, func() bool {
		set, err = box.Open(t.Context(), agent)
		return err == nil && names(set)[0] == "r_after"
	}, 30*time.Second, time.Millisecond)
}
