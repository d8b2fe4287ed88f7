package standin

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T) *Server {
	t.Helper()
	s, err := Start(t.Context(), time.Millisecond)
	require.NoError(t, err)
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		require.NoError(t, s.Close())
	})
	return s
}

func post(t *testing.T, url, body string, headers ...string) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

// told posts and takes the whole answer.
func told(t *testing.T, url, body string, headers ...string) string {
	t.Helper()
	response := post(t, url, body, headers...)
	all, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return string(all)
}

func TestModelSaysAndCharges(t *testing.T) {
	s := start(t)
	said := told(t, s.ModelURL()+"/chat/completions", `{"messages":[{"role":"system","content":"x"},{"role":"user","content":"please case=a say=3"}]}`)
	require.Equal(t, 3, strings.Count(said, `{"content":"0`))
	require.Contains(t, said, `"finish_reason":"stop"`)
	require.Contains(t, said, `"completion_tokens":3`)
	require.Equal(t, []Call{{Case: "a", Prompt: 7, Output: 3, Ended: true}}, s.Model.Calls())
}

func TestModelHeedsTheCap(t *testing.T) {
	s := start(t)
	said := told(t, s.ModelURL()+"/chat/completions", `{"max_tokens":2,"messages":[{"role":"user","content":"case=a say=9"}]}`)
	require.Contains(t, said, `"finish_reason":"length"`)
	require.Equal(t, []Call{{Case: "a", Prompt: 4, Output: 2, Largest: 2, Ended: true}}, s.Model.Calls())
}

func TestModelCallsToolsRoundByRound(t *testing.T) {
	s := start(t)
	const user = `{"role":"user","content":"case=a tools=pay,note|pay"}`
	const calls = `,{"role":"assistant","tool_calls":[{}]},{"role":"tool","content":"ok"}`
	first := told(t, s.ModelURL()+"/chat/completions", `{"messages":[`+user+`]}`)
	require.Contains(t, first, `"name":"pay"`)
	require.Contains(t, first, `"name":"note"`)
	require.Contains(t, first, `{\"case\":\"a\",\"call\":\"0.1\"}`)
	require.Contains(t, first, `"finish_reason":"tool_calls"`)
	second := told(t, s.ModelURL()+"/chat/completions", `{"messages":[`+user+calls+`]}`)
	require.Contains(t, second, `{\"case\":\"a\",\"call\":\"1.0\"}`)
	require.NotContains(t, second, "note")
	last := told(t, s.ModelURL()+"/chat/completions", `{"messages":[`+user+calls+calls+`]}`)
	require.Contains(t, last, `"finish_reason":"stop"`)
	require.Len(t, Of(s.Model.Calls(), "a"), 3)
}

// TestModelChargesWhatNobodyWaitedFor: a call that was left costs what was said until then.
func TestModelChargesWhatNobodyWaitedFor(t *testing.T) {
	s := start(t)
	response := post(t, s.ModelURL()+"/chat/completions", `{"messages":[{"role":"user","content":"case=a say=100000 pace=1ms"}]}`)
	lines := bufio.NewScanner(response.Body)
	for range 8 {
		require.True(t, lines.Scan())
	}
	require.Equal(t, 1, s.Model.Open())
	require.NoError(t, response.Body.Close())
	require.Eventually(t, func() bool { return s.Model.Open() == 0 }, 30*time.Second, time.Millisecond)
	call := s.Model.Calls()[0]
	require.False(t, call.Ended)
	require.GreaterOrEqual(t, call.Output, int64(3))
	require.Less(t, call.Output, int64(100000))
}

func TestToolsCountByKey(t *testing.T) {
	s := start(t)
	const args = `{"case":"a","call":"0.0"}`
	require.Contains(t, told(t, s.ToolURL("pay"), args), "no Idempotency-Key")
	for range 2 {
		require.Contains(t, told(t, s.ToolURL("pay"), args, "Idempotency-Key", "k1"), "done")
	}
	told(t, s.ToolURL("note"), `{"case":"a","call":"0.1"}`, "Idempotency-Key", "k2")
	require.Equal(t, map[string]Run{
		"k1": {Tool: "pay", Case: "a", Call: "0.0", Requests: 2, Effects: 2},
		"k2": {Tool: "note", Case: "a", Call: "0.1", Requests: 1, Effects: 1},
	}, s.Tools.Runs())
}
