package model

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/actors/dialect/chat/chattest"
	"parley/proto/agentpb"
)

// TestConnectedChatManners: a connected agent is read as a model is, and its tools are its own business.
func TestConnectedChatManners(t *testing.T) {
	for _, c := range chattest.Manners() {
		t.Run(c.Name, func(t *testing.T) {
			server, _ := agentServer(t, replies(c.Body))
			answer, _, err := askConnected(t, Config{}, connectedRequest(&agentpb.Connection{Protocol: "openai-chat", Url: server.URL, Model: "m"}))
			require.Equal(t, c.Text, answer.Text)
			require.Empty(t, answer.ToolCalls)
			require.Equal(t, []int64{c.Input, c.Output}, []int64{answer.Usage.InputTokens, answer.Usage.OutputTokens})
			switch {
			case c.Finish == "":
				failed, ok := errors.AsType[*Error](err)
				require.True(t, ok, "%v", err)
				require.Contains(t, failed.Message, c.Failure)
				require.NotContains(t, failed.Message, "model provider")
			case c.Text == "" && c.Finish != "content_filter":
				require.Contains(t, requireError(t, err, CodeProviderError).Message, "has no text")
			default:
				require.NoError(t, err)
				require.Equal(t, map[string]Stop{"length": StopLength, "content_filter": StopFilter, "stop": StopEnd}[c.Finish], answer.Stop)
			}
		})
	}
}

// TestConnectedManners: what replies of connected agents mean.
func TestConnectedManners(t *testing.T) {
	const cannot, not = "cannot be understood", "A2A error: "
	task := func(state, rest string) string { return `{"result":{"status":{"state":"` + state + `"` + rest + `}` }
	for _, row := range []struct{ protocol, path, reply, text, failure string }{
		{protocol: "openai-responses", reply: `{"status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"Hello"}]}]}`, text: "Hello"},
		{protocol: "openai-responses", reply: `{"message":"done","output_text":"Hello"}`, text: "Hello"},
		{protocol: "openai-responses", reply: "event: x\r\rdata: {\"type\":\"response.output_text.delta\",\"delta\":\"Hello\"}\r\rdata: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\"}}\r\r", text: "Hello"},
		{protocol: "openai-responses", reply: `{"status":"incomplete","incomplete_details":{},"output_text":"Hel"}`, text: "Hel", failure: "incomplete"},
		{protocol: "openai-responses", reply: `{"status":"queued","output_text":""}`, failure: "queued"},
		{protocol: "openai-responses", reply: `{"status":"failed","error":{"code":"server_error","message":"the upstream broke"}}`, failure: "External agent returned 200: the upstream broke"},
		{protocol: "openai-responses", reply: `{"error":"the upstream broke"}`, failure: "External agent returned 200: the upstream broke"},
		{protocol: "openai-responses", reply: `{"detail":[{"loc":["body","model"],"msg":"missing"}]}`, failure: "External agent returned 200: model: missing"},
		{protocol: "openai-responses", reply: `{"status":"completed","output_text":7}`, failure: "output_text"},
		{protocol: "openai-responses", reply: ``, failure: "not whole"},
		{protocol: "openai-responses", reply: `<html><body>Gateway</body></html>`, failure: cannot + ": Gateway"},
		{protocol: "openai-chat", path: "answer", reply: "data: {\"answer\":\"Hello\"}\n\n", text: "Hello"},
		{protocol: "openai-chat", path: "answer", reply: `{"error":{"message":"the upstream broke"}}`, failure: "External agent returned 200: the upstream broke"},
		{protocol: "openai-chat", path: "answer", reply: `{"message":"x","answer":"Hello"}`, text: "Hello"},
		{protocol: "openai-chat", path: "answer", reply: `the upstream broke`, failure: cannot + ": the upstream broke"},
		{protocol: "openai-chat", path: "answer", reply: `{"answer":`, failure: "not whole"},
		{protocol: "a2a", reply: "data: {\"result\":{\"parts\":[{\"text\":\"Hello\"}]}}\r\r", text: "Hello"},
		{protocol: "a2a", reply: `{"result":{"parts":{"kind":"text","text":"Hello"}},"error":null}`, text: "Hello"},
		{protocol: "a2a", reply: `{"result":{"parts":["Hel",{"root":{"kind":"text","text":"lo"}}]}}`, text: "Hel\nlo"},
		{protocol: "a2a", reply: task("completed", "") + `,"artifacts":[{"parts":[{"text":"Hello"}]}]}}`, text: "Hello"},
		{protocol: "a2a", reply: task("failed", `,"message":{"parts":[{"text":"no disk"}]}`) + `}}`, failure: not + "no disk"},
		{protocol: "a2a", reply: task("TASK_STATE_REJECTED", "") + `}}`, failure: not + "its task is rejected"},
		{protocol: "a2a", reply: task("canceled", "") + `,"artifacts":[{"parts":[{"text":"Hel"}]}]}}`, text: "Hel", failure: not + "its task is canceled"},
		{protocol: "a2a", reply: task("working", "") + `,"artifacts":[{"parts":[{"text":"Hel"}]}]}}`, text: "Hel", failure: not + "its task is working"},
		{protocol: "a2a", reply: task("auth-required", `,"message":{"parts":[{"text":"Sign in at x"}]}`) + `}}`, text: "Sign in at x"},
		{protocol: "a2a", reply: `{"error":"the upstream broke"}`, failure: not + "the upstream broke"},
		{protocol: "a2a", reply: `{"detail":"the upstream broke"}`, failure: not + "the upstream broke"},
		{protocol: "a2a", reply: `[{"error":{"message":"the upstream broke"}}]`, failure: cannot},
		{protocol: "a2a", reply: `{"result":`, failure: "not whole"},
	} {
		server, _ := agentServer(t, replies(row.reply))
		answer, _, err := askConnected(t, Config{}, connectedRequest(&agentpb.Connection{Protocol: row.protocol, Url: server.URL, Model: "m", ResponsePath: row.path}))
		require.Equal(t, row.text, answer.Text, row.reply)
		if row.failure == "" {
			require.NoError(t, err, row.reply)
			continue
		}
		require.ErrorContains(t, err, row.failure, row.reply)
	}
}

// TestConnectedUsageOfEachProtocol: numbers in a text are numbers, and a failed answer has consumed what it says.
func TestConnectedUsageOfEachProtocol(t *testing.T) {
	usage := Usage{InputTokens: 11, OutputTokens: 7, CachedInputTokens: 5, Known: true}
	const said = `"usage":{"input_tokens":"11","output_tokens":7,"input_tokens_details":{"cached_tokens":5}}`
	for _, row := range []struct{ protocol, path, reply string }{
		{"openai-chat", "", `{"choices":[{"message":{"content":"x"},"finish_reason":"banana"}],` + said + `}`},
		{"openai-chat", "a", `{"a":"x",` + said + `}`},
		{"openai-responses", "", `{"status":"failed","error":{"message":"x"},` + said + `}`},
		{"openai-responses", "", `{"output_text":"x",` + said + `}`},
		{"a2a", "", `{"result":{"parts":[{"text":"x"}]},` + strings.ReplaceAll(said, "input_tokens_details", "prompt_tokens_details") + `}`},
	} {
		server, _ := agentServer(t, replies(row.reply))
		answer, _, _ := askConnected(t, Config{}, connectedRequest(&agentpb.Connection{Protocol: row.protocol, Url: server.URL, Model: "m", ResponsePath: row.path}))
		require.Equal(t, usage, answer.Usage, row.reply)
	}
}
