package tool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/actors/stranger"
	"parley/actors/turn/tool"
	"parley/proto/agentpb"
)

// largeAnswers is a set with a tool of an MCP server and an HTTP tool, whose answers have so many bytes.
func largeAnswers(t *testing.T, config tool.Config, kind string, bytes int) tool.Set {
	t.Helper()
	said := strings.Repeat("x", bytes)
	front := fronted(t, serveMCP(t), "tools/call", kind, func(json.RawMessage) string {
		return fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, said)
	})
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = w.Write([]byte(said))
	}))
	t.Cleanup(plain.Close)
	agent := mcpAgent(&agentpb.MCP{Name: "r", Url: front.URL, Tools: []string{"echo"}, ConnectTimeoutMs: 60_000})
	agent.Tools = []*agentpb.Tool{{
		Name: "plain", Http: &agentpb.HTTP{Url: plain.URL}, Policy: &agentpb.ToolPolicy{MaxResultBytes: 8 << 20},
	}}
	return open(t, config, agent)
}

// TestManyLargeAnswers: however many come at once, together they take what there is, and each comes to its end.
func TestManyLargeAnswers(t *testing.T) {
	t.Parallel()
	const size, calls, bytes = 16 << 20, 20, 1 << 20
	for _, kind := range []string{"application/json", "text/event-stream"} {
		config := local(t)
		config.Answers = stranger.New(size)
		set := largeAnswers(t, config, kind, bytes)
		var group sync.WaitGroup
		for index := range calls {
			for _, name := range []string{"r_echo", "plain"} {
				group.Go(func() {
					ctx := stranger.Of(t.Context(), fmt.Sprint("tenant ", index%3))
					if _, err := find(t, set, name).Run(ctx, tool.Call{Args: []byte(`{}`)}); err != nil {
						t.Errorf("%s: %v", name, err)
					}
				})
			}
		}
		group.Wait()
		require.Greater(t, config.Answers.Most(), int64(bytes))
		require.LessOrEqual(t, config.Answers.Most(), int64(size))
	}
}

// TestNoMemoryForAnswers: a call waits as long as it may, then the model is told why; another tenant's call does not wait.
func TestNoMemoryForAnswers(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"application/json", "text/event-stream"} {
		config := local(t)
		config.Answers, config.Timeout = stranger.New(32<<20), 500*time.Millisecond
		set := largeAnswers(t, config, kind, 256<<10)
		for range 2 { // its share, and the reserve
			_, others := config.Answers.Open(stranger.Of(t.Context(), "full"))
			defer others.Close()
			require.NoError(t, others.Take(8<<20))
		}
		for _, name := range []string{"r_echo", "plain"} {
			run := func(tenant string) error {
				_, err := find(t, set, name).Run(stranger.Of(context.Background(), tenant), tool.Call{Args: []byte(`{}`)})
				return err
			}
			require.EqualError(t, run("full"), stranger.ErrBusy.Error(), name)
			require.Eventually(t, func() bool { return run("other") == nil }, 30*time.Second, time.Millisecond, name)
		}
	}
}

// TestAnswerTooLarge: an answer that is more than the reserve fails its call alone: the session goes on.
func TestAnswerTooLarge(t *testing.T) {
	t.Parallel()
	config := local(t)
	config.Answers = stranger.New(2 << 20)
	set := largeAnswers(t, config, "application/json", 1<<20)
	for _, name := range []string{"r_echo", "plain"} {
		_, err := run(t, set, name, `{}`)
		require.EqualError(t, err, stranger.ErrTooLarge.Error(), name)
	}
}
