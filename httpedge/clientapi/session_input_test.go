package clientapi

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http/httpguts"
	"pgregory.net/rapid"

	"parley/httpedge/endpoint"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
)

func TestRuntimeContextDropsWhatMakesNoSense(t *testing.T) {
	many := make(map[string]string)
	for i := range 40 {
		many["X-"+strings.Repeat("a", i+1)] = "v"
	}
	manyJSON, err := json.Marshal(many)
	require.NoError(t, err)
	for name, c := range map[string]struct{ in, want string }{
		"text":       {`"x"`, ``},
		"list":       {`[1]`, ``},
		"null":       {`null`, ``},
		"headers":    {`{"headers":{"x-key":"v","X-Num":1,"X-Null":null,"":"v"}}`, `{"headers":{"X-Key":"v"}}`},
		"smuggled":   {`{"headers":{"X-A":"a\r\nX-B: b","X C":"v","X:D":"v"}}`, ``},
		"withheld":   {`{"headers":{"Host":"x","COOKIE":"x","X-Forwarded-For":"x","Content-Length":"1","Te":"x","X-Ok":"y"}}`, `{"headers":{"X-Ok":"y"}}`},
		"long":       {`{"headers":{"X-A":"` + strings.Repeat("v", 4097) + `","` + strings.Repeat("n", 129) + `":"v"}}`, ``},
		"same":       {`{"headers":{"x-a":"1","X-A":"2"}}`, `{"headers":{"X-A":"2"}}`},
		"connection": {`{"connections":{"tool:a":{"headers":{"k":"v"},"more":1},"b":{},"":{"headers":{"k":"v"}},"c":7}}`, `{"connections":{"tool:a":{"headers":{"K":"v"}}}}`},
		"key":        {`{"connections":{"` + strings.Repeat("k", 201) + `":{"headers":{"k":"v"}}}}`, ``},
		"metadata":   {`{"metadata":{ "a" : 1 },"userId":"me","source":"api"}`, `{"metadata":{"a":1}}`},
		"big":        {`{"metadata":{"a":"` + strings.Repeat("x", 8192) + `"}}`, ``},
		"no object":  {`{"metadata":[1],"headers":[],"connections":"x"}`, ``},
	} {
		var given runtimeContext
		require.NoError(t, json.Unmarshal([]byte(c.in), &given), name)
		require.Equal(t, c.want, string(given.encode()), name)
	}
	var given runtimeContext
	require.NoError(t, given.UnmarshalJSON([]byte(`{"headers":`+string(manyJSON)+`}`)))
	require.Len(t, given.headers, contextHeaders)
}

func TestRuntimeContextOfHeaders(t *testing.T) {
	var given runtimeContext
	require.NoError(t, given.UnmarshalJSON([]byte(`{"headers":{"x-a":"body"}}`)))
	given.besides(map[string]string{"X-A": "form", "X-B": "form", "Cookie": "form"})
	require.JSONEq(t, `{"headers":{"X-A":"body","X-B":"form"}}`, string(given.encode()))
	none := runtimeContext{}
	none.besides(map[string]string{"Host": "form"})
	require.False(t, none.Set)
}

// TestRuntimeContextIsBounded: whatever is sent, what is kept can be read again and is within its limits.
func TestRuntimeContextIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		headers := rapid.MapOfN(rapid.String(), rapid.OneOf(rapid.String(), rapid.StringN(4000, 5000, -1)), 0, 40)
		sent := map[string]any{
			"headers":     headers.Draw(t, "headers"),
			"connections": map[string]any{rapid.String().Draw(t, "key"): map[string]any{"headers": headers.Draw(t, "of one")}},
			"metadata":    rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "metadata"),
		}
		raw, err := json.Marshal(sent)
		require.NoError(t, err)
		var kept, again runtimeContext
		require.NoError(t, json.Unmarshal(raw, &kept))
		require.LessOrEqual(t, len(kept.headers), contextHeaders)
		for name, value := range kept.headers {
			require.True(t, httpguts.ValidHeaderFieldName(name) && !agentpb.WithheldHeader(name))
			require.NotContains(t, value, "\n")
		}
		encoded := kept.encode()
		if len(encoded) == 0 {
			return
		}
		require.NoError(t, json.Unmarshal(encoded, &again))
		require.Equal(t, string(encoded), string(again.encode()), "kept once, kept for good")
	})
}

func TestCursor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		caller := endpoint.Caller{TenantID: "t", ProjectID: "p"}
		cursor := &conversationpb.SessionCursor{
			CreatedAt: rapid.Int64().Draw(t, "time"), Id: rapid.StringMatching(`conv_[0-9a-zA-Z_-]{21}`).Draw(t, "id"),
		}
		text := cursorText(caller, cursor)
		got, failure := parseCursor(caller, text)
		require.Nil(t, failure)
		require.Equal(t, cursor, got)
		_, failure = parseCursor(endpoint.Caller{TenantID: "t", ProjectID: "q"}, text)
		require.NotNil(t, failure, "of another project")
		at := rapid.IntRange(0, len(text)-1).Draw(t, "at")
		bent := text[:at] + string(rapid.SampledFrom([]byte("ABCxyz019-_~ ")).Draw(t, "with")) + text[at+1:]
		if got, failure = parseCursor(caller, bent); failure == nil {
			require.Equal(t, cursor, got, "only bits that base64 does not use may differ")
		}
	})
	got, failure := parseCursor(endpoint.Caller{}, "")
	require.Nil(t, got)
	require.Nil(t, failure)
	_, failure = parseCursor(endpoint.Caller{}, strings.Repeat("A", 300))
	require.NotNil(t, failure)
}

func FuzzResponsesBody(f *testing.F) {
	f.Add([]byte(`{"model":"a","input":[{"role":"user","content":[{"type":"input_text","text":"x"},{"type":"input_file","file_id":"f"}]}]}`))
	f.Add([]byte(`{"model":"a","input":[{"role":"user","content":"x"},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"y"}]},{"id":"fc_c.1.0"}],"tools":[{"type":"function","name":"f"}],"text":{"format":{"type":"json_object"}}}`))
	f.Add([]byte(`{"model":null,"input":{"role":"user"},"version":1e9,"conversation":{"id":null},"budget":{"max_cost_usd":1e308}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var whole createResponseIn
		if json.Unmarshal(raw, &whole) == nil && whole.Validate() == nil {
			if said, failure := readItems(whole.Input.items); failure == nil && said.newest != nil {
				require.LessOrEqual(t, len(said.messages()), len(whole.Input.items))
			}
		}
		var in createAgentResponseIn
		if json.Unmarshal(raw, &in) != nil {
			return
		}
		if in.Validate() == nil && in.Input.check() == nil {
			require.NotEmpty(t, strings.TrimSpace(in.Input.Text))
			require.NotEmpty(t, in.Model.Text)
		}
		if id, _, failure := in.named(); failure == nil && id != "" {
			require.False(t, in.SessionID.Text != "" && in.SessionID.Text != id)
		}
		if in.Budget.Set && !in.Budget.Null && in.Budget.failure == nil {
			require.Positive(t, in.Budget.budget.GetMaxCostNanoUsd())
		}
	})
}
