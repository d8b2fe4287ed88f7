package model

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"parley/actors/provider"
	"parley/proto/agentpb"
)

func weatherTool() Tool {
	return Tool{
		Name: "weather", Description: "Looks at the sky.",
		Schema: []byte(`{"type":"object","properties":{"city":{"type":"string","maxLength":12345678901234567890}},"required":["city"],"additionalProperties":false}`),
	}
}

// conversationWithTools holds what providers are picky about: a call without a result, a result without a call, a blank message.
func conversationWithTools() []Message {
	return []Message{
		{Role: ToolRole, ToolID: "c0", Content: "left over"},
		{Role: User, Content: "Weather in Bern and Rome?"},
		{Role: Assistant, Content: "Let me look.", ToolCalls: []ToolCall{
			{ID: "c1", Name: "weather", Arguments: `{"city":"Bern"}`}, {ID: "c2", Name: "weather", Arguments: `{"city":"Rome"}`},
		}},
		{Role: ToolRole, ToolID: "c1", Content: "rain"},
		{Role: ToolRole, ToolID: "c9", Content: "nobody asked"},
		{Role: Assistant, Content: "Rain in Bern."},
		{Role: Assistant, Content: " \n"},
		{Role: User, Content: "And Oslo?"},
	}
}

func TestNormalAnswer(t *testing.T) {
	for _, w := range wires() {
		t.Run(w.name, func(t *testing.T) {
			server, seen := w.serve(t, func(_ int, response http.ResponseWriter, _ *http.Request) {
				stream(response, w.start, w.text("Hel"), w.text("lo, "), w.text("wörld \U0001F30D\n"), w.end)
			})
			answer, listener, err := w.ask(t, Config{}, w.request(server))
			require.NoError(t, err)
			require.Equal(t, []string{"Hel", "lo, ", "wörld \U0001F30D\n"}, listener.pieces)
			require.Equal(t, StopEnd, answer.Stop)
			require.Equal(t, Usage{InputTokens: 11, OutputTokens: 7, CachedInputTokens: 5, Known: true}, answer.Usage)
			require.Equal(t, w.path, seen.path)
			require.True(t, adapterOf(t, w.kind, Config{}).NeedsHistory())
		})
	}
}

// TestPiecesArriveAtOnce fails when anything between the socket and the Stream waits for more.
func TestPiecesArriveAtOnce(t *testing.T) {
	for _, w := range wires() {
		t.Run(w.name, func(t *testing.T) {
			heardIt := make(chan struct{}, 3)
			server, _ := w.serve(t, func(_ int, response http.ResponseWriter, request *http.Request) {
				stream(response, w.start)
				for i := range 3 {
					stream(response, w.text(strconv.Itoa(i)))
					select {
					case <-heardIt:
					case <-request.Context().Done():
						return
					}
				}
				stream(response, w.end)
			})
			listener := &heard{onText: func() { heardIt <- struct{}{} }}
			answer, err := adapterOf(t, w.kind, Config{}).Generate(t.Context(), w.request(server), listener)
			require.NoError(t, err)
			listener.requireKept(t, answer)
			require.Equal(t, []string{"0", "1", "2"}, listener.pieces)
		})
	}
}

func TestStatusErrors(t *testing.T) {
	tests := []struct {
		name      string
		status    int
		header    [2]string
		body      string
		code      string
		requests  int // with two retries
		retryable bool
		says      string
	}{
		{name: "bad_request", status: 400, body: `{"error":{"message":"no such parameter","type":"invalid_request_error"}}`, code: CodeInvalidRequest, requests: 1, says: "no such parameter"},
		{name: "bad_key", status: 401, body: `{"error":{"message":"Incorrect API key provided: ` + testKey + `","type":"authentication_error"}}`, code: CodeAuthentication, requests: 1},
		{name: "quota", status: 429, body: `{"error":{"message":"You exceeded your quota","type":"insufficient_quota","code":"insufficient_quota"}}`, code: CodeRateLimited, requests: 1},
		{name: "payment", status: 402, body: `{"message":"pay first"}`, code: CodeProviderError, requests: 1, says: "pay first"},
		{name: "balance", status: 400, body: `{"error":{"message":"Your credit balance is too low"}}`, code: CodeRateLimited, requests: 1, says: "credit balance"},
		{name: "insufficient_balance", status: 402, body: `{"error":{"message":"Insufficient Balance"}}`, code: CodeRateLimited, requests: 1, says: "Insufficient Balance"},
		{name: "a_list", status: 400, body: `[{"error":{"message":"no such parameter"}}]`, code: CodeInvalidRequest, requests: 1, says: "no such parameter"},
		{name: "details", status: 422, body: `{"detail":[{"loc":["body","tools",0],"msg":"field required"}]}`, code: CodeInvalidRequest, requests: 1, says: "tools.0: field required"},
		{name: "errors", status: 400, body: `{"errors":[{"message":"no such parameter"}]}`, code: CodeInvalidRequest, requests: 1, says: "no such parameter"},
		{name: "msg", status: 400, body: `{"code":1210,"msg":"no such parameter"}`, code: CodeInvalidRequest, requests: 1, says: "no such parameter"},
		{name: "plain_text", status: 400, body: `no such parameter`, code: CodeInvalidRequest, requests: 1, says: "no such parameter"},
		{name: "page", status: 502, body: `<html><head><title>x</title></head><body><h1>Bad Gateway</h1></body></html>`, code: CodeProviderError, requests: 3, retryable: true, says: "Bad Gateway"},
		{name: "forbidden", status: 403, body: `<html>no</html>`, code: CodeAuthentication, requests: 1},
		{name: "no_model", status: 404, body: `{"error":{"message":"model-1 not found"}}`, code: CodeInvalidRequest, requests: 1, says: "model-1 not found"},
		{name: "timeout", status: 408, code: CodeProviderTimeout, requests: 3, retryable: true},
		{name: "conflict", status: 409, code: CodeProviderError, requests: 3, retryable: true},
		{name: "validation", status: 422, body: `{"detail":"field required"}`, code: CodeInvalidRequest, requests: 1, says: "field required"},
		{name: "rate", status: 429, header: [2]string{"Retry-After-Ms", "1"}, body: `{"error":"slow down"}`, code: CodeRateLimited, requests: 3, retryable: true, says: "slow down"},
		{name: "rate_too_long", status: 429, header: [2]string{"Retry-After", "3600"}, code: CodeRateLimited, requests: 1, retryable: true, says: "1h0m0s"},
		{name: "internal", status: 500, body: "oops", code: CodeProviderError, requests: 3, retryable: true, says: "status 500"},
		{name: "not_again", status: 500, header: [2]string{"X-Should-Retry", "false"}, code: CodeProviderError, requests: 1},
		{name: "gateway", status: 502, body: "<html>" + strings.Repeat("x", 100_000), code: CodeProviderError, requests: 3, retryable: true},
		{name: "unavailable", status: 503, code: CodeOverloaded, requests: 3, retryable: true},
		{name: "overloaded", status: 529, body: `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, code: CodeOverloaded, requests: 3, retryable: true, says: "Overloaded"},
		{name: "key_in_message", status: 400, body: `{"error":{"message":"see https://userpart:passpart@host/x?key=querypart with Bearer ` + testKey + ` or ` + testKey + `"}}`, code: CodeInvalidRequest, requests: 1, says: "https://host/x"},
		{name: "json_instead_of_stream", status: 200, body: `{"error":{"message":"streaming is off"}}`, code: CodeProviderError, requests: 1, says: "streaming is off"},
		{name: "redirect", status: 307, header: [2]string{"Location", "http://127.0.0.1:1/elsewhere"}, code: CodeProviderError, requests: 1, says: "redirect"},
	}
	for _, w := range wires() {
		t.Run(w.name, func(t *testing.T) {
			for _, test := range tests {
				t.Run(test.name, func(t *testing.T) {
					server, seen := w.serve(t, func(_ int, response http.ResponseWriter, _ *http.Request) {
						if test.header[0] != "" {
							response.Header().Set(test.header[0], test.header[1])
						}
						response.Header().Set("Content-Type", "application/json")
						response.WriteHeader(test.status)
						_, _ = io.WriteString(response, test.body)
					})
					answer, _, err := w.ask(t, Config{}, w.request(server))
					failure := requireError(t, err, test.code)
					require.Equal(t, test.requests, int(seen.count.Load()))
					require.Equal(t, test.retryable, failure.Retryable)
					require.Contains(t, failure.Message, test.says)
					require.LessOrEqual(t, len(failure.Message), maxShownText+100)
					require.Empty(t, answer.Text)
				})
			}
		})
	}
}

func TestRetriesThenSuccess(t *testing.T) {
	for _, w := range wires() {
		t.Run(w.name, func(t *testing.T) {
			var log bytes.Buffer
			registry := prometheus.NewPedanticRegistry()
			server, seen := w.serve(t, func(n int, response http.ResponseWriter, _ *http.Request) {
				switch n {
				case 0:
					response.Header().Set("Retry-After", "0")
					response.WriteHeader(http.StatusTooManyRequests)
					_, _ = io.WriteString(response, `{"error":{"message":"key `+testKey+`"}}`)
				case 1:
					panic(http.ErrAbortHandler) // cut before anything
				default:
					stream(response, w.answer("at last"))
				}
			})
			config := Config{Logger: slog.New(slog.NewJSONHandler(&log, nil)), Registerer: registry}
			answer, _, err := w.ask(t, config, w.request(server))
			require.NoError(t, err)
			require.Equal(t, "at last", answer.Text)
			require.EqualValues(t, 3, seen.count.Load())
			require.Equal(t, 2, strings.Count(log.String(), `"msg":"model call is tried again"`), log.String())
			require.NotContains(t, log.String(), testKey)
			require.Equal(t, map[string]float64{
				"parley_model_calls_total{ok," + w.name + "}": 1,
				"parley_model_retries_total{" + w.name + "}":  2,
				"parley_model_running_calls{" + w.name + "}":  0,
			}, counted(t, registry))
		})
	}
}

// counted are the counters and gauges of a registry by name and label values.
func counted(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	values := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if metric.GetHistogram() != nil {
				require.EqualValues(t, 1, metric.GetHistogram().GetSampleCount(), family.GetName())
				continue
			}
			var labels []string
			for _, label := range metric.GetLabel() {
				labels = append(labels, label.GetValue())
			}
			values[family.GetName()+"{"+strings.Join(labels, ",")+"}"] = metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
		}
	}
	return values
}

func TestFailuresInMidStream(t *testing.T) {
	abort := func(_ http.ResponseWriter) { panic(http.ErrAbortHandler) }
	tests := []struct {
		name   string
		write  func(w wire, response http.ResponseWriter)
		config Config
		model  func(model *agentpb.Model)
		code   string
		says   string
	}{
		{name: "error_event", code: CodeOverloaded, says: "busy, try later", write: func(w wire, response http.ResponseWriter) {
			stream(response, w.start, w.text("some"), w.trouble, w.text("never"), w.end)
		}},
		{name: "connection_cut", code: CodeCut, write: func(w wire, response http.ResponseWriter) {
			stream(response, w.start, w.text("some"))
			abort(response)
		}},
		{name: "cut_in_a_line", code: CodeCut, write: func(w wire, response http.ResponseWriter) {
			stream(response, w.start, w.text("some"), "data: {\"id\":")
			abort(response)
		}},
		{name: "body_ends_early", code: CodeCut, write: func(w wire, response http.ResponseWriter) { stream(response, w.start, w.text("some")) }},
		{name: "malformed_chunk", code: CodeProviderError, says: "understood", write: func(w wire, response http.ResponseWriter) {
			stream(response, w.start, w.text("some"), w.garbled, w.end)
		}},
		{name: "huge_line", code: CodeProviderError, says: "line", config: Config{MaxLineBytes: 4 << 10}, write: func(w wire, response http.ResponseWriter) {
			stream(response, w.start, w.text("some"), w.text(strings.Repeat("x", 8<<10)), w.end)
		}},
		{name: "endless_line", code: CodeProviderError, says: "line", write: func(w wire, response http.ResponseWriter) {
			stream(response, w.start, w.text("some"), "data: ")
			for range 64 {
				if _, err := io.WriteString(response, strings.Repeat("x", 64<<10)); err != nil {
					return
				}
			}
		}},
		{name: "huge_stream", code: CodeProviderError, says: "response is longer", config: Config{MaxStreamBytes: 8 << 10}, write: func(w wire, response http.ResponseWriter) {
			stream(response, w.start, w.text("some"), strings.Repeat(": ping\n\n", 4<<10), w.end)
		}},
		{name: "huge_answer", code: CodeProviderError, says: "answer is longer", config: Config{MaxAnswerBytes: 5}, write: func(w wire, response http.ResponseWriter) {
			stream(response, w.start, w.text("some"), w.text("more"), w.end)
		}},
		{
			name: "stall", code: CodeProviderTimeout, says: "stalled", model: func(model *agentpb.Model) { model.IdleTimeoutMs = 30 },
			write: func(w wire, response http.ResponseWriter) { stream(response, w.start, w.text("some"), "stall") },
		},
		{
			name: "too_long_in_all", code: CodeProviderTimeout, says: "whole answer", model: func(model *agentpb.Model) { model.TotalTimeoutMs = 60 },
			write: func(w wire, response http.ResponseWriter) { stream(response, w.start, w.text("some"), "stall") },
		},
	}
	for _, w := range wires() {
		t.Run(w.name, func(t *testing.T) {
			for _, test := range tests {
				t.Run(test.name, func(t *testing.T) {
					server, seen := w.serve(t, func(_ int, response http.ResponseWriter, request *http.Request) {
						test.write(w, response)
						if strings.HasPrefix(test.name, "stall") || strings.HasPrefix(test.name, "too_long") {
							<-request.Context().Done()
						}
					})
					request := w.request(server)
					if test.model != nil {
						test.model(request.Agent.Model)
					}
					answer, _, err := w.ask(t, test.config, request)
					failure := requireError(t, err, test.code)
					require.Contains(t, failure.Message, test.says)
					require.False(t, failure.Retryable, "something was streamed")
					require.EqualValues(t, 1, seen.count.Load(), "never again after the first piece")
					require.Equal(t, "some", answer.Text)
					require.False(t, answer.Usage.Known)
				})
			}
		})
	}
}

func TestBrokenToolArguments(t *testing.T) {
	w := chatWire()
	server, _ := w.serve(t, func(_ int, response http.ResponseWriter, _ *http.Request) {
		stream(response, chatChunk(`{"tool_calls":[{"index":0,"id":"c1","function":{"name":"a","arguments":"[1]"}}]}`, `"tool_calls"`), chatUsage, chatDone)
	})
	answer, _, err := w.ask(t, Config{}, w.request(server))
	require.NoError(t, err, "the model is told what is wrong with it")
	require.Equal(t, []ToolCall{{ID: "c1", Name: "a", Arguments: "[1]"}}, answer.ToolCalls)
	require.Equal(t, "{}", said("[1]"), "and is never shown its own again")
}

func TestToolCallWithoutName(t *testing.T) {
	w := chatWire()
	server, _ := w.serve(t, func(_ int, response http.ResponseWriter, _ *http.Request) {
		stream(response, chatChunk(`{"tool_calls":[{"index":0,"id":"c1","function":{"arguments":"{}"}}]}`, `"tool_calls"`), chatUsage, chatDone)
	})
	answer, _, err := w.ask(t, Config{}, w.request(server))
	failure := requireError(t, err, CodeProviderError)
	require.Contains(t, failure.Message, "without a name")
	require.True(t, answer.Usage.Known, "the call has its price all the same")
}

func TestNoFirstToken(t *testing.T) {
	for _, w := range wires() {
		t.Run(w.name, func(t *testing.T) {
			for name, events := range map[string][]string{"no_headers": nil, "headers_only": {""}, "role_only": {w.start}} {
				t.Run(name, func(t *testing.T) {
					server, seen := w.serve(t, func(_ int, response http.ResponseWriter, request *http.Request) {
						if events != nil {
							stream(response, events...)
						}
						<-request.Context().Done()
					})
					request := w.request(server)
					request.Agent.Model.FirstTokenTimeoutMs = 100
					_, _, err := w.ask(t, Config{}, request)
					failure := requireError(t, err, CodeProviderTimeout)
					require.Contains(t, failure.Message, "first token")
					require.True(t, failure.Retryable)
					require.LessOrEqual(t, seen.count.Load(), int32(1), "it is not asked again; on a busy machine the time ends before it is asked")
				})
			}
		})
	}
}

func TestTailAfterTheEndIsOptional(t *testing.T) {
	t.Parallel()
	w := chatWire()
	t.Run("cut", func(t *testing.T) {
		server, _ := w.serve(t, func(_ int, response http.ResponseWriter, _ *http.Request) {
			stream(response, w.text("whole"), chatChunk(`{}`, `"stop"`))
			panic(http.ErrAbortHandler)
		})
		answer, _, err := w.ask(t, Config{}, w.request(server))
		require.NoError(t, err)
		require.Equal(t, "whole", answer.Text)
		require.False(t, answer.Usage.Known)
	})
	t.Run("stall", func(t *testing.T) {
		server, _ := w.serve(t, func(_ int, response http.ResponseWriter, request *http.Request) {
			stream(response, w.text("whole"), chatChunk(`{}`, `"stop"`))
			<-request.Context().Done()
		})
		request := w.request(server)
		request.Agent.Model.IdleTimeoutMs = 30
		answer, _, err := w.ask(t, Config{}, request)
		require.NoError(t, err)
		require.Equal(t, "whole", answer.Text)
	})
	t.Run("stall_with_a_long_idle_limit", func(t *testing.T) {
		t.Parallel()
		server, _ := w.serve(t, func(_ int, response http.ResponseWriter, request *http.Request) {
			stream(response, w.text("whole"), chatChunk(`{}`, `"stop"`))
			<-request.Context().Done()
		})
		request := w.request(server)
		request.Agent.Model.IdleTimeoutMs = time.Hour.Milliseconds()
		start := time.Now()
		answer, _, err := w.ask(t, Config{}, request)
		require.NoError(t, err)
		require.Equal(t, "whole", answer.Text)
		require.Less(t, time.Since(start), 30*time.Second)
	})
}

func TestTextIsValidUTF8(t *testing.T) {
	for _, w := range wires() {
		t.Run(w.name, func(t *testing.T) {
			server, _ := w.serve(t, func(_ int, response http.ResponseWriter, _ *http.Request) {
				stream(response, w.start, strings.ReplaceAll(w.text("aXb"), "X", "\xff"), w.end)
			})
			answer, _, err := w.ask(t, Config{}, w.request(server))
			require.NoError(t, err)
			require.Equal(t, "a\uFFFDb", answer.Text)
		})
	}
}

func TestCancellation(t *testing.T) {
	reason := errors.New("the user pressed stop")
	for _, w := range wires() {
		t.Run(w.name, func(t *testing.T) {
			t.Run("in_mid_stream", func(t *testing.T) {
				left := make(chan struct{})
				server, _ := w.serve(t, func(_ int, response http.ResponseWriter, request *http.Request) {
					stream(response, w.start, w.text("some"))
					<-request.Context().Done()
					close(left)
				})
				ctx, cancel := context.WithCancelCause(t.Context())
				listener := &heard{onText: func() { cancel(reason) }}
				answer, err := adapterOf(t, w.kind, Config{}).Generate(ctx, w.request(server), listener)
				require.ErrorIs(t, err, reason)
				listener.requireKept(t, answer)
				require.Equal(t, "some", answer.Text)
				<-left // the provider is not left writing
			})
			t.Run("between_attempts", func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				server, _ := w.serve(t, func(_ int, response http.ResponseWriter, _ *http.Request) {
					response.WriteHeader(http.StatusServiceUnavailable)
					time.AfterFunc(10*time.Millisecond, func() { cancel(reason) })
				})
				_, _, err := w.askContext(t, ctx, Config{RetryBase: time.Hour, RetryMax: time.Hour, TotalTimeout: 9 * time.Hour}, w.request(server))
				require.ErrorIs(t, err, reason)
			})
			t.Run("before", func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				cancel(reason)
				server, seen := w.serve(t, func(int, http.ResponseWriter, *http.Request) {})
				_, _, err := w.askContext(t, ctx, Config{}, w.request(server))
				require.ErrorIs(t, err, reason)
				require.Zero(t, seen.count.Load())
			})
		})
	}
}

func TestUnreachable(t *testing.T) {
	for _, w := range wires() {
		t.Run(w.name, func(t *testing.T) {
			request := w.request(&httptest.Server{URL: "http://userpart:passpart@127.0.0.1:1"})
			request.Agent.Model.BaseUrl += "?token=querypart"
			_, _, err := w.ask(t, Config{}, request)
			failure := requireError(t, err, CodeProviderError)
			require.Contains(t, failure.Message, "could not be reached")
			require.True(t, failure.Retryable)
		})
	}
}

func TestCompressedStreamIsRefused(t *testing.T) {
	for _, w := range wires() {
		t.Run(w.name, func(t *testing.T) {
			server, seen := w.serve(t, func(_ int, response http.ResponseWriter, _ *http.Request) {
				response.Header().Set("Content-Type", "text/event-stream")
				response.Header().Set("Content-Encoding", "gzip")
				packer := gzip.NewWriter(response)
				_, _ = io.WriteString(packer, w.answer("hidden"))
				_ = packer.Close()
			})
			_, _, err := w.ask(t, Config{}, w.request(server))
			failure := requireError(t, err, CodeProviderError)
			require.Contains(t, failure.Message, "compressed")
			require.NotContains(t, seen.header.Get("Accept-Encoding"), "gzip")
		})
	}
}

// TestEnvironmentIsNotRead sets what the services' own clients and the HTTP transport take from the environment.
func TestEnvironmentIsNotRead(t *testing.T) {
	for _, name := range []string{
		"OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN",
		"ANTHROPIC_PROFILE", "ANTHROPIC_WEBHOOK_SIGNING_KEY", "OPENAI_WEBHOOK_SECRET",
	} {
		t.Setenv(name, "from-the-environment")
	}
	t.Setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/from-the-environment")
	t.Setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:1/from-the-environment")
	t.Setenv("OPENAI_CUSTOM_HEADERS", "X-Extra: from-the-environment")
	t.Setenv("ANTHROPIC_CUSTOM_HEADERS", "X-Extra: from-the-environment")
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	for _, w := range wires() {
		t.Run(w.name, func(t *testing.T) {
			server, seen := w.serve(t, func(_ int, response http.ResponseWriter, _ *http.Request) { stream(response, w.answer("ok")) })
			request := w.request(server)
			request.Agent.Model.ApiKey = ""
			request.Agent.Model.BaseUrl += "?api-version=7"
			_, _, err := w.ask(t, Config{MaxRetries: -1}, request)
			require.NoError(t, err)
			for name, values := range seen.header {
				require.NotContains(t, strings.Join(values, " "), "from-the-environment", name)
			}
			require.Empty(t, seen.header.Get("Authorization"))
			require.Empty(t, seen.header.Get("X-Api-Key"))
			require.Equal(t, "api-version=7", seen.query)
		})
	}
}

func TestProxy(t *testing.T) {
	for _, w := range wires() {
		t.Run(w.name, func(t *testing.T) {
			server, seen := w.serve(t, func(_ int, response http.ResponseWriter, _ *http.Request) { stream(response, w.answer("ok")) })
			through, err := url.Parse(server.URL)
			require.NoError(t, err)
			request := w.request(&httptest.Server{URL: "http://provider.invalid"})
			_, _, err = w.ask(t, Config{Proxy: through, MaxRetries: -1}, request)
			require.NoError(t, err)
			require.Equal(t, w.path, seen.path)
		})
	}
}

// TestConnectionsServeAgain: the end of a body is waited for, but no longer than drainWait, which a busy machine may take.
func TestConnectionsServeAgain(t *testing.T) {
	for _, w := range wires() {
		t.Run(w.name, func(t *testing.T) {
			var opened atomic.Int32
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(response http.ResponseWriter, _ *http.Request) {
				stream(response, w.answer("ok"))
				<-time.After(5 * time.Millisecond) // the end of the body comes by itself, after the end of the answer
			}))
			server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
				if state == http.StateNew {
					opened.Add(1)
				}
			}
			server.Start()
			t.Cleanup(server.Close)
			p := adapterOf(t, w.kind, Config{})
			for range 20 {
				before := opened.Load()
				for range 5 {
					_, err := p.Generate(t.Context(), w.request(server), &heard{})
					require.NoError(t, err)
				}
				if opened.Load() <= max(before, 1) {
					return
				}
			}
			require.Fail(t, "no five calls in a row shared a connection")
		})
	}
}

func TestRefusedBeforeAnyRequest(t *testing.T) {
	tests := []struct {
		name   string
		change func(request *Request)
		code   string
	}{
		{"no_name", func(r *Request) { r.Agent.Model.Name = "" }, CodeInvalidRequest},
		{"no_agent", func(r *Request) { r.Agent = nil }, CodeInvalidRequest},
		{"no_key_for_the_own_service", func(r *Request) { r.Agent.Model.BaseUrl, r.Agent.Model.ApiKey = "", "" }, CodeAuthentication},
		{"key_with_a_line_break", func(r *Request) { r.Agent.Model.ApiKey = testKey + "\r\nX-Evil: 1" }, CodeAuthentication},
		{"base_url_is_none", func(r *Request) { r.Agent.Model.BaseUrl = "http://userpart:passpart@%zz" }, CodeInvalidRequest},
		{"base_url_of_another_scheme", func(r *Request) { r.Agent.Model.BaseUrl = "file:///etc/passwd" }, CodeInvalidRequest},
		{"no_messages", func(r *Request) { r.Messages = nil }, CodeInvalidRequest},
		{"blank_messages", func(r *Request) { r.Messages = []Message{{Role: User, Content: "  "}} }, CodeInvalidRequest},
		{"schema_is_no_object", func(r *Request) { r.Tools = []Tool{{Name: "a", Schema: []byte(`[1]`)}} }, CodeInvalidRequest},
		{"schema_is_null", func(r *Request) { r.Tools = []Tool{{Name: "a", Schema: []byte(`null`)}} }, CodeInvalidRequest},
	}
	for _, w := range wires() {
		t.Run(w.name, func(t *testing.T) {
			for _, test := range tests {
				t.Run(test.name, func(t *testing.T) {
					server, seen := w.serve(t, func(int, http.ResponseWriter, *http.Request) {})
					request := w.request(server)
					test.change(request)
					_, _, err := w.ask(t, Config{}, request)
					require.False(t, requireError(t, err, test.code).Retryable)
					require.Zero(t, seen.count.Load())
				})
			}
		})
	}
}

// canned answers every request with the same body, without a network.
type canned struct{ body []byte }

func (c canned) RoundTrip(request *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: request,
		Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(bytes.NewReader(c.body)),
	}, nil
}

// FuzzStream feeds a provider's bytes to each adapter: whatever comes, the call ends, holds its promises and gives nothing away.
func FuzzStream(f *testing.F) {
	for i, w := range wires() {
		f.Add(uint8(i), []byte(w.answer("Hello", " world")))
		f.Add(uint8(i), []byte(w.start+w.text("some")+w.trouble))
		f.Add(uint8(i), []byte(w.start+w.garbled+w.end))
	}
	f.Add(uint8(0), []byte(chatChunk(`{"tool_calls":[{"index":0,"id":"c1","function":{"name":"a","arguments":"{}"}}]}`, `"tool_calls"`)))
	f.Add(uint8(2), []byte(anthropicEvent("message_start", anthropicStart)+strings.Join(anthropicBlock(0, `{"type":"tool_use","id":"c1","name":"a","input":{}}`), "")+anthropicEnd("tool_use")))
	providers := New(Config{MaxRetries: -1, MaxLineBytes: 64 << 10, MaxStreamBytes: 256 << 10, MaxAnswerBytes: 8 << 10})
	all := wires()
	f.Fuzz(func(t *testing.T, which uint8, body []byte) {
		w := all[int(which)%len(all)]
		adapter, ok := providers[w.kind].(*network)
		require.True(t, ok)
		under := *adapter
		under.client = &http.Client{Transport: canned{body: body}}
		listener := &heard{}
		answer, err := under.Generate(t.Context(), w.request(&httptest.Server{URL: "http://provider.invalid"}), listener)
		listener.requireKept(t, answer)
		require.LessOrEqual(t, len(answer.Text), 8<<10)
		require.True(t, utf8.ValidString(answer.Text))
		for _, call := range answer.ToolCalls {
			require.True(t, isObject(call.Arguments))
			require.NotEmpty(t, call.ID)
			require.NotEmpty(t, call.Name)
		}
		if err != nil {
			failure, known := errors.AsType[*Error](err)
			require.True(t, known)
			requireNoSecret(t, failure)
			return
		}
		require.Contains(t, []Stop{StopEnd, StopTools, StopLength, StopFilter}, answer.Stop)
	})
}

// TestHeadersOfTheModel go out beside the key, and their values are as secret.
func TestHeadersOfTheModel(t *testing.T) {
	const value = "header-secret-0123"
	for _, w := range wires() {
		t.Run(w.name, func(t *testing.T) {
			server, seen := w.serve(t, func(_ int, response http.ResponseWriter, request *http.Request) {
				http.Error(response, `{"error":{"message":"what is `+request.Header.Get("X-Team")+`?"}}`, http.StatusBadRequest)
			})
			request := w.request(server)
			request.Agent.Model.Headers = map[string]string{"X-Team": value}
			_, _, err := w.ask(t, Config{MaxRetries: -1}, request)
			require.ErrorContains(t, err, "what is "+provider.Hidden)
			require.NotContains(t, err.Error(), value)
			require.Equal(t, value, seen.header.Get("X-Team"))
		})
	}
}
