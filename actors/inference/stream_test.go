package inference_test

import (
	"context"
	"errors"
	"flag"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/actors/inference"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

const (
	streamed  = `{"model":"chat","stream":true,"messages":[{"role":"user","content":"hi"}]}`
	withUsage = `{"model":"chat","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hi"}]}`
)

// TestRecorded: what callers get of recorded streams of providers.
func TestRecorded(t *testing.T) {
	for _, name := range []string{"openai", "tools", "imitator", "two"} {
		t.Run(name, func(t *testing.T) {
			k := newKit(t, recorded(t, name+".sse"))
			got, err := k.stream(withUsage)
			require.NoError(t, err)
			ids := completionID.FindAllString(got, -1)
			require.Len(t, ids, strings.Count(got, "\n"), "each chunk has an id of ours")
			require.Len(t, slices.Compact(ids), 1, "and all have the same")
			got = withoutID(got)
			golden := "testdata/" + name + ".golden"
			if *rewrite {
				require.NoError(t, os.WriteFile(golden, []byte(got), 0o600))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.Equal(t, string(want), got)
			require.JSONEq(t, `{"model":"up-model","messages":[{"role":"user","content":"hi"}],"stream":true,"stream_options":{"include_usage":true}}`,
				k.provider.requests()[0].raw)
			require.False(t, k.usage().Failed)
		})
	}
}

var completionID = regexp.MustCompile(`"id":"chatcmpl-[0-9a-f]{32}"`)

func withoutID(text string) string { return completionID.ReplaceAllString(text, `"id":"ID"`) }

func TestUsageOnlyWhenAsked(t *testing.T) {
	k := newKit(t, recorded(t, "openai.sse"))
	got, err := k.stream(streamed)
	require.NoError(t, err)
	require.NotContains(t, got, "usage")
	require.Contains(t, k.provider.requests()[0].raw, `"stream_options":{"include_usage":true}`, "it is asked for anyway")
	usage := k.usage()
	require.Equal(t, int64(19), usage.InputTokens)
	require.Equal(t, int64(4), usage.CachedInputTokens)
	require.True(t, usage.Priced)
}

// TestStreamErrors: errors after the first chunk.
func TestStreamErrors(t *testing.T) {
	const first = `{"id":"a","choices":[{"index":0,"delta":{"content":"Hel"}}]}`
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
		code   string
	}{
		{"an error event", streams(first, `{"error":{"message":"`+testKey+`","type":"server_error"}}`), "provider_error"},
		{"nonsense", streams(first, `nonsense`), "provider_error"},
		{"cut", func(w http.ResponseWriter, r *http.Request) {
			streams(first)(w, r)
			panic(http.ErrAbortHandler)
		}, "provider_unavailable"},
		{"length without an answer", streams(`{"id":"a","choices":[{"index":0,"delta":{"reasoning_content":"hm"}}]}`,
			`{"id":"a","choices":[{"index":0,"delta":{},"finish_reason":"length"}]}`, "[DONE]"), "output_token_limit_exceeded"},
		{"too many parts", streams(first, `{"choices":[`+strings.Repeat("{},", 600<<10)+`{}]}`), "provider_error"},
		{"too deep", streams(first, `{"choices":[{"index":0,"delta":{"content":`+strings.Repeat("[", 5000)+strings.Repeat("]", 5000)+`}}]}`), "provider_error"},
		{"too long a chunk", streams(first, `{"x":"`+strings.Repeat("y", 3<<20)+`"}`), "provider_error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newKit(t, c.answer)
			got, err := k.stream(streamed)
			require.Equal(t, c.code, asError(t, err).Code)
			require.Contains(t, got, `"role":"assistant"`)
			require.Len(t, k.provider.requests(), 1, "never again once something was passed on")
			usage := k.usage()
			require.True(t, usage.Failed)
			require.Positive(t, usage.OutputTokens, "what was passed on is booked")
		})
	}
}

func TestFinishAdded(t *testing.T) {
	k := newKit(t, streams(`{"choices":[{"index":0,"delta":{"content":"Hi"}}]}`, "[DONE]"))
	got, err := k.stream(streamed)
	require.NoError(t, err)
	require.Contains(t, got, `"finish_reason":"stop"`)
	require.Regexp(t, `"id":"chatcmpl-[0-9a-f]{32}"`, got)
}

// TestStreamedWhole: a model that cannot stream tool calls is asked for a whole answer.
func TestStreamedWhole(t *testing.T) {
	const body = `{"model":"whole","stream":true,"messages":[],"tools":[{"type":"function","function":{"name":"f"}}]}`
	k := newKit(t, says(200, `{"id":"w","created":5,"choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant",
		"content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`))
	got, err := k.stream(body)
	require.NoError(t, err)
	require.NotContains(t, k.provider.requests()[0].raw, "stream")
	require.Contains(t, got, `"tool_calls":[{"index":0,"id":"c"`)
	require.Contains(t, got, `"finish_reason":"tool_calls"`)
	require.Equal(t, int64(2), k.usage().OutputTokens)
}

// TestClientGone: the call at the provider ends, and what was passed on is booked.
func TestClientGone(t *testing.T) {
	ended := make(chan struct{})
	k := newKit(t, func(w http.ResponseWriter, r *http.Request) {
		streams(`{"choices":[{"index":0,"delta":{"content":"Hello there"}}]}`)(w, r)
		<-r.Context().Done()
		close(ended)
	})
	gone := errors.New("gone")
	t.Run("by emit", func(t *testing.T) {
		err := k.caller.ChatStream(t.Context(), k.call(streamed), func(chunk []byte, _ bool) error {
			if strings.Contains(string(chunk), "Hello") {
				return gone
			}
			return nil
		})
		require.ErrorIs(t, err, gone)
		waitFor(t, ended)
		usage := k.usage()
		require.Positive(t, usage.OutputTokens)
		require.Positive(t, usage.CostNanoUSD)
		require.False(t, usage.Failed, "it was cancelled")
		require.False(t, usage.Priced, "by estimate")
	})
	t.Run("by context", func(t *testing.T) {
		ended, k.booked = make(chan struct{}), nil
		ctx, cancel := context.WithCancelCause(t.Context())
		err := k.caller.ChatStream(ctx, k.call(streamed), func(chunk []byte, _ bool) error {
			if strings.Contains(string(chunk), "Hello") {
				cancel(gone)
			}
			return nil
		})
		require.ErrorIs(t, err, gone)
		waitFor(t, ended)
		require.Positive(t, k.usage().OutputTokens)
	})
}

// TestClientGoneBeforeTheAnswer: what was asked is billed all the same.
func TestClientGoneBeforeTheAnswer(t *testing.T) {
	gone := errors.New("gone")
	for name, ask := range map[string]func(ctx context.Context, k *kit) error{
		"whole": func(ctx context.Context, k *kit) error { _, err := k.caller.Chat(ctx, k.call(hello)); return err },
		"streamed": func(ctx context.Context, k *kit) error {
			return k.caller.ChatStream(ctx, k.call(streamed), func([]byte, bool) error { return nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			k := newKit(t, func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				cancel(gone)
				<-r.Context().Done()
			})
			require.ErrorIs(t, ask(ctx, k), gone)
			usage := k.usage()
			require.False(t, usage.Failed)
			require.Positive(t, usage.InputTokens)
			require.Zero(t, usage.OutputTokens)
			require.Positive(t, usage.CostNanoUSD)
			require.False(t, usage.Priced, "by estimate")
		})
	}
}

// TestFailuresBooked: a failed call costs what was asked, unless the provider refused it or never got it.
func TestFailuresBooked(t *testing.T) {
	stall := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	for _, c := range []struct {
		name    string
		answer  http.HandlerFunc
		charged bool
	}{
		{"no answer in time", stall, true},
		{"the provider's own gateway gave up", says(504, `{"error":{"message":"late"}}`), true},
		{"cut connection", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, true},
		{"cut answer", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, `{"choices":[`)
		}, true},
		{"no JSON", says(200, `hello`), true},
		{"no choices", says(200, `{"id":"x","choices":[]}`), true},
		{"too large an answer", says(200, `{"id":"`+strings.Repeat("x", 5000)+`"}`), true},
		{"refused", says(400, `{"error":{"message":"bad"}}`), false},
		{"too many", says(429, `{"error":{"message":"slow down"}}`), false},
		{"broken", says(500, `{"error":{"message":"oops"}}`), false},
		{"busy", says(503, `{"error":{"message":"busy"}}`), false},
		{"refused with status 200", says(200, `{"error":{"message":"no","type":"rate_limit_error"}}`), false},
		{"redirect", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) }, false},
		{"out of reach", nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			for what, ask := range map[string]func(k *kit) error{
				"whole":    func(k *kit) error { _, err := k.caller.Chat(t.Context(), k.call(hello)); return err },
				"streamed": func(k *kit) error { _, err := k.stream(streamed); return err },
				"embeddings": func(k *kit) error {
					_, err := k.caller.Embed(t.Context(), k.call(`{"model":"embed","input":"hi"}`))
					return err
				},
			} {
				k := newKit(t, c.answer, func(config *inference.Config) {
					config.MaxAnswerBytes, config.MaxStreamBytes = 4000, 4000
					if c.name == "no answer in time" {
						config.RequestTimeout = 100 * time.Millisecond
					}
				})
				if c.answer == nil {
					k.provider.Close()
				}
				failed := asError(t, ask(k))
				usage := k.usage()
				require.True(t, usage.Failed, "%s: %s", what, failed)
				require.Zero(t, usage.OutputTokens, what)
				if !c.charged {
					require.Zero(t, usage.InputTokens, what)
					require.Zero(t, usage.CostNanoUSD, what)
					continue
				}
				require.Positive(t, usage.InputTokens, what)
				require.Positive(t, usage.CostNanoUSD, what)
				require.False(t, usage.Priced, what+": by estimate")
			}
		})
	}
}

// TestRefusedThenOutOfReach: the second attempt reached nobody, and the first was refused.
func TestRefusedThenOutOfReach(t *testing.T) {
	var k *kit
	k = newKit(t, func(w http.ResponseWriter, r *http.Request) {
		_ = k.provider.Listener.Close()
		w.Header().Set("Connection", "close")
		says(500, `{"error":{"message":"oops"}}`)(w, r)
	})
	_, err := k.caller.Chat(t.Context(), k.call(hello))
	failed := asError(t, err)
	require.Len(t, k.provider.requests(), 1)
	usage := k.usage()
	require.True(t, usage.Failed, failed)
	require.Zero(t, usage.InputTokens)
	require.Zero(t, usage.CostNanoUSD)
}

func waitFor(t *testing.T, event <-chan struct{}) {
	t.Helper()
	select {
	case <-event:
	case <-time.After(30 * time.Second):
		t.Fatal("it did not happen")
	}
}

// TestTimeouts: no answer, and none to the end.
func TestTimeouts(t *testing.T) {
	short := func(c *inference.Config) { c.RequestTimeout = 100 * time.Millisecond }
	stall := func(events ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if len(events) > 0 {
				streams(events...)(w, r)
			}
			<-r.Context().Done()
		}
	}
	for name, call := range map[string]func(k *kit) error{
		"whole":    func(k *kit) error { _, err := k.caller.Chat(context.Background(), k.call(hello)); return err },
		"streamed": func(k *kit) error { _, err := k.stream(streamed); return err },
	} {
		t.Run(name, func(t *testing.T) {
			failed := asError(t, call(newKit(t, stall(), short)))
			require.Equal(t, 504, failed.Status)
			require.Equal(t, "provider_timeout", failed.Code)
		})
	}
	t.Run("in mid-stream", func(t *testing.T) {
		k := newKit(t, stall(`{"choices":[{"index":0,"delta":{"content":"Hi"}}]}`), short)
		got, err := k.stream(streamed)
		require.Equal(t, "provider_timeout", asError(t, err).Code)
		require.Contains(t, got, "Hi")
	})
}

// TestEndlessStreams: what is never silent and never ends is ended by its time or its size.
func TestEndlessStreams(t *testing.T) {
	const chunk = `data: {"choices":[{"index":0,"delta":{"content":"Hi"}}]}` + "\n\n"
	short := func(c *inference.Config) {
		c.RequestTimeout, c.StreamTimeout = 300*time.Millisecond, 600*time.Millisecond
	}
	small := func(c *inference.Config) { c.MaxStreamBytes = 256 << 10 }
	for _, c := range []struct {
		name, first, piece string
		pause              time.Duration
		change             func(*inference.Config)
		code               string
	}{
		{"keep-alives before it begins", "", ": ping\n\n", 5 * time.Millisecond, short, "provider_timeout"},
		{"keep-alives", chunk, ": ping\n\n", 5 * time.Millisecond, short, "provider_timeout"},
		{"chunks", "", chunk, 5 * time.Millisecond, short, "provider_timeout"},
		{"a line", chunk, "x", 5 * time.Millisecond, short, "provider_timeout"},
		{"many keep-alives", chunk, ": ping\n\n", 0, small, "provider_error"},
		{"many chunks", "", chunk, 0, small, "provider_error"},
		{"a large event", chunk, "data: x\n", 0, func(c *inference.Config) { c.MaxChunkBytes = 64 << 10 }, "provider_error"},
		{"a large line", chunk, "xxxxxxxx", 0, func(c *inference.Config) { c.MaxChunkBytes = 64 << 10 }, "provider_error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newKit(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, c.first)
				ticks := time.NewTicker(max(c.pause, time.Nanosecond))
				defer ticks.Stop()
				for r.Context().Err() == nil {
					if _, err := io.WriteString(w, c.piece); err != nil {
						return
					}
					if c.pause > 0 {
						_ = http.NewResponseController(w).Flush()
						<-ticks.C
					}
				}
			}, c.change, func(c *inference.Config) { c.MaxAttempts = 1 })
			_, err := k.stream(streamed)
			require.Equal(t, c.code, asError(t, err).Code)
		})
	}
}
