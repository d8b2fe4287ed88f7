package convapi_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/httpedge/convapi"
	"parley/httpedge/endpoint/endpointtest"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

func TestListMessages(t *testing.T) {
	k := serve(t)
	k.store.Put(endpointtest.Talk(conv1, "ann", 10))
	at := "/conversations/" + conv1 + "/messages"
	r := k.do("GET", at+"?limit=3&offset=2", "")
	require.Equal(t, 200, r.status)
	require.Equal(t, "message 3", r.at(t, "messages", 0, "content"))
	require.InDelta(t, 10, r.at(t, "total"), 0)
	require.Equal(t, true, r.at(t, "hasMore"))
	r = k.do("GET", at+"?order=desc&limit=1", "")
	require.Equal(t, "assistant", r.at(t, "messages", 0, "role"), "the newest message of a fast turn is the answer")
	r = k.do("GET", at+"?offset=99", "")
	require.Equal(t, []any{}, r.at(t, "messages"))
	require.Equal(t, false, r.at(t, "hasMore"))
	require.InDelta(t, 200, k.do("GET", at+"?limit=1000", "").at(t, "limit"), 0)
	k.refused(404, "NOT_FOUND", "GET", "/conversations/"+gone+"/messages", "")
}

func turn(reason conversationpb.StopReason) *conversationpb.TurnResult {
	talk := endpointtest.Talk(conv1, "ann", 2)
	return &conversationpb.TurnResult{
		RunId: "run_1", UserMessage: talk.Messages[0], Response: talk.Messages[1], StopReason: reason,
		Usage: &conversationpb.Usage{InputTokens: 3, OutputTokens: 4},
	}
}

func turnReply(result *conversationpb.TurnResult) *conversationpb.Reply {
	return &conversationpb.Reply{Body: &conversationpb.Reply_Turn{Turn: result}}
}

func TestSendMessage(t *testing.T) {
	k := serve(t)
	at := "/conversations/" + conv1 + "/messages"
	k.reply(turnReply(turn(conversationpb.StopReason_END_TURN)))
	r := k.do("POST", at, `{"message":"hello","metadata":{"k": 1},"stream":false,"fileIds":[]}`)
	require.Equal(t, 200, r.status, "%s", r.raw)
	require.Equal(t, "message 1", r.at(t, "message", "content"))
	require.Equal(t, "message 2", r.at(t, "response", "content"))
	require.Equal(t, "end_turn", r.at(t, "stopReason"))
	require.Equal(t, map[string]any{"inputTokens": 3.0, "outputTokens": 4.0, "totalTokens": 7.0}, r.at(t, "usage"))
	for _, absent := range []string{"status", "budget", "spentUsd", "pendingActions", "error", "conversationTitle"} {
		require.NotContains(t, r.body, absent)
	}
	send := k.last().GetSend()
	require.True(t, send.GetWait())
	require.Equal(t, "hello", send.GetContent())
	require.Equal(t, []byte(`{"k":1}`), send.GetMetadata())

	failed := turn(conversationpb.StopReason_ERROR)
	failed.Response = nil
	failed.Error = &conversationpb.TurnError{Code: "overloaded", Message: "The model is busy."}
	failed.Budget = &conversationpb.Budget{MaxCostNanoUsd: 1_000_000_000, OnReach: "pause"}
	failed.SpentNanoUsd = 20_000_000
	k.reply(turnReply(failed))
	r = k.do("POST", at, `{"message":"hello"}`)
	require.Equal(t, 200, r.status)
	require.Equal(t, "incomplete", r.at(t, "status"))
	require.Equal(t, "error", r.at(t, "stopReason"))
	require.Equal(t, "overloaded", r.at(t, "error", "code"))
	require.InDelta(t, 0.02, r.at(t, "spentUsd"), 0)
	// Clients show the response whatever it is.
	require.Equal(t, map[string]any{
		"id": "msg_1", "conversationId": conv1, "role": "assistant", "content": "", "status": "incomplete",
		"metadata":  map[string]any{"status": "incomplete", "stopReason": "error"},
		"createdAt": r.at(t, "message", "createdAt"), "updatedAt": r.at(t, "message", "createdAt"),
	}, r.at(t, "response"))
}

func TestSendMessageRefuses(t *testing.T) {
	k := serve(t)
	strict := endpointtest.Talk(conv1, "", 0)
	strict.State.AgentId = "strict"
	k.store.Put(strict)
	at := "/conversations/" + conv1 + "/messages"
	for _, body := range []string{
		``, `{}`, `{"message":""}`, `{"message":" \n"}`, `{"message":null}`, `{"message":5}`, `{"message":"x","stream":"yes"}`,
		`{"message":"x","fileIds":"f"}`, `{"message":"x","files":[5]}`, `{"message":"x","metadata":7}`, `null`, `{"message":"x"`,
		`{"message":" ","fileIds":[],"files":[]}`,
	} {
		k.refused(400, "VALIDATION_ERROR", "POST", at, body)
	}
	k.refused(403, "attachments_disabled", "POST", at, `{"message":"x","fileIds":["file_1"]}`)
	k.refused(403, "attachments_disabled", "POST", at, `{"message":"x","files":[{"name":"a","content":"","mimeType":"b"}]}`)
	k.refused(404, "NOT_FOUND", "POST", "/conversations/a.b/messages", `{"message":"x"}`)
	require.Empty(t, k.runtime.Commands())
	k.refuse(fail(failurepb.Code_ACTION_PENDING, "the conversation waits"))
	k.refused(409, "action_pending", "POST", at, `{"message":"x"}`)
}

func TestSendMessageOutlivesItsOwner(t *testing.T) {
	k := serve(t)
	k.store.Put(endpointtest.Talk(conv1, "", 2))
	asked := 0
	k.runtime.OnAsk = func(context.Context, *conversationpb.Command) (*conversationpb.Reply, error) {
		if asked++; asked < 3 {
			return nil, fail(failurepb.Code_UNAVAILABLE, "passivated")
		}
		return turnReply(&conversationpb.TurnResult{
			RunId: "run_000000000000000000001", StopReason: conversationpb.StopReason_END_TURN, Partial: true,
		}), nil
	}
	r := k.do("POST", "/conversations/"+conv1+"/messages", `{"message":"hello"}`)
	require.Equal(t, 200, r.status, "%s", r.raw)
	require.Equal(t, "message 1", r.at(t, "message", "content"), "read back, because the owner knew only the head")
	require.Equal(t, "message 2", r.at(t, "response", "content"))
	commands := k.runtime.Commands()
	require.Len(t, commands, 3)
	require.Equal(t, commands[0].GetCommandId(), commands[2].GetCommandId(), "a repeat is the same command")
}

func TestSendMessageGivesUp(t *testing.T) {
	k := serve(t, withConfig(func(c *convapi.Config) { c.TurnTimeout = 50 * time.Millisecond }))
	k.runtime.OnAsk = func(ctx context.Context, _ *conversationpb.Command) (*conversationpb.Reply, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	k.refused(503, "unavailable", "POST", "/conversations/"+conv1+"/messages", `{"message":"hello"}`)
	k.refuse(fail(failurepb.Code_UNAVAILABLE, "no leader"))
	k.refused(503, "unavailable", "POST", "/conversations/"+conv1+"/messages", `{"message":"hello"}`)
}

func TestListEvents(t *testing.T) {
	k := serve(t)
	k.store.Put(endpointtest.Talk(conv1, "ann", 6))
	at := "/conversations/" + conv1 + "/events"
	r := k.do("GET", at, "")
	require.Equal(t, 200, r.status)
	require.InDelta(t, 1, r.at(t, "events", 0, "seq"), 0)
	require.Equal(t, "user.message", r.at(t, "events", 0, "type"))
	require.InDelta(t, 6, r.at(t, "lastSeq"), 0)
	require.Equal(t, false, r.at(t, "hasMore"))
	r = k.do("GET", at+"?after=2&limit=2&types=agent.message,%20unknown.type", "")
	require.InDelta(t, 4, r.at(t, "events", 0, "seq"), 0)
	require.InDelta(t, 6, r.at(t, "events", 1, "seq"), 0)
	require.Len(t, r.at(t, "events"), 2)
	require.Equal(t, r.at(t, "events"), k.do("GET", at+"?after=2&limit=2&types=unknown.type&types=agent.message", "").at(t, "events"), "a repeated list")
	require.Equal(t, []any{}, k.do("GET", at+"?after=18446744073", "").at(t, "events"))
	for _, after := range []string{"x", "1.5", "-1", "1e3", "99999999999999999999999", "0x10", "%201", "1%20", "%2B1"} {
		k.refused(400, "VALIDATION_ERROR", "GET", at+"?after="+after, "")
	}
	k.refused(404, "NOT_FOUND", "GET", "/conversations/"+gone+"/events", "")
	k.refused(400, "VALIDATION_ERROR", "GET", at+"/stream?after=x", "")
	k.refused(400, "VALIDATION_ERROR", "GET", at+"/stream", "", "Last-Event-ID", "evt_9")
}

func TestSendMessageOfAnOlderRunWithoutAnAnswer(t *testing.T) {
	k := serve(t)
	k.store.Put(endpointtest.Talk(conv1, "", 2))
	k.reply(turnReply(&conversationpb.TurnResult{RunId: "run_other", Partial: true}))
	r := k.do("POST", "/conversations/"+conv1+"/messages", `{"message":"hello"}`)
	require.Equal(t, 200, r.status, "%s", r.raw)
	require.Equal(t, "error", r.at(t, "stopReason"))
	require.Equal(t, "interrupted", r.at(t, "error", "code"))
	require.Empty(t, r.at(t, "response", "content"))
	require.Equal(t, "incomplete", r.at(t, "response", "status"))
}
