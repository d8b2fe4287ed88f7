package chat_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"parley/actors/dialect/chat"
	"parley/actors/dialect/chat/chattest"
	"parley/actors/provider"
)

// TestManners: what each manner of a server means, streamed in pieces of any size.
func TestManners(t *testing.T) {
	for _, c := range chattest.Manners() {
		t.Run(c.Name, func(t *testing.T) {
			got, err := read(c.Body)
			if c.Finish != "" {
				require.NoError(t, err)
			} else {
				failed, ok := errors.AsType[*provider.Failure](err)
				require.True(t, ok, "%v", err)
				require.Contains(t, failed.Error(), c.Failure)
				got.Finish = ""
			}
			want := said{Text: c.Text, Thought: c.Thought, Finish: chat.Finish(c.Finish), Usage: fmt.Sprint(c.Input, c.Output, got.cached(), c.Input > 0)}
			for _, call := range c.Calls {
				want.Calls = append(want.Calls, toolCall{call.Name, call.Arguments})
			}
			require.Equal(t, want, got)
		})
	}
}

func (s *said) cached() (cached int64) {
	var input, output int64
	_, _ = fmt.Sscan(s.Usage, &input, &output, &cached)
	return cached
}

// TestFailures: what a failed end means for further attempts.
func TestFailures(t *testing.T) {
	const first = `data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":`
	for body, class := range map[string]provider.Class{
		"":                                 provider.Cut,
		"data: [DONE]\n\n":                 provider.Cut,
		first + `null}]}`:                  provider.Cut,
		first + `"network_error"}]}`:       provider.Unnamed,
		first + `"rate_limit_exceeded"}]}`: provider.RateLimited,
		`data: nonsense`:                   provider.Unreadable,
		`<html>`:                           provider.Unreadable,
		`data: {"error":{"type":"overloaded_error","message":"busy"}}`: provider.Overloaded,
		`data: {"object":"error","code":429,"message":"slow down"}`:    provider.RateLimited,
	} {
		_, err := read(body)
		failed, ok := errors.AsType[*provider.Failure](err)
		require.True(t, ok, body)
		require.Equal(t, class, failed.Class, body)
	}
}

// TestChoices: an answer is complete when all of its choices are.
func TestChoices(t *testing.T) {
	const a, b = `data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}` + "\n\n", `data: {"choices":[{"index":1,"delta":{"content":"b"}}]}` + "\n\n"
	listen := func([]chat.Delta, bool) error { return nil }
	reader := chat.NewReader(provider.Redactor{}, 2)
	require.NoError(t, reader.Stream(strings.NewReader(a), listen))
	require.False(t, reader.Complete(), "the other choice may come")
	require.Error(t, chat.NewReader(provider.Redactor{}, 2).Stream(strings.NewReader(a+b), listen))
	require.NoError(t, chat.NewReader(provider.Redactor{}, 2).Stream(strings.NewReader(a+b+"data: [DONE]\n\n"), listen))

	broken := errors.New("broken")
	require.ErrorIs(t, chat.NewReader(provider.Redactor{}, 1).Stream(iotest.ErrReader(broken), listen), broken)
	require.ErrorIs(t, chat.NewReader(provider.Redactor{}, 1).Stream(strings.NewReader(a), func([]chat.Delta, bool) error { return broken }), broken)
}

// TestHostileEvents: what is large, deep or many is read in time that grows with its size, or refused.
func TestHostileEvents(t *testing.T) {
	const size = 2 << 20
	parts := strings.TrimSuffix(strings.Repeat(`"a",`, 90_000), ",")
	got, err := read(`data: {"choices":[{"index":0,"delta":{"content":[` + parts + `]},"finish_reason":"stop"}]}`)
	require.NoError(t, err)
	require.Len(t, got.Text, 90_000)
	for _, content := range []string{
		strings.Repeat("[", 5000) + strings.Repeat("]", 5000),
		strings.Repeat(`{"content":[`, 2500) + strings.Repeat("]}", 2500),
		"[" + strings.Repeat(`"",`, size/3) + `""]`,
	} {
		_, err := read(`data: {"choices":[{"index":0,"delta":{"content":` + content + `},"finish_reason":"stop"}]}`)
		require.Error(t, err)
	}
	calls := strings.TrimSuffix(strings.Repeat(`{"function":{"name":"a"}},`, 129), ",")
	for _, event := range []string{
		`{"choices":[` + strings.Repeat("{},", 600<<10) + `{}]}`,
		`{"choices":[{"index":0,"delta":{"tool_calls":[` + calls + `]}}]}`,
		`{"choices":[{"index":128,"delta":{}}]}`, `{"choices":[{"index":-1,"delta":{}}]}`, `{"choices":[7]}`, `{"choices":[{"delta":7}]}`,
		`{"choices":[{"delta":{"tool_calls":7}}]}`, `{"choices":[{"delta":{"tool_calls":[7]}}]}`, `{"choices":[{"delta":{"tool_calls":[{"function":7}]}}]}`,
		`7`, `"text"`, `[]`, `{"a":`,
	} {
		_, err := read("data: " + event + "\n\ndata: [DONE]\n\n")
		require.Error(t, err, "%.200s", event)
	}
}

// FuzzReader: whatever comes, what is said is valid, and read alike in pieces of any size.
func FuzzReader(f *testing.F) {
	for _, c := range chattest.Manners() {
		f.Add(c.Body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		got, err := read(body)
		reader := chat.NewReader(provider.Redactor{}, 1)
		var text string
		again := reader.Stream(iotest.OneByteReader(strings.NewReader(body)), func(deltas []chat.Delta, _ bool) error {
			for _, delta := range deltas {
				text += delta.Text.String()
				for _, raw := range [][]byte{delta.Text, delta.Refusal, delta.Thought} {
					require.True(t, raw == nil || json.Valid(raw), "%s", raw)
				}
				for _, call := range delta.Calls {
					require.True(t, call.Arguments == nil || json.Valid(call.Arguments), "%s", call.Arguments)
				}
			}
			return nil
		})
		require.Equal(t, got.Text, text)
		require.Equal(t, err == nil, again == nil, "%v, %v", err, again)
	})
}
