package a2a

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"parley/httpedge/a2a/protocol"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/endpoint/endpointtest"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
)

// busy is a runtime whose turns do not end.
type busy struct {
	endpointtest.Runtime

	mu    sync.Mutex
	begun map[string]bool // conversations
}

// Ask implements endpoint.Runtime.
func (b *busy) Ask(ctx context.Context, command *conversationpb.Command) (*conversationpb.Reply, error) {
	b.mu.Lock()
	b.begun[command.GetConversationId()] = true
	b.mu.Unlock()
	if command.GetSend().GetWait() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &conversationpb.Reply{Body: &conversationpb.Reply_Accepted{Accepted: &conversationpb.Accepted{
		RunId: "r", UserMessage: &conversationpb.Message{Number: 1},
	}}}, ctx.Err()
}

// TestBatchEndsInTime: of the calls of a batch only those are begun whose tasks its caller can still be told. The others say that they
// were not.
func TestBatchEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runtime := &busy{begun: map[string]bool{}}
		a := &api{handler.New(handler.Config{TurnTimeout: time.Minute}, handler.Parts{Runtime: runtime, IDs: new(endpointtest.IDs)})}
		call := `{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"parts":[{"text":"hi"}]}}}`
		body := protocol.Read([]byte("[" + strings.Repeat(call+",", 19) + call + "]"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute+toAnswer)
		defer cancel()
		var answers []struct {
			Result struct {
				ContextID string
				Status    struct{ State string }
			}
			Error struct{ Message string }
		}
		require.NoError(t, json.Unmarshal(a.batch(ctx, &agentpb.Agent{Id: "a"}, body.Calls), &answers))
		require.NoError(t, ctx.Err())
		require.Len(t, answers, 20)
		told := map[string]bool{}
		for _, answer := range answers {
			if answer.Error.Message == "" {
				require.Equal(t, "working", answer.Result.Status.State)
				told[answer.Result.ContextID] = true
				continue
			}
			require.Equal(t, "The call was not begun: the calls before it have taken too long", answer.Error.Message)
		}
		require.Equal(t, runtime.begun, told)
		require.Less(t, len(told), 20)
		require.Greater(t, len(told), 1, "what is left is used")
	})
}

// TestBatchIsBounded: short calls for long answers end before they fill the memory.
func TestBatchIsBounded(t *testing.T) {
	name := strings.Repeat("x", 1<<20)
	calls := make([]protocol.Call, 20)
	for i := range calls {
		calls[i] = protocol.Call{ID: json.RawMessage("1"), Name: name}
	}
	calls[19].Name = "tasks/get"
	a := &api{handler.New(handler.Config{}, handler.Parts{})}
	text := a.batch(t.Context(), &agentpb.Agent{Id: "a"}, calls)
	require.True(t, strings.HasSuffix(string(text), `"message":"The call was not begun: the answers before it are too long","data":{"code":"unavailable","status":503}}}]`))
}
