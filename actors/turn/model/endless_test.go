package model

import (
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/actors/provider"
	"parley/proto/agentpb"
)

// endlessly writes until the caller is gone.
func endlessly(response http.ResponseWriter, request *http.Request, pause time.Duration, piece func() string) {
	ticks := time.NewTicker(max(pause, time.Nanosecond))
	defer ticks.Stop()
	for request.Context().Err() == nil {
		if _, err := io.WriteString(response, piece()); err != nil {
			return
		}
		if pause > 0 {
			_ = http.NewResponseController(response).Flush() // who is gone is noticed above
			select {
			case <-ticks.C:
			case <-request.Context().Done():
			}
		}
	}
}

func always(text string) func() string { return func() string { return text } }

// TestEndlessStreams: whatever a provider sends without an end, and however slowly, the call ends.
func TestEndlessStreams(t *testing.T) {
	t.Parallel()
	const small = 256 << 10
	kib := strings.Repeat("x", 1<<10)
	for _, test := range []struct {
		name   string
		code   string
		says   string
		config Config
		total  int64 // ms
		pause  time.Duration
		only   string // one wire
		piece  func(w wire) string
	}{
		{name: "keep_alives", code: CodeProviderError, says: "response is longer", config: Config{MaxStreamBytes: small}, piece: func(wire) string { return ": ping\n\n" }},
		{name: "comments", code: CodeProviderError, says: "an event", config: Config{MaxLineBytes: small}, piece: func(wire) string { return ": ping\n" }},
		{name: "slow_keep_alives", code: CodeProviderTimeout, says: "whole answer", total: 200, pause: 5 * time.Millisecond, piece: func(wire) string { return ": ping\n\n" }},
		{name: "slow_line", code: CodeProviderTimeout, says: "whole answer", total: 200, pause: 5 * time.Millisecond, piece: func(wire) string { return "x" }},
		{name: "line", code: CodeProviderError, says: "a line", config: Config{MaxLineBytes: small}, piece: func(wire) string { return kib }},
		{name: "event", code: CodeProviderError, says: "an event", config: Config{MaxLineBytes: small}, piece: func(wire) string { return "data: " + kib + "\r\n" }},
		{name: "event_of_nothing", code: CodeProviderError, says: "an event", config: Config{MaxLineBytes: small}, piece: func(wire) string { return "data:\n" }},
		{name: "event_with_short_lines", code: CodeProviderError, says: "an event", config: Config{MaxLineBytes: small}, piece: func(wire) string { return "data: " + kib + "\nx\n" }},
		{name: "empty_pieces", code: CodeProviderError, says: "response is longer", config: Config{MaxStreamBytes: small}, piece: func(w wire) string { return w.text("") }},
		{name: "text", code: CodeProviderError, says: "answer is longer", config: Config{MaxAnswerBytes: small}, piece: func(w wire) string { return w.text(kib) }},
		{
			name: "thoughts", only: "chat", code: CodeProviderError, says: "response is longer", config: Config{MaxStreamBytes: small},
			piece: func(wire) string { return chatChunk(`{"reasoning_content":"`+kib+`"}`, "null") },
		},
		{
			name: "arguments", only: "chat", code: CodeProviderError, says: "answer is longer", config: Config{MaxAnswerBytes: small},
			piece: func(wire) string {
				return chatChunk(`{"tool_calls":[{"index":0,"id":"c1","function":{"name":"a","arguments":"`+kib+`"}}]}`, "null")
			},
		},
		{
			name: "calls", only: "chat", code: CodeProviderError, says: "answer is longer",
			piece: func(wire) string {
				return chatChunk(`{"tool_calls":[{"function":{"name":"a","arguments":"{}"}},{"function":{"name":"a","arguments":"{}"}}]}`, "null")
			},
		},
	} {
		for _, w := range wires() {
			if test.only != "" && w.kind != agentpb.Provider_OPENAI {
				continue
			}
			t.Run(test.name+"/"+w.name, func(t *testing.T) {
				t.Parallel()
				server, _ := w.serve(t, func(_ int, response http.ResponseWriter, request *http.Request) {
					stream(response, w.start, w.text("some"))
					endlessly(response, request, test.pause, always(test.piece(w)))
				})
				request := w.request(server)
				request.Agent.Model.TotalTimeoutMs = test.total
				answer, _, err := w.ask(t, test.config, request)
				failure := requireError(t, err, test.code)
				require.Contains(t, failure.Message, test.says)
				if test.total == 0 || answer.Text != "" { // a busy machine may not hear it in time
					require.True(t, strings.HasPrefix(answer.Text, "some"))
				}
			})
		}
	}
}

// TestEndlessTail: what comes behind an answer that has ended is not waited for without end, whatever comes.
func TestEndlessTail(t *testing.T) {
	t.Parallel()
	w := chatWire()
	server, _ := w.serve(t, func(_ int, response http.ResponseWriter, request *http.Request) {
		stream(response, w.text("whole"), chatChunk(`{}`, `"stop"`))
		endlessly(response, request, 10*time.Millisecond, always(": ping\n\n"))
	})
	start := time.Now()
	answer, _, err := w.ask(t, Config{}, w.request(server))
	require.NoError(t, err)
	require.Equal(t, "whole", answer.Text)
	require.Less(t, time.Since(start), 30*time.Second)
}

// TestCostlyEvents: an event that fits into its limit, and of which a decoder makes a thousand times as much, is refused before
// it is decoded.
func TestCostlyEvents(t *testing.T) {
	const deep, many = 900 << 10, 600 << 10
	objects := strings.TrimSuffix(strings.Repeat("{},", many), ",")
	for _, w := range wires() {
		for name, event := range map[string]string{
			"open":    "data: " + strings.Repeat("[", deep) + "\n\n",
			"objects": "data: " + strings.Repeat(`{"a":`, deep/5) + "1" + strings.Repeat("}", deep/5) + "\n\n",
			"closed":  strings.ReplaceAll(w.text("TEXT"), `"TEXT"`, strings.Repeat("[", deep)+strings.Repeat("]", deep)),
			"error":   `data: {"error":` + strings.Repeat("[", deep) + strings.Repeat("]", deep) + "}\n\n",
			"choices": `data: {"choices":[` + objects + "]}\n\n",
			"output":  `data: {"type":"response.completed","response":{"output":[` + objects + "]}}\n\n",
			"lines":   "data: {\"choices\":[\n" + strings.Repeat("data: {},\r\n", maxValues) + "data: {}]}\n\n",
		} {
			t.Run(w.name+"/"+name, func(t *testing.T) {
				server, _ := w.serve(t, func(_ int, response http.ResponseWriter, _ *http.Request) {
					stream(response, w.start, w.text("some"), event, w.end)
				})
				before := allocated()
				_, _, err := w.ask(t, Config{}, w.request(server))
				require.Contains(t, requireError(t, err, CodeProviderError).Message, "too deep or has too many values")
				require.Less(t, allocated()-before, uint64(48<<20))
			})
		}
	}
}

// TestCostlyReplies: the same of the document of a connected agent.
func TestCostlyReplies(t *testing.T) {
	read := func(document string) (*recorder, error) {
		out := &recorder{stream: &heard{}, limit: maxReply}
		return out, readReply([]byte(document), &agentpb.Connection{Protocol: "openai-chat"}, protocols["openai-chat"], provider.Redactor{}, out)
	}
	for name, document := range map[string]string{
		"arrays":  "[" + strings.TrimSuffix(strings.Repeat("[],", maxReply/3), ",") + "]",
		"numbers": "[" + strings.TrimSuffix(strings.Repeat("0,", maxReply/2), ",") + "]",
		"deep":    strings.Repeat("[", maxReply/2) + strings.Repeat("]", maxReply/2),
	} {
		before := allocated()
		_, err := read(document)
		require.ErrorContains(t, err, "too deep or has too many values", name)
		require.Less(t, allocated()-before, uint64(16<<20), name)
	}
	reply, err := read(`{"choices":[{"message":{"content":"` + strings.Repeat("[{,", maxReplyValues) + `"}}]}`)
	require.NoError(t, err, "what stands in a text is no JSON")
	require.Equal(t, 3*maxReplyValues, reply.text.Len())
	reply, err = read(strings.Repeat(`data: {"choices":[{"delta":{"content":"a"}}]}`+"\r\r", maxReplyValues/3) + "data: [DONE]\r\r")
	require.NoError(t, err, "each event is small")
	require.Equal(t, maxReplyValues/3, reply.text.Len())
}

func allocated() uint64 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.TotalAlloc
}
