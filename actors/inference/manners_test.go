package inference_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/actors/dialect/chat/chattest"
	"parley/actors/inference"
)

// choiceOnTheWire is what a client reads of a choice.
type choiceOnTheWire struct {
	Index          int
	Delta, Message struct {
		Content, Refusal *string
		Thought          string                            `json:"reasoning_content"`
		Legacy           *struct{ Name, Arguments string } `json:"function_call"`
		Calls            []struct {
			Index    int
			ID, Type string
			Function struct {
				Name, Arguments string
			}
		} `json:"tool_calls"`
	}
	Finish *string `json:"finish_reason"`
}

// onTheWire is what a client reads.
type onTheWire struct {
	Choices []choiceOnTheWire
	Usage   *struct {
		Input         int64           `json:"prompt_tokens"`
		Output        int64           `json:"completion_tokens"`
		InputDetails  json.RawMessage `json:"prompt_tokens_details"`
		OutputDetails json.RawMessage `json:"completion_tokens_details"`
	}
}

// TestManners: what a client of the gateway gets of each manner of a server: a stream of its stream, also of a document in its place,
// and a document of its document.
func TestManners(t *testing.T) {
	for _, c := range chattest.Manners() {
		for _, whole := range []bool{false, true} {
			if whole && !c.Document {
				continue
			}
			name := c.Name + "/streamed"
			if whole {
				name = c.Name + "/whole"
			}
			t.Run(name, func(t *testing.T) {
				k := newKit(t, func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "text/event-stream")
					_, _ = io.WriteString(w, c.Body)
				}, func(config *inference.Config) { config.MaxAttempts = 1 })
				var got string
				var err error
				if whole {
					var raw []byte
					raw, err = k.caller.Chat(t.Context(), k.call(hello))
					got = string(raw)
				} else {
					got, err = k.stream(withUsage)
				}
				requireManner(t, &c, got, err, whole)
				usage := k.usage()
				require.Equal(t, c.Finish == "", usage.Failed)
				if c.Input > 0 {
					require.Equal(t, []int64{c.Input, c.Output}, []int64{usage.InputTokens, usage.OutputTokens})
				}
			})
		}
	}
}

// requireManner checks what a client got.
func requireManner(t *testing.T, c *chattest.Manner, got string, err error, whole bool) {
	t.Helper()
	var text, thought, finish, details string
	var calls []chattest.Call
	for line := range strings.Lines(got) {
		var chunk onTheWire
		require.NoError(t, json.Unmarshal([]byte(line), &chunk))
		for _, choice := range chunk.Choices {
			require.Zero(t, choice.Index)
			said := choice.Delta
			if whole {
				said = choice.Message
			}
			if said.Content != nil {
				text += *said.Content
			}
			thought += said.Thought
			if c.Legacy && said.Legacy != nil {
				if calls == nil {
					calls = []chattest.Call{{}}
				}
				calls[0].Name += said.Legacy.Name
				calls[0].Arguments += said.Legacy.Arguments
			}
			for i, call := range said.Calls {
				if call.ID != "" {
					require.Equal(t, "function", call.Type)
					require.True(t, whole || call.Index == len(calls), "indexes are dense")
					calls = append(calls, chattest.Call{ID: call.ID})
				}
				at := call.Index
				if whole {
					at = i
				}
				calls[at].Name += call.Function.Name
				calls[at].Arguments += call.Function.Arguments
			}
			if choice.Finish != nil {
				require.Empty(t, finish, "one end")
				finish = *choice.Finish
			}
		}
		if chunk.Usage != nil && chunk.Usage.InputDetails != nil {
			details = `"prompt_tokens_details":` + string(chunk.Usage.InputDetails) + `,"completion_tokens_details":` + string(chunk.Usage.OutputDetails)
		}
	}
	if c.Finish == "" {
		failed, ok := errors.AsType[*inference.Error](err)
		require.True(t, ok, "%v", err)
		require.Contains(t, failed.Message, c.Failure)
		if !whole {
			require.Equal(t, c.Text, text, "what was said stays")
		}
		return
	}
	require.NoError(t, err)
	require.Equal(t, c.Text, text)
	require.Equal(t, c.Thought, thought)
	require.Equal(t, c.Finish, finish)
	require.Equal(t, c.Details, details)
	require.Len(t, calls, len(c.Calls))
	ids := map[string]bool{}
	for i, call := range calls {
		require.False(t, ids[call.ID], "%s twice", call.ID)
		ids[call.ID] = true
		want := c.Calls[i]
		require.Equal(t, chattest.Call{ID: cmp.Or(want.ID, call.ID), Name: want.Name, Arguments: want.Arguments}, call)
	}
}

// TestRelayedAsTheyAre: what the reader does not know reaches the client, and what other tools than functions are called with.
func TestRelayedAsTheyAre(t *testing.T) {
	k := newKit(t, streams(
		`{"choices":[{"index":0,"delta":{"reasoning_details":[{"type":"reasoning.encrypted","data":"x"}],"audio":{"id":"a"}},"logprobs":{"content":[]}}]}`,
		`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","type":"custom","custom":{"name":"grep","input":"a b"}}]}}]}`,
		`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"c2","extra_content":{"s":1},"function":{"name":"f","arguments":"{}"}}]}}]}`,
		`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`, "[DONE]"))
	got, err := k.stream(streamed)
	require.NoError(t, err)
	for _, part := range []string{
		`"reasoning_details":[{"type":"reasoning.encrypted","data":"x"}]`, `"audio":{"id":"a"}`, `"logprobs":{"content":[]}`,
		`{"index":0,"id":"c1","type":"custom","custom":{"name":"grep","input":"a b"}}`,
		`{"index":1,"id":"c2","type":"function","function":{"name":"f","arguments":"{}"},"extra_content":{"s":1}}`,
	} {
		require.Contains(t, got, part)
	}
	k = newKit(t, says(200, `{"choices":[{"index":0,"content_filter_results":{"hate":{}},"message":{"role":"assistant","content":"Hi","refusal":null,"annotations":[],"audio":null},"finish_reason":"stop"}]}`))
	raw, err := k.caller.Chat(t.Context(), k.call(hello))
	require.NoError(t, err)
	require.Contains(t, string(raw), `"choices":[{"index":0,"message":{"role":"assistant","content":"Hi","refusal":null,"annotations":[],"audio":null},`+
		`"logprobs":null,"finish_reason":"stop","content_filter_results":{"hate":{}}}]`)
}

// TestCutAfterTheEnd: an answer whose tail is missing is complete.
func TestCutAfterTheEnd(t *testing.T) {
	k := newKit(t, func(w http.ResponseWriter, r *http.Request) {
		streams(`{"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}`)(w, r)
		panic(http.ErrAbortHandler)
	})
	got, err := k.stream(streamed)
	require.NoError(t, err)
	require.Contains(t, got, `"finish_reason":"stop"`)
}
