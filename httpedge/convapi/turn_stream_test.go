package convapi_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/httpedge/endpoint/endpointtest"
	"parley/proto/conversationpb"
)

// request opens a stream with any route.
func (n *node) request(t *testing.T, path, body string) *stream {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, n.base+"/conversations/conv_1"+path, bytes.NewReader([]byte(body)))
	require.NoError(t, err)
	return n.open(t, request)
}

// told reads a stream to its end as its frames' types and data, without the members that every frame has.
func (s *stream) told(t *testing.T) (types []string, data []map[string]any) {
	t.Helper()
	require.Equal(t, 200, s.response.StatusCode)
	for {
		f, err := s.next()
		if err != nil {
			return types, data
		}
		if f.comment != "" {
			continue
		}
		var object map[string]any
		require.NoError(t, json.Unmarshal([]byte(f.data), &object), f.data)
		require.Equal(t, f.event, object["type"])
		require.InDelta(t, len(types)+1, object["seq"], 0)
		for _, name := range []string{"type", "seq", "timestamp"} {
			require.Contains(t, object, name)
			delete(object, name)
		}
		types, data = append(types, f.event), append(data, object)
	}
}

func use(text string, calls ...*conversationpb.ToolCall) *conversationpb.Event {
	return &conversationpb.Event{Body: &conversationpb.Event_ToolUse{ToolUse: &conversationpb.ToolUse{Text: text, Calls: calls}}}
}

func results(calls ...*conversationpb.ToolCall) *conversationpb.Event {
	return &conversationpb.Event{Body: &conversationpb.Event_ToolResults{ToolResults: &conversationpb.ToolResults{Results: calls}}}
}

func closed(id string) *conversationpb.Event {
	return &conversationpb.Event{Body: &conversationpb.Event_ActionClosed{
		ActionClosed: &conversationpb.ActionClosed{Id: id, How: conversationpb.HowResolved, By: "ann"},
	}}
}

func resumed(mode conversationpb.Mode) *conversationpb.Event {
	return &conversationpb.Event{Body: &conversationpb.Event_TurnResumed{
		TurnResumed: &conversationpb.TurnResumed{Lease: &conversationpb.Lease{Mode: mode, Attempt: 1}},
	}}
}

func approval(id string) *conversationpb.PendingAction {
	return &conversationpb.PendingAction{
		Id: id, Kind: "tool_approval", RunId: "run_0", ToolName: "send_mail", ToolCallId: "call_" + id,
		Args: []byte(`{"to":"bob"}`), Details: []byte("{\"prompt\":\n\"Send?\"}"), CreatedAt: 1_700_000_000_000, ExpiresAt: 1_700_000_600_000,
	}
}

func paused(content string, actions ...*conversationpb.PendingAction) *conversationpb.Event {
	return &conversationpb.Event{Body: &conversationpb.Event_TurnPaused{TurnPaused: &conversationpb.TurnPaused{
		Answer: &conversationpb.Message{
			Id: "msg_answer", Role: conversationpb.Role_ASSISTANT, Content: content, Status: "requires_action",
			StopReason: conversationpb.StopReason_REQUIRES_ACTION, Pending: actions,
		},
	}}}
}

func TestMessageStreamTellsOfToolsInOrder(t *testing.T) {
	n := newNode(t, endpointtest.Off)
	go func() {
		run := (<-n.sent).GetRunId()
		n.say("Let me ", "look.")
		n.publish(run, use("Let me look.",
			&conversationpb.ToolCall{Id: "c1", Name: "search", Arguments: "{\"q\":\n\"cats\"}"},
			&conversationpb.ToolCall{Id: "c2", Name: "broken", Arguments: "no json"}))
		n.publish(run, results(&conversationpb.ToolCall{Id: "c2", Name: "broken", Error: "invalid arguments"}))
		n.publish(run, results(&conversationpb.ToolCall{Id: "c1", Name: "search", Result: "{\"hits\":\n2}"}))
		n.say("\n\nTwo cats.")
		n.publish(run, use("Two cats.", &conversationpb.ToolCall{Id: "c3", Name: "note", Arguments: "{}"}),
			results(&conversationpb.ToolCall{Id: "c3", Name: "note", Result: "noted"}))
		n.say("\n\nDone.")
		n.end(run, "Let me look.\n\nTwo cats.\n\nDone.", endTurn())
	}()
	types, data := n.send(t, "hi").told(t)
	var order []string
	text := ""
	for i, name := range types {
		if name == "stream.text" {
			piece, ok := data[i]["text"].(string)
			require.True(t, ok)
			text += piece
			continue
		}
		call, _ := data[i]["toolCallId"].(string)
		order = append(order, strings.TrimSpace(name+" "+call+" "+text))
	}
	const first, both = "Let me look.", "Let me look.\n\nTwo cats."
	require.Equal(t, []string{
		"stream.start", "stream.tool_call c1 " + first, "stream.tool_call c2 " + first,
		"stream.tool_result c2 " + first, "stream.tool_result c1 " + first,
		"stream.tool_call c3 " + both, "stream.tool_result c3 " + both, "stream.done  " + both + "\n\nDone.",
	}, order)
	for i, name := range types {
		switch data[i]["toolCallId"] {
		case "c1":
			require.Equal(t, "search", data[i]["toolName"])
			if name == "stream.tool_call" {
				require.Equal(t, map[string]any{"q": "cats"}, data[i]["args"])
			} else {
				require.Equal(t, map[string]any{"hits": 2.0}, data[i]["result"])
			}
		case "c2":
			if name == "stream.tool_call" {
				require.Equal(t, map[string]any{}, data[i]["args"])
			} else {
				require.Equal(t, map[string]any{"error": "invalid arguments"}, data[i]["result"])
			}
		}
	}
}

func TestMessageStreamOfATurnThatPauses(t *testing.T) {
	n := newNode(t, endpointtest.Off)
	go func() {
		run := (<-n.sent).GetRunId()
		n.say("I will write to Bob.")
		action := approval("act_1")
		n.publish(run,
			use("I will write to Bob.", &conversationpb.ToolCall{Id: "call_act_1", Name: "send_mail", Arguments: `{"to":"bob"}`}),
			&conversationpb.Event{Body: &conversationpb.Event_ActionRequested{
				ActionRequested: &conversationpb.ActionRequested{Action: action},
			}},
			paused("I will write to Bob.", action))
	}()
	types, data := n.send(t, "hi").told(t)
	require.Equal(t, "stream.tool_call", types[len(types)-2])
	done := data[len(data)-1]
	require.Equal(t, "stream.done", types[len(types)-1])
	require.Equal(t, map[string]any{
		"conversationId": "conv_1", "messageId": "msg_answer", "runId": "run_0", "content": "I will write to Bob.",
		"stopReason": "requires_action", "status": "requires_action",
		"pendingActions": []any{map[string]any{
			"id": "act_1", "kind": "tool_approval", "status": "pending", "runId": "run_0", "toolName": "send_mail",
			"toolCallId": "call_act_1", "args": map[string]any{"to": "bob"}, "details": map[string]any{"prompt": "Send?"},
			"requestedAt": "2023-11-14T22:13:20.000Z", "createdAt": "2023-11-14T22:13:20.000Z", "expiresAt": "2023-11-14T22:23:20.000Z",
		}},
	}, done)
}

// waiting puts the talk where a turn waits for people.
func (n *node) waiting(status conversationpb.Status, content string, actions ...*conversationpb.PendingAction) {
	n.publish("run_0", paused(content, actions...))
	n.mu.Lock()
	defer n.mu.Unlock()
	n.state.Status, n.state.Pending, n.state.LastSeq = status, actions, uint64(len(n.log))
	n.state.Paused = &conversationpb.Lease{
		RunId: "run_0", UserMessage: &conversationpb.Message{Id: "msg_0"},
		Answer: &conversationpb.Message{Id: "msg_answer", Content: content},
	}
}

// accept is the owner's word that a turn goes on.
func (n *node) accept(run string, seq uint64) *conversationpb.Reply {
	return &conversationpb.Reply{Body: &conversationpb.Reply_Accepted{Accepted: &conversationpb.Accepted{
		RunId: run, UserMessage: &conversationpb.Message{Id: "msg_0"}, Seq: seq,
	}}}
}

func TestResolveStream(t *testing.T) {
	n := newNode(t, endpointtest.Off)
	n.waiting(conversationpb.Status_WAITING, "I will write to Bob.", approval("act_1"))
	asked := make(chan *conversationpb.Resolve, 1)
	n.onAsk = func(command *conversationpb.Command) (*conversationpb.Reply, error) {
		asked <- command.GetResolve()
		n.publish("run_0", closed("act_1"), resumed(conversationpb.Mode_RESOLVE))
		n.begin("run_0", nil)
		n.say("\n\nIt is")
		go func() { // the stream opens at any time from now on
			n.publish("run_0", results(&conversationpb.ToolCall{Id: "call_act_1", Name: "send_mail", Result: "sent"}))
			n.say(" sent.")
			n.end("run_0", "I will write to Bob.\n\nIt is sent.", endTurn())
		}()
		return n.accept("run_0", 1), nil
	}
	types, data := n.request(t, "/actions/act_1",
		`{"resolution":{"type":"tool_approval","decision":"allow","rememberForSession":true},"stream":true}`).told(t)
	require.Equal(t, []string{"stream.start", "stream.action_resolved"}, types[:2])
	require.Equal(t, map[string]any{"conversationId": "conv_1", "messageId": "msg_0"}, data[0])
	require.Equal(t, map[string]any{
		"conversationId": "conv_1", "runId": "run_0", "actionId": "act_1", "kind": "tool_approval", "toolName": "send_mail",
		"toolCallId": "call_act_1", "decision": "allow",
	}, data[1])
	require.Contains(t, types, "stream.tool_result")
	require.NotContains(t, types, "stream.tool_call", "it was told when it was made")
	require.Equal(t, "\n\nIt is sent.", textIn(t, types, data), "what was said before the pause is not said again")
	require.Equal(t, "I will write to Bob.\n\nIt is sent.", data[len(data)-1]["content"])
	resolve := <-asked
	require.False(t, resolve.GetWait())
	require.True(t, resolve.GetApproval().GetAllow())
	require.True(t, resolve.GetApproval().GetRemember())
}

func textIn(t *testing.T, types []string, data []map[string]any) (text string) {
	t.Helper()
	for i, name := range types {
		if name == "stream.text" {
			piece, ok := data[i]["text"].(string)
			require.True(t, ok)
			text += piece
		}
	}
	return text
}

func TestResolveStreamWhileOthersArePending(t *testing.T) {
	n := newNode(t, endpointtest.Off)
	first, second := approval("act_1"), approval("act_2")
	n.waiting(conversationpb.Status_WAITING, "Two mails.", first, second)
	n.onAsk = func(*conversationpb.Command) (*conversationpb.Reply, error) {
		n.publish("run_0", closed("act_2"))
		return &conversationpb.Reply{Body: &conversationpb.Reply_Turn{Turn: &conversationpb.TurnResult{
			RunId: "run_0", StopReason: conversationpb.StopReason_REQUIRES_ACTION, Pending: []*conversationpb.PendingAction{first},
			Response: &conversationpb.Message{Id: "msg_answer", Content: "Two mails."},
		}}}, nil
	}
	types, data := n.request(t, "/actions/act_2", `{"resolution":{"type":"tool_approval","decision":"deny"},"stream":true}`).told(t)
	require.Equal(t, []string{"stream.start", "stream.action_resolved", "stream.done"}, types)
	require.Equal(t, "deny", data[1]["decision"])
	require.Equal(t, "requires_action", data[2]["stopReason"])
	require.Equal(t, "Two mails.", data[2]["content"])
	require.Equal(t, "msg_answer", data[2]["messageId"])
	pending, ok := data[2]["pendingActions"].([]any)
	require.True(t, ok)
	require.Len(t, pending, 1)
}

func TestContinueStream(t *testing.T) {
	n := newNode(t, endpointtest.Off)
	n.waiting(conversationpb.Status_IDLE, "Once upon a ti")
	n.onAsk = func(command *conversationpb.Command) (*conversationpb.Reply, error) {
		if command.GetContinue() == nil || command.GetContinue().GetWait() {
			return nil, errors.New("a continue that does not wait was expected")
		}
		n.publish("run_0", resumed(conversationpb.Mode_CONTINUE))
		n.begin("run_0", nil)
		go func() {
			n.say("me there ", "was")
			n.publish("run_0", use("me there was", &conversationpb.ToolCall{Id: "c1", Name: "king"}),
				&conversationpb.Event{Body: &conversationpb.Event_BudgetReached{BudgetReached: &conversationpb.BudgetReached{
					SpentNanoUsd: 500_000_000, Budget: &conversationpb.Budget{MaxCostNanoUsd: 500_000_000, OnReach: "pause"},
				}}})
			n.end("run_0", "Once upon a time there was", &conversationpb.TurnEnded{
				StopReason: conversationpb.StopReason_BUDGET_REACHED, Continuable: true,
			})
		}()
		return n.accept("run_0", 1), nil
	}
	types, data := n.request(t, "/continue", `{"stream":true}`).told(t)
	require.Equal(t, "stream.start", types[0])
	require.Equal(t, "me there was", textIn(t, types, data))
	done := data[len(data)-1]
	require.Equal(t, "Once upon a time there was", done["content"])
	require.Equal(t, "budget_reached", done["stopReason"])
	require.Equal(t, "incomplete", done["status"])
	require.Equal(t, true, done["continuable"])
	require.InDelta(t, 0.5, done["spentUsd"], 0)
}

func TestRegenerateAndEditStreams(t *testing.T) {
	for path, want := range map[string]string{
		"/messages/msg_2/regenerate": `{"stream":true,"metadata":{"k":1}}`,
		"/messages/msg_1/edit":       `{"content":"again","stream":true}`,
	} {
		t.Run(path, func(t *testing.T) {
			n := newNode(t, endpointtest.Off)
			held := endpointtest.Talk("conv_1", "ann", 2)
			held.Messages[0].Id, held.Messages[1].Id, held.Messages[1].InReplyTo = "msg_1", "msg_2", "msg_1"
			held.State.LastSeq = 4
			n.Put(held)
			n.onAsk = func(command *conversationpb.Command) (*conversationpb.Reply, error) {
				about := command.GetRegenerate().GetTarget()
				if edit := command.GetEdit(); edit != nil {
					about = edit.GetTarget()
				}
				if about.GetAsOf() != 4 || about.GetMessage() == nil {
					return nil, errors.New("the target is missing")
				}
				go func() {
					n.begin("run_7", nil)
					n.say("Better")
					n.end("run_7", "Better", endTurn())
				}()
				return n.accept("run_7", 0), nil
			}
			types, data := n.request(t, path, want).told(t)
			require.Equal(t, "stream.start", types[0])
			require.Equal(t, "msg_0", data[0]["messageId"])
			require.Equal(t, "Better", textIn(t, types, data))
			require.Equal(t, "run_7", data[len(data)-1]["runId"])
		})
	}
}

func TestEventStreamOfAWaitingTurn(t *testing.T) {
	n := newNode(t, endpointtest.Off)
	s := n.events(t, "?types=session.status_waiting,action.resolved,session.status_running,agent.message.snapshot")
	require.Equal(t, "open", s.must(t).comment)
	n.waiting(conversationpb.Status_WAITING, "Shall I?", approval("act_1"))
	require.Contains(t, s.must(t).data, `"type":"session.status_waiting","data":{"stop_reason":"requires_action",`+
		`"message_id":"msg_answer","content":"Shall I?","pending_action_ids":["act_1"]}`)
	n.publish("run_0", closed("act_1"), resumed(conversationpb.Mode_RESOLVE))
	require.Contains(t, s.must(t).data, `"type":"action.resolved","data":{"action_id":"act_1","by":"ann"}`)
	require.Contains(t, s.must(t).data, `"type":"session.status_running","data":{"mode":"resolve","attempt":1}`)
}
