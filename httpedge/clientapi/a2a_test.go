package clientapi_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/httpedge/clientapi"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
)

// TestA2AWaitEnds: a message that has waited for as long as the server lets it is answered with its task as it runs. The turn goes on,
// there is one of it, and its task is read.
func TestA2AWaitEnds(t *testing.T) {
	config := clientapi.DefaultConfig()
	config.TurnTimeout = 50 * time.Millisecond
	k := serveSessionsWith(t, config)
	call := func(method, params string) map[string]any {
		t.Helper()
		got := k.do("ann", "POST", "/a2a/helper", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params))
		require.Equal(t, 200, got.status, "%s", got.raw)
		result, is := k.decode(got.raw)["result"].(map[string]any)
		require.True(t, is, "%s", got.raw)
		return result
	}
	state := func(task map[string]any) any {
		t.Helper()
		status, is := task["status"].(map[string]any)
		require.True(t, is, "%v", task)
		return status["state"]
	}
	task := call("message/send", `{"message":{"parts":[{"kind":"text","text":"hang on"}]}}`)
	require.Equal(t, "working", state(task))
	read := fmt.Sprintf(`{"id":%q}`, task["id"])
	require.Equal(t, "working", state(call("tasks/get", read)))
	k.host.finish(fmt.Sprint(task["contextId"]))
	require.Equal(t, "completed", state(call("tasks/get", read)))

	next := call("SendMessage", fmt.Sprintf(`{"message":{"contextId":%q,"parts":[{"text":"hang on"}]}}`, task["contextId"]))
	again, is := next["task"].(map[string]any)
	require.True(t, is, "%v", next)
	require.Equal(t, "TASK_STATE_WORKING", state(again))
	require.NotEqual(t, task["id"], again["id"])
	k.host.finish(fmt.Sprint(task["contextId"]))
	require.Equal(t, "TASK_STATE_COMPLETED", state(call("GetTask", fmt.Sprintf(`{"id":%q}`, again["id"]))))
	require.Len(t, k.host.turns, 2)
}

// TestA2ACancelsItsTask: a task that ends by itself while it is cancelled is answered as it ended, and the one that somebody else has begun
// in its context meanwhile goes on.
func TestA2ACancelsItsTask(t *testing.T) {
	k := serveSessions(t)
	call := func(method, params string) map[string]any {
		t.Helper()
		return k.decode(k.do("ann", "POST", "/a2a/helper", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params)).raw)
	}
	begun, is := call("message/send", `{"configuration":{"blocking":false},"message":{"parts":[{"text":"hang on"}]}}`)["result"].(map[string]any)
	require.True(t, is)
	id := fmt.Sprint(begun["contextId"])
	var next string
	k.host.mu.Lock()
	k.host.between = func(command *conversationpb.Command) {
		if command.GetCancel() == nil {
			return
		}
		k.host.finish(id)
		k.host.mu.Lock()
		defer k.host.mu.Unlock()
		k.host.mustLocked(&conversationpb.Command{ConversationId: id, Caller: command.GetCaller(), Body: &conversationpb.Command_Send{
			Send: &conversationpb.Send{Agent: &agentpb.Agent{Id: "helper"}, Content: "hang again"},
		}})
		next = k.host.stateLocked(id).GetLease().GetRunId()
	}
	k.host.mu.Unlock()
	cancelled := call("tasks/cancel", fmt.Sprintf(`{"id":%q}`, begun["id"]))
	require.Contains(t, fmt.Sprint(cancelled), "state:completed", "%v", cancelled)
	k.host.mu.Lock()
	lease := k.host.stateLocked(id).GetLease()
	k.host.mu.Unlock()
	require.NotEmpty(t, next)
	require.Equal(t, next, lease.GetRunId())
	require.False(t, lease.GetCancelling())
	k.host.finish(id)
}

// TestA2ABatchCounts: each call of a batch counts as a request, and one that the caller may not have begins nothing.
func TestA2ABatchCounts(t *testing.T) {
	k := serveSessions(t)
	one := `{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"parts":[{"text":"hi"}]}}}`
	k.most.Store(4) // three pass
	got := k.do("ann", "POST", "/a2a/helper", "["+strings.Repeat(one+",", 4)+one+"]")
	require.Equal(t, 200, got.status)
	var answers []struct {
		Result map[string]any
		Error  struct {
			Code int
			Data map[string]any
		}
	}
	require.NoError(t, json.Unmarshal(got.raw, &answers))
	require.Len(t, answers, 5)
	for i, answer := range answers {
		if i < 3 {
			require.NotNil(t, answer.Result, "%s", got.raw)
			continue
		}
		require.Equal(t, -32000, answer.Error.Code, "%s", got.raw)
		require.Equal(t, map[string]any{"code": "rate_limited", "status": 429.0, "retry_after": 7.0}, answer.Error.Data)
	}
	require.Len(t, k.host.turns, 3)
}
