package node

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/cmd/parley/config"
)

// TestPagesOfLargeMessages: a page ends at its size, whatever was asked for, and is still the one that was asked for: pages
// put together are the conversation.
func TestPagesOfLargeMessages(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: 20 MB of messages")
	}
	c := config.Default()
	c.DataDir, c.Listen, c.OpsListen = t.TempDir(), "127.0.0.1:0", "127.0.0.1:0"
	c.Agents = []config.Agent{{ID: "assistant", Model: &config.Model{Provider: "scripted", Script: &config.Script{Tokens: 1}}}}
	require.NoError(t, c.Validate())
	n, err := start(t.Context(), c, testLog(t, "n1"), nil)
	require.NoError(t, err)
	f := &fleet{t: t, nodes: map[string]*Node{"n1": n}}
	t.Cleanup(f.stop)
	ask := func(method, path string, body any) map[string]any {
		status, _, answer, err := f.call("n1", method, path, body)
		require.NoError(t, err)
		require.Less(t, status, 300, answer)
		return answer
	}
	id, _ := f.conversation("n1")
	path := "/conversations/" + id
	text := strings.Repeat("a", 250<<10)
	const turns = 70
	for range turns {
		ask(http.MethodPost, path+"/messages", map[string]any{"message": text})
	}

	var ids []string
	pages, before := 0, ""
	for more := true; more; pages++ {
		page := ask(http.MethodGet, path+"?limit=200"+before, nil)
		messages, _ := page["messages"].([]any)
		require.NotEmpty(t, messages)
		var of []string
		var last any
		for _, message := range messages {
			record, _ := message.(map[string]any)
			of = append(of, fmt.Sprint(record["id"]))
			last = record["role"]
		}
		if before == "" {
			require.Equal(t, "assistant", last, "the newest page ends with the newest message")
		}
		ids = append(of, ids...)
		before = "&before=" + of[0]
		more, _ = page["messagesPage"].(map[string]any)["hasMoreBefore"].(bool)
	}
	require.Greater(t, pages, 1)
	require.Len(t, ids, 2*turns)
	require.Len(t, slices.Compact(slices.Sorted(slices.Values(ids))), 2*turns, "no message twice")
}
