package model

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"parley/proto/agentpb"
)

// timed is a Stream that keeps when it heard each piece.
type timed struct {
	heard
	start time.Time
	at    []time.Duration
}

func (l *timed) Text(piece string) {
	l.at = append(l.at, time.Since(l.start))
	l.heard.Text(piece)
}

// play runs a request on the scripted provider and checks what always holds.
func play(t *testing.T, ctx context.Context, config Config, request *Request) (*Answer, *timed, error) {
	t.Helper()
	if config.Jitter == nil {
		config.Jitter = func() float64 { return 0 }
	}
	listener := &timed{start: time.Now()}
	answer, err := New(config)[agentpb.Provider_SCRIPTED].Generate(ctx, request, listener)
	listener.requireKept(t, answer)
	return answer, listener, err
}

// every is n times, interval apart, from first on.
func every(first, interval time.Duration, n int) []time.Duration {
	times := make([]time.Duration, n)
	for i := range times {
		times[i] = first + time.Duration(i)*interval
	}
	return times
}

func TestScriptedSchedule(t *testing.T) {
	tests := []struct {
		name   string
		script *agentpb.Script
		text   string // "" = w1 w2 ...
		at     []time.Duration
	}{
		{name: "bench_echo", script: &agentpb.Script{Tokens: 1}, at: every(0, 0, 1)},
		{name: "bench_stream", script: &agentpb.Script{Tokens: 50, TokenIntervalMs: 20}, at: every(0, 20*time.Millisecond, 50)},
		{name: "bench_slow", script: &agentpb.Script{Tokens: 120, TokenIntervalMs: 1000}, at: every(0, time.Second, 120)},
		{name: "late_start", script: &agentpb.Script{Tokens: 3, FirstTokenDelayMs: 700, TokenIntervalMs: 5}, at: every(700*time.Millisecond, 5*time.Millisecond, 3)},
		{name: "own_text", script: &agentpb.Script{Text: " Hi\n\nthere, you  ", TokenIntervalMs: 10}, text: " Hi\n\nthere, you  ", at: every(0, 10*time.Millisecond, 3)},
		{
			name: "delay_of_a_step", script: &agentpb.Script{FirstTokenDelayMs: 100, Steps: []*agentpb.Script_Step{{Text: "one two", DelayMs: 50}}},
			text: "one two", at: every(150*time.Millisecond, 0, 2),
		},
		{name: "negative_times", script: &agentpb.Script{Tokens: 2, FirstTokenDelayMs: -5, TokenIntervalMs: -5}, at: every(0, 0, 2)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				request := scriptedRequest(test.script)
				answer, listener, err := play(t, t.Context(), Config{}, request)
				require.NoError(t, err)
				want := test.text
				if want == "" {
					want = numberedWords(len(test.at))
				}
				require.Equal(t, want, answer.Text)
				require.Equal(t, test.at, listener.at)
				require.Equal(t, StopEnd, answer.Stop)
				require.Equal(t, Usage{InputTokens: 1, OutputTokens: int64(len(test.at)), Known: true}, answer.Usage)
			})
		})
	}
}

func TestNumberedWords(t *testing.T) {
	require.Equal(t, "w1 w2 w3 w4 w5 w6 w7 w8 w9 w10 w11", numberedWords(11))
	for i, word := range strings.Fields(numberedWords(1000)) {
		require.Equal(t, fmt.Sprintf("w%d", i+1), word)
	}
}

// TestScriptedCatchesUp blocks the listener for a while: the words due meanwhile follow at once, each by itself, and the
// schedule is the old one from there on.
func TestScriptedCatchesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener := &timed{start: time.Now()}
		listener.onText = func() {
			if len(listener.pieces) == 3 {
				<-time.After(95 * time.Millisecond)
			}
		}
		request := scriptedRequest(&agentpb.Script{Tokens: 10, TokenIntervalMs: 20})
		_, err := New(Config{})[agentpb.Provider_SCRIPTED].Generate(t.Context(), request, listener)
		require.NoError(t, err)
		ms := time.Millisecond
		require.Equal(t, []time.Duration{0, 20 * ms, 40 * ms, 135 * ms, 135 * ms, 135 * ms, 135 * ms, 140 * ms, 160 * ms, 180 * ms}, listener.at)
	})
}

func TestScriptedWithoutScript(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		request := scriptedRequest(nil)
		answer, listener, err := play(t, t.Context(), Config{}, request)
		require.NoError(t, err)
		require.Contains(t, answer.Text, "not a language model")
		require.Contains(t, answer.Text, `"Tester"`)
		require.Equal(t, every(0, 40*time.Millisecond, len(listener.pieces)), listener.at, "25 words a second")

		again, _, err := play(t, t.Context(), Config{WordsPerSecond: 1000}, request)
		require.NoError(t, err)
		require.Equal(t, answer, again)
		require.False(t, New(Config{})[agentpb.Provider_SCRIPTED].NeedsHistory())
	})
}

func TestScriptedSteps(t *testing.T) {
	script := &agentpb.Script{
		Tokens: 4,
		Steps: []*agentpb.Script_Step{
			{Text: "Let me look.", ToolCalls: []*agentpb.Script_ToolCall{{Name: "weather", Arguments: `{"city":"Bern"}`}, {Name: "now"}}},
			{ToolCalls: []*agentpb.Script_ToolCall{{Name: "now"}}},
			{},
		},
		Usage: &agentpb.Script_Usage{InputTokens: 100, OutputTokens: 20, CachedInputTokens: 60},
	}
	tests := []struct {
		step  int
		text  string
		calls []ToolCall
		stop  Stop
	}{
		{0, "Let me look.", []ToolCall{{ID: "call_run1_0_0", Name: "weather", Arguments: `{"city":"Bern"}`}, {ID: "call_run1_0_1", Name: "now", Arguments: "{}"}}, StopTools},
		{1, "", []ToolCall{{ID: "call_run1_1_0", Name: "now", Arguments: "{}"}}, StopTools},
		{2, "w1 w2 w3 w4", nil, StopEnd},
		{7, "w1 w2 w3 w4", nil, StopEnd},
		{-1, "Let me look.", []ToolCall{{ID: "call_run1_-1_0", Name: "weather", Arguments: `{"city":"Bern"}`}, {ID: "call_run1_-1_1", Name: "now", Arguments: "{}"}}, StopTools},
	}
	for _, test := range tests {
		request := scriptedRequest(script)
		request.Step = test.step
		answer, _, err := play(t, t.Context(), Config{}, request)
		require.NoError(t, err)
		require.Equal(t, test.text, answer.Text)
		require.Equal(t, test.calls, answer.ToolCalls)
		require.Equal(t, test.stop, answer.Stop)
		require.Equal(t, Usage{InputTokens: 100, OutputTokens: 20, CachedInputTokens: 60, Known: true}, answer.Usage)
	}
}

func TestScriptedOutputCap(t *testing.T) {
	request := scriptedRequest(&agentpb.Script{Tokens: 10})
	request.Agent.Model.MaxOutputTokens = 6
	answer, _, err := play(t, t.Context(), Config{}, request)
	require.NoError(t, err)
	require.Equal(t, "w1 w2 w3 w4 w5 w6", answer.Text)
	require.Equal(t, StopLength, answer.Stop)

	request.MaxOutputTokens = 2
	answer, _, err = play(t, t.Context(), Config{}, request)
	require.NoError(t, err)
	require.Equal(t, "w1 w2", answer.Text)
	require.EqualValues(t, 2, answer.Usage.OutputTokens)
}

func TestScriptedFailures(t *testing.T) {
	always := func(code string, after int32) *agentpb.Script {
		return &agentpb.Script{Steps: []*agentpb.Script_Step{{ErrorCode: code, ErrorMessage: "as written", ErrorAfterTokens: after}}}
	}
	tests := []struct {
		name      string
		script    *agentpb.Script
		code      string
		text      string
		retryable bool
		took      time.Duration // three attempts pause 500 ms and 1 s
	}{
		{name: "rate_limited", script: always("rate_limited", 0), code: CodeRateLimited, retryable: true, took: 1500 * time.Millisecond},
		{name: "overloaded", script: always("overloaded", 0), code: CodeOverloaded, retryable: true, took: 1500 * time.Millisecond},
		{name: "server_error", script: always("server_error", 0), code: CodeProviderError, retryable: true, took: 1500 * time.Millisecond},
		{name: "cut", script: always("cut", 0), code: CodeCut, retryable: true, took: 1500 * time.Millisecond},
		{name: "invalid_request", script: always("invalid_request", 0), code: CodeInvalidRequest},
		{name: "authentication", script: always("authentication", 0), code: CodeAuthentication},
		{name: "provider_timeout", script: always("provider_timeout", 0), code: CodeProviderTimeout, retryable: true},
		{name: "anything_else", script: always("on_fire", 0), code: CodeProviderError, retryable: true, took: 1500 * time.Millisecond},
		{name: "cut_in_mid_stream", script: always("cut", 3), code: CodeCut, text: "w1 w2 w3"},
		{
			name: "after_more_words_than_there_are", code: CodeOverloaded, text: "one two",
			script: &agentpb.Script{Steps: []*agentpb.Script_Step{{Text: "one two", ErrorCode: "overloaded", ErrorAfterTokens: 9}}},
		},
		{name: "too_many_tokens", script: &agentpb.Script{Tokens: maxScriptTokens + 1}, code: CodeInvalidRequest},
		{
			name: "bad_arguments", code: CodeInvalidRequest,
			script: &agentpb.Script{Steps: []*agentpb.Script_Step{{ToolCalls: []*agentpb.Script_ToolCall{{Name: "a", Arguments: "[]"}}}}},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				answer, _, err := play(t, t.Context(), Config{}, scriptedRequest(test.script))
				failure := requireError(t, err, test.code)
				require.Equal(t, test.retryable, failure.Retryable)
				require.Equal(t, test.text, answer.Text)
				require.Equal(t, test.took, time.Since(start))
			})
		})
	}
}

func TestRetrySchedule(t *testing.T) {
	failing := func(times int32) *Request {
		return scriptedRequest(&agentpb.Script{Steps: []*agentpb.Script_Step{{Text: "fine", ErrorCode: "overloaded", FailTimes: times}}})
	}
	tests := []struct {
		name    string
		config  Config
		retries int32
		fails   int32
		ok      bool
		took    time.Duration
	}{
		{name: "none_needed", fails: 0, retries: -1, took: 0}, // fail_times 0 fails always
		{name: "default_is_two", fails: 2, ok: true, took: 1500 * time.Millisecond},
		{name: "two_are_not_enough", fails: 3, took: 1500 * time.Millisecond},
		{name: "agent_wants_more", fails: 3, retries: 5, ok: true, took: 3500 * time.Millisecond},
		{name: "agent_wants_none", fails: 1, retries: -1},
		{name: "pauses_stop_growing", fails: 7, retries: 9, ok: true, took: (500 + 1000 + 2000 + 4000 + 8000 + 8000 + 8000) * time.Millisecond},
		{name: "no_more_than_ten", fails: 20, retries: 100, took: 7500*time.Millisecond + 6*8*time.Second},
		{name: "jitter_takes_off_up_to_half", fails: 2, ok: true, config: Config{Jitter: func() float64 { return 0.5 }}, took: 1125 * time.Millisecond},
		{name: "no_pause_past_the_end", fails: 2, config: Config{TotalTimeout: time.Second}, took: 500 * time.Millisecond},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				request := failing(test.fails)
				request.Agent.Model.MaxRetries = test.retries
				start := time.Now()
				answer, _, err := play(t, t.Context(), test.config, request)
				require.Equal(t, test.took, time.Since(start))
				if test.ok {
					require.NoError(t, err)
					require.Equal(t, "fine", answer.Text)
					return
				}
				require.NotNil(t, requireError(t, err, CodeOverloaded))
			})
		})
	}
}

func TestScriptedTimeLimits(t *testing.T) {
	tests := []struct {
		name   string
		script *agentpb.Script
		model  *agentpb.Model
		text   string
		took   time.Duration
	}{
		{"first_token", &agentpb.Script{Tokens: 1, FirstTokenDelayMs: 5000}, &agentpb.Model{FirstTokenTimeoutMs: 2000}, "", 2 * time.Second},
		{"first_token_by_default", &agentpb.Script{Tokens: 1, FirstTokenDelayMs: 90_000}, &agentpb.Model{}, "", time.Minute},
		{"idle", &agentpb.Script{Tokens: 5, TokenIntervalMs: 3000}, &agentpb.Model{IdleTimeoutMs: 1000}, "w1", time.Second},
		{"total", &agentpb.Script{Tokens: 50, TokenIntervalMs: 1000}, &agentpb.Model{TotalTimeoutMs: 2500}, "w1 w2 w3", 2500 * time.Millisecond},
		{"no_overflow", &agentpb.Script{Tokens: 5, TokenIntervalMs: 1 << 62}, &agentpb.Model{IdleTimeoutMs: 1 << 62}, "w1", 10 * time.Minute},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				test.model.Script = test.script
				request := scriptedRequest(nil)
				request.Agent.Model = test.model
				start := time.Now()
				answer, _, err := play(t, t.Context(), Config{}, request)
				failure := requireError(t, err, CodeProviderTimeout)
				require.Equal(t, test.text == "", failure.Retryable)
				require.Equal(t, test.text, answer.Text)
				require.Equal(t, test.took, time.Since(start))
			})
		})
	}
}

func TestScriptedCancellation(t *testing.T) {
	reason := errors.New("the user pressed stop")
	tests := []struct {
		name   string
		script *agentpb.Script
		after  time.Duration
		text   string
	}{
		{"between_slow_words", &agentpb.Script{Tokens: 120, TokenIntervalMs: 1000}, 1500 * time.Millisecond, "w1 w2"},
		{"between_fast_words", &agentpb.Script{Tokens: 50, TokenIntervalMs: 20}, 30 * time.Millisecond, "w1 w2"},
		{"before_the_first", &agentpb.Script{Tokens: 1, FirstTokenDelayMs: 5000}, time.Second, ""},
		{"in_a_pause", &agentpb.Script{Steps: []*agentpb.Script_Step{{ErrorCode: "overloaded"}}}, 100 * time.Millisecond, ""},
		{"before_all", &agentpb.Script{Tokens: 10}, 0, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				if test.after == 0 {
					cancel(reason)
				}
				timer := time.AfterFunc(test.after, func() { cancel(reason) })
				defer timer.Stop()
				start := time.Now()
				answer, _, err := play(t, ctx, Config{}, scriptedRequest(test.script))
				require.Equal(t, reason, err)
				require.Equal(t, test.text, answer.Text)
				require.Equal(t, test.after, time.Since(start))
			})
		})
	}
}

// TestScriptedStreamsDoNotDisturbEachOther runs many streams with different starts at once.
func TestScriptedStreamsDoNotDisturbEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Config{})[agentpb.Provider_SCRIPTED]
		done := make(chan []time.Duration)
		for i := range 200 {
			go func() {
				<-time.After(time.Duration(i) * time.Millisecond)
				listener := &timed{start: time.Now()}
				_, _ = p.Generate(t.Context(), scriptedRequest(&agentpb.Script{Tokens: 50, TokenIntervalMs: 20}), listener)
				done <- listener.at
			}()
		}
		for range 200 {
			require.Equal(t, every(0, 20*time.Millisecond, 50), <-done)
		}
	})
}

func TestPiecesAreTheText(t *testing.T) {
	for _, text := range []string{"", " ", "a", " a", "a ", "  a \n b\t\tc  ", "ä ö", "\n", "a\r\n\r\nb"} {
		var pieces []string
		for rest := text; rest != ""; {
			end := nextPiece(rest)
			require.Positive(t, end)
			pieces = append(pieces, rest[:end])
			rest = rest[end:]
		}
		require.Equal(t, text, strings.Join(pieces, ""))
		require.Len(t, pieces, max(countWords(text), min(len(text), 1)))
		require.Equal(t, len(strings.Fields(text)), countWords(text))
	}
}
