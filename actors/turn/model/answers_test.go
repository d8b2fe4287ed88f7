package model

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/actors/stranger"
	"parley/proto/agentpb"
)

// TestNoMemoryForAnswers: a long event, or reply of a connected agent, waits for memory as long as its call may take. Ordinary
// events need none.
func TestNoMemoryForAnswers(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 128<<10)
	server, _ := agentServer(t, replies(`{"choices":[{"message":{"content":"`+long+`"}}]}`))
	calls := map[string]func(config Config) error{
		"connected": func(config Config) error {
			request := connectedRequest(&agentpb.Connection{Protocol: "openai-chat", Url: server.URL})
			request.Agent.Model.TotalTimeoutMs = config.TotalTimeout.Milliseconds()
			_, _, err := askConnected(t, config, request)
			return err
		},
	}
	for _, w := range wires() {
		provider, _ := w.serve(t, func(_ int, response http.ResponseWriter, _ *http.Request) {
			stream(response, w.start, w.text("some"), w.text(long), w.end)
		})
		calls[w.name] = func(config Config) error {
			_, _, err := w.ask(t, config, w.request(provider))
			return err
		}
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			budget := stranger.New(4 << 20)
			for range 2 { // the share, and the reserve
				_, others := budget.Open(t.Context())
				defer others.Close()
				require.NoError(t, others.Take(1<<20))
			}
			failure := requireError(t, call(Config{Answers: budget, TotalTimeout: 300 * time.Millisecond, MaxRetries: -1}), CodeOverloaded)
			require.Equal(t, stranger.ErrBusy.Error(), failure.Message)

			budget = stranger.New(4 << 20)
			require.NoError(t, call(Config{Answers: budget, TotalTimeout: 30 * time.Second}))
			require.Greater(t, budget.Most(), int64(len(long)))
			require.Less(t, budget.Most(), int64(6*len(long)))
		})
	}
}
