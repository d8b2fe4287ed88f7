package handler

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http/httpguts"
	"pgregory.net/rapid"

	"parley/proto/agentpb"
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
		var given RuntimeContext
		require.NoError(t, json.Unmarshal([]byte(c.in), &given), name)
		require.Equal(t, c.want, string(given.encode()), name)
	}
	var given RuntimeContext
	require.NoError(t, given.UnmarshalJSON([]byte(`{"headers":`+string(manyJSON)+`}`)))
	require.Len(t, given.headers, contextHeaders)
}

func TestRuntimeContextOfHeaders(t *testing.T) {
	var given RuntimeContext
	require.NoError(t, given.UnmarshalJSON([]byte(`{"headers":{"x-a":"body"}}`)))
	given.besides(map[string]string{"X-A": "form", "X-B": "form", "Cookie": "form"})
	require.JSONEq(t, `{"headers":{"X-A":"body","X-B":"form"}}`, string(given.encode()))
	none := RuntimeContext{}
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
		var kept, again RuntimeContext
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
