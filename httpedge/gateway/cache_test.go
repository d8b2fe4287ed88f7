package gateway_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func keeping(text string) string { return strings.Replace(ask(text), "relayed", "keeping", 1) }

// TestKeptAnswers: a repeated request is answered without its provider, unless its caller asks for another answer.
func TestKeptAnswers(t *testing.T) {
	k := serve(t, says(200, saying("first")))
	once := func(body, control, said, header string) {
		t.Helper()
		status, headers, answer := k.postWith("/chat/completions", body, control)
		require.Equal(t, 200, status, answer)
		require.Contains(t, answer, said)
		require.Equal(t, header, headers.Get("X-Service-Cache"))
	}
	once(keeping("hi"), "", `"first"`, "")
	k.answer = says(200, saying("second"))
	once(keeping("hi"), "", `"first"`, "hit")
	once(keeping("hi"), "max-age=0, No-Store", `"second"`, "")
	once(keeping("hi"), "", `"first"`, "hit")
	once(keeping("hi"), "no-cache", `"second"`, "")
	k.answer = says(500, `{"error":{"message":"down"}}`)
	once(keeping("hi"), "", `"second"`, "hit")
	require.Len(t, k.asked, 3)
	booked := k.usages()
	require.Len(t, booked, 6)
	require.True(t, booked[5].CacheHit)

	streamed := strings.Replace(keeping("hi"), `{"model"`, `{"stream":true,"model"`, 1)
	status, headers, _ := k.post("/chat/completions", streamed)
	require.Equal(t, []any{500, ""}, []any{status, headers.Get("X-Service-Cache")}, "streams come from the provider")
	k.answer = says(200, saying("of relayed"))
	once(ask("hi"), "", "of relayed", "")
	once(ask("hi"), "", "of relayed", "")
}

// TestKeptAnswersAreGuarded: by the guardrails as they are now, both ways.
func TestKeptAnswersAreGuarded(t *testing.T) {
	k := serve(t, says(200, saying("I am bob@example.com")))
	known := rails{}
	k.api.Guard(known, k.keep)
	const harmless = `{"wordFilter":{"words":["zebra"],"action":"block"}}`
	asks := func(in, out string) (status int, kept, body string) {
		t.Helper()
		known["in"], known["out"] = rail(t, "in", in), rail(t, "out", out)
		status, headers, body := k.post("/chat/completions", keeping("the falcon"))
		return status, headers.Get("X-Service-Cache"), body
	}
	status, kept, body := asks(harmless, harmless)
	require.Equal(t, []any{200, ""}, []any{status, kept}, body)
	require.Contains(t, body, "bob@example.com")

	status, kept, body = asks(harmless, `{"pii":{}}`)
	require.Equal(t, []any{200, "hit"}, []any{status, kept}, body)
	require.Contains(t, body, `"content":"I am [REDACTED:email]"`)
	require.Contains(t, body, `"guardrails":{"output"`)

	status, _, body = asks(harmless, `{"pii":{"action":"block"}}`)
	require.Equal(t, 400, status)
	require.NotContains(t, body, "bob@")

	status, _, body = asks(`{"wordFilter":{"words":["falcon"],"action":"block"}}`, harmless)
	require.Equal(t, 400, status)
	require.Contains(t, body, `"guardrail_key":"in"`)
	require.Len(t, k.asked, 1)
}
