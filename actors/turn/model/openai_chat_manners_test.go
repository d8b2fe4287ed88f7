package model

import (
	"cmp"
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/actors/dialect/chat/chattest"
)

// TestChatManners: what a turn makes of each manner of a server. A document may come as one, or as the body of a stream.
func TestChatManners(t *testing.T) {
	w := chatWire()
	for _, c := range chattest.Manners() {
		kinds := []string{"text/event-stream"}
		if c.Document {
			kinds = append(kinds, "application/json; charset=utf-8")
		}
		for _, kind := range kinds {
			t.Run(c.Name+"/"+kind, func(t *testing.T) {
				server, _ := w.serve(t, func(_ int, response http.ResponseWriter, _ *http.Request) {
					response.Header().Set("Content-Type", kind)
					_, _ = io.WriteString(response, c.Body)
				})
				listener := &overheard{}
				answer, err := adapterOf(t, w.kind, Config{MaxRetries: -1}).Generate(t.Context(), w.request(server), listener)
				listener.requireKept(t, answer)
				require.Equal(t, c.Text, answer.Text)
				require.Contains(t, listener.unsaid.String(), c.Thought)
				require.Equal(t, Usage{
					InputTokens: c.Input, OutputTokens: c.Output, CachedInputTokens: answer.Usage.CachedInputTokens, Known: c.Input > 0,
				}, answer.Usage)
				if c.Finish == "" {
					failed, ok := errors.AsType[*Error](err)
					require.True(t, ok, "%v", err)
					require.Contains(t, failed.Message, c.Failure)
					require.Empty(t, answer.ToolCalls, "nothing is run of an answer that is not complete")
					return
				}
				require.NoError(t, err)
				want := map[string]Stop{"stop": StopEnd, "length": StopLength, "content_filter": StopFilter}[c.Finish]
				if len(c.Calls) > 0 {
					want = StopTools
				}
				require.Equal(t, want, answer.Stop)
				require.Len(t, answer.ToolCalls, len(c.Calls))
				ids := map[string]bool{}
				for i, call := range answer.ToolCalls {
					require.False(t, ids[call.ID], "%s twice", call.ID)
					ids[call.ID] = true
					said := c.Calls[i]
					require.Equal(t, ToolCall{ID: cmp.Or(said.ID, call.ID), Name: said.Name, Arguments: cmp.Or(said.Arguments, "{}")}, call)
				}
			})
		}
	}
}

func TestChatUnknownEnd(t *testing.T) {
	w := chatWire()
	server, seen := w.serve(t, func(n int, response http.ResponseWriter, _ *http.Request) {
		if n == 0 {
			stream(response, chatChunk(`{}`, `"network_error"`), chatDone)
			return
		}
		stream(response, w.text("some"), chatChunk(`{}`, `"network_error"`), chatDone)
	})
	answer, _, err := w.ask(t, Config{}, w.request(server))
	failure := requireError(t, err, CodeProviderError)
	require.Contains(t, failure.Message, "network_error")
	require.Equal(t, "some", answer.Text)
	require.EqualValues(t, 2, seen.count.Load(), "again as long as nothing was said")
}
