package clientapi_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/actors/core/catalog"
	"parley/actors/trace"
	"parley/proto/directorypb"
	"parley/proto/tracepb"
)

// TestQuotaOfTracingSessions: how many sessions are kept that programs report: one too many is refused, those that are known go on, of spans
// those sessions are left out that there is no room for, and what is removed makes room.
func TestQuotaOfTracingSessions(t *testing.T) {
	k := serveTraces(t)
	token := k.mint("owner of default", "default", nil)
	policy := func(most int, scope, of string) {
		k.put("quota_policies", catalog.Key("default", "qp_sessions"), &directorypb.QuotaPolicy{
			Id: "qp_sessions", TenantId: "default", Scope: scope, ScopeId: of, Domain: "tracing", Enabled: true, Limits: fmt.Appendf(nil, `{"quotas":{"maxTracingSessions":%d}}`, most),
		})
	}
	full := func(count, most int) []any {
		return []any{429, answer{"error": fmt.Sprintf("tracingSessions limit reached (%d/%d)", count, most), "code": "quota_reached"}}
	}
	report := func(path, body string) []any {
		status, got := k.ask(token, "POST", "/tracing/sessions"+path, body)
		return []any{status, got}
	}
	kept := func() (ids []string) {
		for _, head := range k.world.heads {
			if s, is := head.(*tracepb.Session); is {
				ids = append(ids, s.GetSessionId())
			}
		}
		return ids
	}
	require.Equal(t, 200, report("", `{"sessionId":"before"}`)[0], "nothing bounds them")

	policy(3, "tenant", "")
	require.Equal(t, 200, report("/stream/second/start", `{"threadId":"talk"}`)[0])
	var mu sync.Mutex
	var reports sync.WaitGroup
	stored := 0
	for i := range 8 {
		reports.Go(func() {
			got := report("", fmt.Sprintf(`{"sessionId":"new %d","threadId":"of %d"}`, i%4, i))
			mu.Lock()
			defer mu.Unlock()
			if got[0] == 200 {
				stored++
				return
			}
			require.Equal(t, full(3, 3), got)
		})
	}
	reports.Wait()
	require.Len(t, kept(), 3)
	require.Positive(t, stored, "also the second report of the one that there was room for")
	require.Equal(t, full(3, 3), report("/stream/fourth/start", `{}`))
	for path, body := range map[string]string{"": `{"sessionId":"before","events":[{}]}`, "/stream/second/start": "{}", "/stream/second/events": `{"event":{}}`, "/stream/second/end": "{}"} {
		require.Equal(t, 200, report(path, body)[0], "it is known: %s", path)
	}
	require.Len(t, k.world.lists["trace/threads/default/default"], len(kept()), "a session that is refused leaves no thread")

	spans := func(conversations ...string) (int, answer) {
		var all []json.RawMessage
		for _, of := range conversations {
			var one struct{ ResourceSpans []json.RawMessage }
			require.NoError(t, json.Unmarshal(spansOf(of), &one))
			all = append(all, one.ResourceSpans...)
		}
		body, err := json.Marshal(map[string]any{"resourceSpans": all})
		require.NoError(t, err)
		status, _, raw := k.export(token, body, "Content-Type", "application/json")
		var got answer
		require.NoError(t, json.Unmarshal(raw, &got))
		return status, got
	}
	status, got := spans("o1", "o2")
	require.Equal(t, []any{status, got}, full(3, 3), "nothing of it is stored")
	policy(5, "tenant", "")
	status, got = spans("o1", "before", "o2", "o3", "o4")
	require.Equal(t, 200, status, got)
	partial, _ := got["partialSuccess"].(map[string]any)
	require.Equal(t, []any{3.0, 9.0, 15.0, 6.0}, []any{got["sessionsIngested"], got["eventsStored"], got["spansProcessed"], partial["rejectedSpans"]}, got)
	require.True(t, strings.HasSuffix(fmt.Sprint(partial["errorMessage"]), "; new sessions: tracingSessions limit reached (3/5)"), partial)
	require.Len(t, kept(), 5)

	k.world.now = k.world.now.Add(10_000 * time.Hour)
	for id, head := range k.world.heads {
		if s, is := head.(*tracepb.Session); is && s.GetSessionId() == "before" {
			_, err := k.world.do(trace.New(conversations()), id, &tracepb.Command{Id: id, Body: &tracepb.Command_Due{Due: &tracepb.Due{}}})
			require.NoError(t, err)
		}
	}
	require.Equal(t, 200, report("", `{"sessionId":"after"}`)[0], "what was removed makes room")
	require.Equal(t, full(5, 5), report("", `{"sessionId":"before"}`))

	policy(0, "user", "somebody else")
	require.Equal(t, 200, report("", `{"sessionId":"before"}`)[0])
	policy(6, "user", "owner of default")
	require.Equal(t, full(6, 6), report("", `{"sessionId":"one more"}`))
	policy(0, "token", "")
	require.Equal(t, 200, report("", `{"sessionId":"one more"}`)[0], "sessions do not say by which token they were reported")
}
