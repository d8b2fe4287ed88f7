package convapi_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/actors/core/failure"
	"parley/httpedge/endpoint/endpointtest"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

const (
	msg1 = "msg_000000000000000000001" // user
	msg2 = "msg_000000000000000000002" // answer
)

func TestRegenerate(t *testing.T) {
	k := serve(t)
	k.store.Put(endpointtest.Talk(conv1, "ann", 2))
	k.reply(turnReply(turn(conversationpb.StopReason_END_TURN)))
	at := "/conversations/" + conv1 + "/messages/"
	r := k.do("POST", at+msg2+"/regenerate", `{"metadata":{"k":1}}`)
	require.Equal(t, 200, r.status, "%s", r.raw)
	require.Equal(t, "message 2", r.at(t, "response", "content"))
	command := k.last().GetRegenerate()
	require.Equal(t, msg2, command.GetTarget().GetMessage().GetId())
	require.EqualValues(t, 2, command.GetTarget().GetAsOf())
	require.Equal(t, msg1, command.GetUserMessage().GetId())
	require.Equal(t, "assistant", command.GetAgent().GetId())
	require.JSONEq(t, `{"k":1}`, string(command.GetMetadata()))
	require.True(t, command.GetWait())

	require.Equal(t, 200, k.do("POST", at+msg1+"/regenerate", "").status)
	require.Equal(t, msg1, k.last().GetRegenerate().GetUserMessage().GetId(), "a question is answered itself")

	k.refused(404, "NOT_FOUND", "POST", at+"msg_unknown/regenerate", "")
	k.refused(404, "NOT_FOUND", "POST", at+"a.b/regenerate", "")
	k.refused(404, "NOT_FOUND", "POST", "/conversations/"+gone+"/messages/"+msg1+"/regenerate", "")
	k.refused(400, "VALIDATION_ERROR", "POST", at+msg2+"/regenerate", `{"metadata":[]}`)
	k.refuse(fail(failurepb.Code_INVALID_MESSAGE_TARGET, "not the newest"))
	k.refused(409, "invalid_message_target", "POST", at+msg2+"/regenerate", "")
	k.refuse(fail(failurepb.Code_ACTION_DISABLED, "off"))
	k.refused(403, "action_disabled", "POST", at+msg2+"/regenerate", `{"stream":true}`)
}

// TestTargetIsReadAgain: as often as it changed, and not for ever.
func TestTargetIsReadAgain(t *testing.T) {
	k := serve(t)
	k.store.Put(endpointtest.Talk(conv1, "ann", 2))
	changed := failure.New(failurepb.Code_UNAVAILABLE, failure.ConversationChanged)
	asked := 0
	k.runtime.OnAsk = func(context.Context, *conversationpb.Command) (*conversationpb.Reply, error) {
		if asked++; asked > 3 {
			return turnReply(turn(conversationpb.StopReason_END_TURN)), nil
		}
		newer := endpointtest.Talk(conv1, "ann", 2)
		newer.State.LastSeq = uint64(8 + asked)
		k.store.Put(newer)
		return nil, changed
	}
	at := "/conversations/" + conv1 + "/messages/" + msg2 + "/regenerate"
	require.Equal(t, 200, k.do("POST", at, "").status)
	commands := k.runtime.Commands()
	require.Len(t, commands, 4)
	for i, asOf := range []int{2, 9, 10, 11} {
		require.EqualValues(t, asOf, commands[i].GetRegenerate().GetTarget().GetAsOf())
	}
	k.refuse(changed)
	k.refused(503, "unavailable", "POST", at, "")
	require.Len(t, k.runtime.Commands(), 4+16)
}

func TestEdit(t *testing.T) {
	k := serve(t)
	k.store.Put(endpointtest.Talk(conv1, "ann", 2))
	k.reply(turnReply(turn(conversationpb.StopReason_END_TURN)))
	at := "/conversations/" + conv1 + "/messages/" + msg1 + "/edit"
	edit := func(body string) *conversationpb.Edit {
		r := k.do("POST", at, body)
		require.Equal(t, 200, r.status, "%s", r.raw)
		return k.last().GetEdit()
	}
	first := edit(`{"content":"better"}`)
	require.Equal(t, "better", first.GetContent())
	require.Equal(t, msg1, first.GetTarget().GetMessage().GetId())
	require.False(t, first.GetSetFiles())
	require.True(t, first.GetWait())
	require.Equal(t, "also", edit(`{"message":"also"}`).GetContent())
	require.True(t, edit(`{"content":"x","fileIds":[]}`).GetSetFiles())
	require.False(t, edit(`{"content":"x","fileIds":null}`).GetSetFiles())
	require.Equal(t, []string{"file_1"}, edit(`{"content":"x","fileIds":["file_1"]}`).GetFileIds())
	require.Empty(t, edit(`{"fileIds":["file_1"]}`).GetContent(), "a file needs no words")
	for _, body := range []string{``, `{}`, `{"content":" "}`, `{"content":"","fileIds":[],"files":[]}`, `{"content":5}`, `{"content":"x","fileIds":"f"}`} {
		k.refused(400, "VALIDATION_ERROR", "POST", at, body)
	}
	k.refused(404, "NOT_FOUND", "POST", "/conversations/"+conv1+"/messages/msg_9/edit", `{"content":"x"}`)
}

func TestFeedback(t *testing.T) {
	k := serve(t)
	k.store.Put(endpointtest.Talk(conv1, "ann", 2))
	at := "/conversations/" + conv1 + "/messages/" + msg2 + "/feedback"
	rate := func(body string, stored *conversationpb.Feedback) *response {
		k.reply(&conversationpb.Reply{Body: &conversationpb.Reply_Rated{Rated: &conversationpb.Rated{MessageId: msg2, Feedback: stored}}})
		r := k.do("POST", at, body)
		require.Equal(t, 200, r.status, "%s", r.raw)
		require.Equal(t, msg2, r.at(t, "messageId"))
		return r
	}
	const stamp = 1_700_000_000_000
	down := rate(`{"rating":"down","reasons":["unsafe"],"comment":"no <b>"}`, &conversationpb.Feedback{
		Rating: "down", Reasons: []string{"unsafe"}, Comment: "no <b>", UserId: "ann", CreatedAt: stamp, UpdatedAt: stamp,
	})
	require.Equal(t, map[string]any{
		"rating": "down", "reasons": []any{"unsafe"}, "comment": "no <b>", "userId": "ann",
		"createdAt": "2023-11-14T22:13:20.000Z", "updatedAt": "2023-11-14T22:13:20.000Z",
	}, down.at(t, "feedback"))
	command := k.last().GetRate()
	require.Equal(t, []string{"unsafe"}, command.GetReasons())
	require.Equal(t, msg2, command.GetTarget().GetMessage().GetId())
	require.Equal(t, "assistant", command.GetAgent().GetId())
	back := rate(`{"rating":null,"reasons":null,"comment":null}`, &conversationpb.Feedback{CreatedAt: stamp, UpdatedAt: stamp})
	require.Nil(t, back.at(t, "feedback", "rating"))
	require.Equal(t, []any{}, back.at(t, "feedback", "reasons"))

	for _, body := range []string{
		``, `{}`, `{"rating":"best"}`, `{"rating":5}`, `{"rating":"down","reasons":"unsafe"}`, `{"rating":"down","reasons":[1]}`,
		`{"rating":"up","comment":{}}`,
	} {
		k.refused(400, "invalid_feedback", "POST", at, body)
	}
	k.refused(404, "NOT_FOUND", "POST", "/conversations/"+conv1+"/messages/msg_9/feedback", `{"rating":"up"}`)
	k.refuse(fail(failurepb.Code_FEEDBACK_DISABLED, "off"))
	k.refused(403, "feedback_disabled", "POST", at, `{"rating":"up"}`)
}

// TestServerKeysOfMetadata: a client's object cannot pass for what the server says of a message.
func TestServerKeysOfMetadata(t *testing.T) {
	k := serve(t)
	talk := endpointtest.Talk(conv1, "ann", 2)
	talk.Messages[0].Metadata = []byte(`{"edited":true,"k":"<1>","status":"x"}`)
	talk.Messages[1].Metadata = []byte(`{"status":"mine","feedback":{},"a":{"status":1}}`)
	spelled := endpointtest.Talk(conv2, "ann", 2)
	spelled.Messages[1].Metadata = []byte(`{"feedb\u0061ck":{"rating":"up"},"\u0073tatus":"mine","k":"a\n"}`)
	k.store.Put(spelled)
	talk.Messages[1].Feedback = &conversationpb.Feedback{Rating: "up"}
	k.store.Put(talk)
	r := k.do("GET", "/conversations/"+conv1+"/messages", "")
	require.Equal(t, map[string]any{"k": "<1>"}, r.at(t, "messages", 0, "metadata"))
	require.Equal(t, "completed", r.at(t, "messages", 1, "metadata", "status"))
	require.Equal(t, map[string]any{"status": 1.0}, r.at(t, "messages", 1, "metadata", "a"))
	require.Equal(t, "up", r.at(t, "messages", 1, "metadata", "feedback", "rating"))
	r = k.do("GET", "/conversations/"+conv2+"/messages", "")
	require.Nil(t, r.at(t, "messages", 1, "metadata", "feedback"), "however it is spelled: %s", r.raw)
	require.NotContains(t, string(r.raw), "mine")
	require.Equal(t, "a\n", r.at(t, "messages", 1, "metadata", "k"))
}

// TestRegenerateOutlivesItsOwner: the owner that answers in the end knows only the head; the question is of an older run.
func TestRegenerateOutlivesItsOwner(t *testing.T) {
	k := serve(t)
	talk := endpointtest.Talk(conv1, "ann", 2)
	talk.Messages[1].RunId = "run_new"
	k.store.Put(talk)
	asked := 0
	k.runtime.OnAsk = func(context.Context, *conversationpb.Command) (*conversationpb.Reply, error) {
		if asked++; asked < 3 {
			return nil, fail(failurepb.Code_UNAVAILABLE, "passivated")
		}
		return turnReply(&conversationpb.TurnResult{
			RunId: "run_new", StopReason: conversationpb.StopReason_END_TURN, Partial: true, UserMessage: &conversationpb.Message{Id: msg1},
		}), nil
	}
	r := k.do("POST", "/conversations/"+conv1+"/messages/"+msg2+"/regenerate", "")
	require.Equal(t, 200, r.status, "%s", r.raw)
	require.Equal(t, "message 1", r.at(t, "message", "content"))
	require.Equal(t, "message 2", r.at(t, "response", "content"))
	commands := k.runtime.Commands()
	require.Equal(t, commands[0].GetCommandId(), commands[2].GetCommandId())
	require.True(t, commands[2].GetRepeated())
}
