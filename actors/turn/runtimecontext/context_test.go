package runtimecontext

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"parley/proto/agentpb"
)

func open(tb testing.TB, conversation, turn string) *Context {
	tb.Helper()
	made, err := New([]byte(conversation), []byte(turn), Stamp{UserID: "u", TokenID: "t", Source: SourceAPI})
	require.NoError(tb, err)
	return made
}

func flat(header http.Header) string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(header)) {
		lines = append(lines, name+"="+strings.Join(header[name], "|"))
	}
	return strings.Join(lines, " ")
}

// Document 3, 7.14 and 19.2: which header fields reach a target.
func TestHeaders(t *testing.T) {
	t.Parallel()
	all := &agentpb.RuntimeHeaders{Allow: true}
	only := func(names ...string) *agentpb.RuntimeHeaders {
		return &agentpb.RuntimeHeaders{Allow: true, AllowedNames: names}
	}
	for _, row := range []struct {
		name               string
		conversation, turn string
		to                 Target
		policy             *agentpb.RuntimeHeaders
		want               string
	}{
		{"no policy passes nothing", `{"headers":{"X-A":"1"}}`, ``, Tool("t"), nil, ""},
		{"a policy that does not allow passes nothing", `{"headers":{"X-A":"1"}}`, ``, Tool("t"), &agentpb.RuntimeHeaders{AllowedNames: []string{"X-A"}}, ""},
		{"one that allows passes all", `{"headers":{"X-A":"1","x-b":"2"}}`, ``, Tool("t"), all, "X-A=1 X-B=2"},
		{"allowed names filter", `{"headers":{"X-A":"1","X-B":"2"}}`, ``, Tool("t"), only("X-B"), "X-B=2"},
		{"in any case", `{"headers":{"x-tenant-ID":"1","X-B":"2"}}`, ``, Tool("t"), only("X-TENANT-id"), "X-Tenant-Id=1"},
		{"a name that is not there is nothing", `{"headers":{"X-A":"1"}}`, ``, Tool("t"), only("X-Z"), ""},
		{"a target's own beats what is for all", `{"headers":{"X-A":"1","X-B":"2"},"connections":{"tool:t":{"headers":{"x-a":"9"}}}}`, ``, Tool("t"), all, "X-A=9 X-B=2"},
		{"a bare key is any target's of that key", `{"connections":{"t":{"headers":{"X-A":"1"}}}}`, ``, MCP("t"), all, "X-A=1"},
		{"a key with a kind beats a bare one", `{"connections":{"t":{"headers":{"X-A":"1"}},"tool:t":{"headers":{"X-A":"2"}}}}`, ``, Tool("t"), all, "X-A=2"},
		{"another kind's are not for it", `{"connections":{"mcp:t":{"headers":{"X-A":"1"}},"agent:t":{"headers":{"X-A":"2"}}}}`, ``, Tool("t"), all, ""},
		{"another key's are not for it", `{"connections":{"tool:u":{"headers":{"X-A":"1"}}}}`, ``, Tool("t"), all, ""},
		{"allowed names filter a target's own, too", `{"connections":{"agent:t":{"headers":{"X-A":"1","X-B":"2"}}}}`, ``, Agent("t"), only("x-a"), "X-A=1"},
		{"a turn beats its conversation", `{"headers":{"X-A":"1","X-B":"2"}}`, `{"headers":{"x-a":"9"}}`, Tool("t"), all, "X-A=9 X-B=2"},
		{
			"also in what is a target's own", `{"connections":{"tool:t":{"headers":{"X-A":"1","X-B":"2"}}}}`,
			`{"headers":{"X-A":"0"},"connections":{"tool:t":{"headers":{"X-B":"9"}}}}`, Tool("t"), all, "X-A=1 X-B=9",
		},
		{
			"some are never passed on",
			`{"headers":{"Host":"h","content-length":"1","Content-Type":"a/b","Transfer-Encoding":"x","Connection":"close","Upgrade":"x",
			"TE":"x","Trailer":"x","Keep-Alive":"x","Expect":"x","Accept-Encoding":"x","Proxy-Authorization":"x","Cookie":"x",
			"Forwarded":"x","X-Forwarded-For":"x","x-forwarded-anything":"x","X-Real-IP":"x","Via":"x","Authorization":"Bearer b"}}`,
			`{"connections":{"tool:t":{"headers":{"HOST":"h","cookie":"x"}}}}`, Tool("t"), all, "Authorization=Bearer b",
		},
		{"not even by name", `{"headers":{"Cookie":"c","X-Forwarded-For":"1"}}`, ``, Tool("t"), only("Cookie", "X-Forwarded-For"), ""},
		{"what cannot be sent is dropped", `{"headers":{"X-A":"a\r\nX-B: b","X C":"1","":"1","X-D":"a\u0001","X-É":"1","X-E":"é"}}`, ``, Tool("t"), all, "X-E=é"},
		{"an empty value is one", `{"headers":{"X-A":"1"}}`, `{"headers":{"X-A":""}}`, Tool("t"), all, "X-A="},
		{"no context passes nothing", ``, ``, Tool("t"), all, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			got := open(t, row.conversation, row.turn).Headers(row.to, row.policy)
			require.Equal(t, row.want, flat(got))
			require.Equal(t, row.want == "", got == nil)
		})
	}
	var none *Context
	require.Nil(t, none.Headers(Tool("t"), all))
	require.Nil(t, none.Meta(all))
}

func TestMeta(t *testing.T) {
	t.Parallel()
	given := open(t, `{"metadata":{"a":1,"b":{"x":1},"userId":"forged"},"userId":"forged","source":"forged"}`, `{"metadata":{"b":2},"tokenId":"forged"}`)
	require.Nil(t, given.Meta(nil))
	require.Nil(t, given.Meta(&agentpb.RuntimeHeaders{AllowedNames: []string{"x"}}))
	text, err := json.Marshal(given.Meta(&agentpb.RuntimeHeaders{Allow: true}))
	require.NoError(t, err)
	require.JSONEq(t, `{"userId":"u","tokenId":"t","source":"api","metadata":{"a":1,"b":2,"userId":"forged"}}`, string(text))
}

func TestUnreadableContexts(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`{`, `[]`, `"secret-value"`, `{"headers":{"X-A":7}}`, `{"headers":["secret-value"]}`, `{"connections":{"a":"secret-value"}}`} {
		_, err := New(nil, []byte(text), Stamp{})
		require.ErrorIs(t, err, errUnreadable)
		require.NotContains(t, err.Error(), "secret-value")
	}
}

func TestSecrets(t *testing.T) {
	t.Parallel()
	secrets := Secrets(http.Header{"Authorization": {"Bearer abcdefgh-1234"}, "X-Region": {"eu"}, "X-Key": {" key-4711-0815 "}})
	require.Equal(t, []string{"Bearer abcdefgh-1234", "abcdefgh-1234", "key-4711-0815"}, secrets)
	require.Equal(t, "in eu: [redacted], [redacted] and [redacted].",
		Redact("in eu: Bearer abcdefgh-1234, abcdefgh-1234 and key-4711-0815.", secrets))
	require.Equal(t, "as it is", Redact("as it is", nil))
}

// Merging is key by key: every header field comes from the narrowest and latest that names it, and from nowhere else.
func TestMergeProperties(t *testing.T) {
	t.Parallel()
	names := rapid.SampledFrom([]string{"X-A", "x-a", "X-B", "Authorization", "Cookie", "host", "X-Forwarded-Host"})
	headers := rapid.MapOf(names, rapid.StringMatching(`[a-z]{0,3}`))
	type connection struct {
		Headers map[string]string `json:"headers"`
	}
	type said struct {
		Headers     map[string]string     `json:"headers,omitempty"`
		Connections map[string]connection `json:"connections,omitempty"`
		Metadata    map[string]int        `json:"metadata,omitempty"`
	}
	draw := rapid.Custom(func(t *rapid.T) said {
		made := said{Headers: headers.Draw(t, "headers"), Connections: map[string]connection{}}
		for _, key := range []string{"tool:t", "t", "mcp:t", "agent:t", "tool:u"} {
			if rapid.Bool().Draw(t, key) {
				made.Connections[key] = connection{headers.Draw(t, "of "+key)}
			}
		}
		made.Metadata = rapid.MapOf(rapid.SampledFrom([]string{"a", "b", "c"}), rapid.Int()).Draw(t, "metadata")
		return made
	})
	lookup := func(set map[string]string, name string) (string, bool) {
		value, found := "", false
		for _, key := range slices.Sorted(maps.Keys(set)) { // of two spellings the later one counts
			if strings.EqualFold(key, name) {
				value, found = set[key], true
			}
		}
		return value, found
	}
	rapid.Check(t, func(t *rapid.T) {
		conversation, turn := draw.Draw(t, "conversation"), draw.Draw(t, "turn")
		encode := func(s said) []byte {
			text, err := json.Marshal(s)
			require.NoError(t, err)
			return text
		}
		made, err := New(encode(conversation), encode(turn), Stamp{})
		require.NoError(t, err)
		policy := &agentpb.RuntimeHeaders{Allow: true}
		if rapid.Bool().Draw(t, "by name") {
			policy.AllowedNames = []string{"x-A", "COOKIE"}
		}
		got := made.Headers(Tool("t"), policy)
		want := map[string]string{}
		for _, name := range []string{"X-A", "X-B", "Authorization"} {
			if len(policy.GetAllowedNames()) > 0 && name != "X-A" {
				continue
			}
			for _, scope := range []string{"", "t", "tool:t"} {
				for _, one := range []said{conversation, turn} {
					set := one.Headers
					if scope != "" {
						set = one.Connections[scope].Headers
					}
					if value, found := lookup(set, name); found {
						want[name] = value
					}
				}
			}
		}
		seen := map[string]string{}
		for name := range got {
			seen[name] = got.Get(name)
		}
		require.Equal(t, want, seen, fmt.Sprint(conversation, turn))

		metadata := maps.Clone(conversation.Metadata)
		if metadata == nil {
			metadata = map[string]int{}
		}
		maps.Copy(metadata, turn.Metadata)
		require.Len(t, made.Meta(policy).Metadata, len(metadata))
		for key, value := range metadata {
			require.Equal(t, fmt.Sprint(value), string(made.Meta(policy).Metadata[key]))
		}
		again, err := New(nil, encode(turn), Stamp{})
		require.NoError(t, err)
		alone, err := New(encode(turn), nil, Stamp{})
		require.NoError(t, err)
		require.Equal(t, again, alone)
	})
}
