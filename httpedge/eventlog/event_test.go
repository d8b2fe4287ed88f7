package eventlog

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/reflect/protoreflect"

	"parley/proto/conversationpb"
)

// TestEveryEventOnTheWire holds the type and data of each event inside a turn, and of those that belong to none.
func TestEveryEventOnTheWire(t *testing.T) {
	usage := &conversationpb.Usage{InputTokens: 2, OutputTokens: 3, Priced: true, CostNanoUsd: 1_500_000}
	const usageData = `"usage":{"input_tokens":2,"output_tokens":3,"total_tokens":5,"cost_usd":0.0015}`
	action := &conversationpb.PendingAction{
		Id: "act_1", Kind: "user_question", ToolName: "ask_user", ToolCallId: "c1", UnknownOutcome: true,
		Args: []byte("{\"questions\":[\n{\"question\":\"Why?\"}]}"), ExpiresAt: 1_700_000_000_000,
	}
	answer := &conversationpb.Message{Id: "msg_2", Content: "So far", Pending: []*conversationpb.PendingAction{action}}
	edited := &conversationpb.Message{
		Id: "msg_3", Content: "again", Edited: true, EditedFrom: "msg_1",
		Files: []*conversationpb.FileRef{{Id: "file_1", Name: "a.txt", MimeType: "text/plain", Size: 7}},
	}
	cases := []struct {
		event *conversationpb.Event
		want  string // type and data
	}{
		{&conversationpb.Event{Body: &conversationpb.Event_MessageQueued{MessageQueued: &conversationpb.MessageQueued{
			Queued: &conversationpb.Queued{Message: &conversationpb.Message{Id: "msg_9", Content: "next"}, First: true},
		}}}, `"message.queued","data":{"content":"next","message_id":"msg_9","interrupts":true}`},
		{&conversationpb.Event{Body: &conversationpb.Event_MessageDequeued{MessageDequeued: &conversationpb.MessageDequeued{MessageId: "msg_9"}}}, `"message.unqueued","data":{"message_id":"msg_9"}`},
		{
			&conversationpb.Event{Body: &conversationpb.Event_UserMessage{UserMessage: &conversationpb.UserMessage{Message: edited}}},
			`"user.message","data":{"content":"again","message_id":"msg_3","edited":true,"edited_from":"msg_1",` +
				`"files":[{"id":"file_1","name":"a.txt","mime_type":"text/plain","size":7}]}`,
		},
		{&conversationpb.Event{Body: &conversationpb.Event_AgentMessage{AgentMessage: &conversationpb.AgentMessage{
			Message: &conversationpb.Message{Id: "msg_4", Content: "hi", StopReason: 1, RegeneratedFrom: "msg_2"},
		}}}, `"agent.message","data":{"content":"hi","message_id":"msg_4","stop_reason":"end_turn","regenerated_from":"msg_2"}`},
		{&conversationpb.Event{Body: &conversationpb.Event_ToolUse{ToolUse: &conversationpb.ToolUse{
			Text: "Let me", Usage: usage, State: []byte("of the provider alone"), Calls: []*conversationpb.ToolCall{
				{Id: "c1", Name: "ask", Arguments: "{ \"a\": 1 }"}, {Id: "c2", Name: "bad", Arguments: "nonsense"},
			},
		}}}, `"agent.tool_use","data":{"text":"Let me","tool_calls":[{"tool_call_id":"c1","tool_name":"ask","args":{"a":1}},` +
			`{"tool_call_id":"c2","tool_name":"bad","args":{}}],` + usageData + `}`},
		{&conversationpb.Event{Body: &conversationpb.Event_ToolResults{ToolResults: &conversationpb.ToolResults{
			Results: []*conversationpb.ToolCall{
				{Id: "c1", Name: "ask", Result: "[1, 2]"}, {Id: "c2", Name: "bad", Error: "no"}, {Id: "c3", Name: "say", Result: "1"},
			},
		}}}, `"agent.tool_result","data":{"results":[{"tool_call_id":"c1","tool_name":"ask","result":[1,2]},` +
			`{"tool_call_id":"c2","tool_name":"bad","result":{"error":"no"}},{"tool_call_id":"c3","tool_name":"say","result":"1"}]}`},
		{
			&conversationpb.Event{Body: &conversationpb.Event_Partial{Partial: &conversationpb.Partial{Text: "Onc", Usage: usage}}},
			`"agent.partial","data":{"text":"Onc",` + usageData + `}`,
		},
		{&conversationpb.Event{Body: &conversationpb.Event_Reserved{
			Reserved: &conversationpb.Reserved{ReservedNanoUsd: 2_000_000, SpentNanoUsd: 1_000_000_000},
		}}, `"budget.reserved","data":{"reserved_usd":0.002,"spent_usd":1}`},
		{&conversationpb.Event{Body: &conversationpb.Event_SessionUsage{
			SessionUsage: &conversationpb.SessionUsage{Usage: usage, SpentNanoUsd: 1_000_000_000},
		}}, `"session.usage","data":{` + usageData + `,"spent_usd":1}`},
		{&conversationpb.Event{Body: &conversationpb.Event_BudgetReached{BudgetReached: &conversationpb.BudgetReached{
			SpentNanoUsd: 1_000_000_000, Budget: &conversationpb.Budget{MaxCostNanoUsd: 1_000_000_000, OnReach: "stop"},
		}}}, `"budget.reached","data":{"max_cost_usd":1,"on_reach":"stop","spent_usd":1}`},
		{&conversationpb.Event{Body: &conversationpb.Event_ActionRequested{
			ActionRequested: &conversationpb.ActionRequested{Action: action},
		}}, `"action.requested","data":{"action_id":"act_1","kind":"user_question","tool_name":"ask_user","tool_call_id":"c1",` +
			`"args":{"questions":[{"question":"Why?"}]},"questions":[{"question":"Why?"}],"details":{},"unknown_outcome":true,` +
			`"expires_at":"2023-11-14T22:13:20.000Z"}`},
		{
			&conversationpb.Event{Body: &conversationpb.Event_TurnPaused{TurnPaused: &conversationpb.TurnPaused{Answer: answer}}},
			`"session.status_waiting","data":{"stop_reason":"requires_action","message_id":"msg_2","content":"So far",` +
				`"pending_action_ids":["act_1"]}`,
		},
		{&conversationpb.Event{Body: &conversationpb.Event_ActionClosed{ActionClosed: &conversationpb.ActionClosed{
			Id: "act_1", How: "resolved", By: "ann", ToolCallId: "c1", Resolution: []byte("{\"type\":\n\"user_question\"}"),
		}}}, `"action.resolved","data":{"action_id":"act_1","tool_call_id":"c1","by":"ann","resolution":{"type":"user_question"}}`},
		{&conversationpb.Event{Body: &conversationpb.Event_ActionClosed{
			ActionClosed: &conversationpb.ActionClosed{Id: "act_1", How: "expired"},
		}}, `"action.expired","data":{"action_id":"act_1"}`},
		{&conversationpb.Event{Body: &conversationpb.Event_ActionClosed{
			ActionClosed: &conversationpb.ActionClosed{Id: "act_1", How: "cancelled"},
		}}, `"action.cancelled","data":{"action_id":"act_1"}`},
		{&conversationpb.Event{Body: &conversationpb.Event_TurnResumed{TurnResumed: &conversationpb.TurnResumed{
			Lease: &conversationpb.Lease{Mode: conversationpb.Mode_CONTINUE, Attempt: 1},
		}}}, `"session.status_running","data":{"mode":"continue","attempt":1}`},
		{&conversationpb.Event{Body: &conversationpb.Event_Truncated{
			Truncated: &conversationpb.Truncated{From: 3, MessageId: "msg_1", Removed: 2},
		}}, `"session.truncated","data":{"message_id":"msg_1","removed":2}`},
		{&conversationpb.Event{Body: &conversationpb.Event_MessageChanged{MessageChanged: &conversationpb.MessageChanged{
			Message: &conversationpb.Message{Id: "msg_2", Feedback: &conversationpb.Feedback{
				Rating: "down", Reasons: []string{"unsafe"}, Comment: "no", UserId: "ann",
			}},
		}}}, `"message.feedback","data":{"message_id":"msg_2","rating":"down","reasons":["unsafe"],"comment":"no","user_id":"ann"}`},
		{&conversationpb.Event{Body: &conversationpb.Event_MessageChanged{
			MessageChanged: &conversationpb.MessageChanged{Message: &conversationpb.Message{Id: "msg_2"}},
		}}, `"message.feedback","data":{"message_id":"msg_2","rating":null}`},
		{&conversationpb.Event{Body: &conversationpb.Event_FileAdded{FileAdded: &conversationpb.FileAdded{
			File: &conversationpb.File{Id: "file_1", Name: "a.txt", MimeType: "text/plain", Size: 7, Sha256: []byte{1}},
		}}}, `"file.added","data":{"file":{"id":"file_1","name":"a.txt","mime_type":"text/plain","size":7}}`},
		{&conversationpb.Event{Body: &conversationpb.Event_FilesRemoved{
			FilesRemoved: &conversationpb.FilesRemoved{Ids: []string{"file_1"}, How: "expired"},
		}}, `"file.removed","data":{"file_ids":["file_1"],"reason":"expired"}`},
		{&conversationpb.Event{Body: &conversationpb.Event_ToolRemembered{
			ToolRemembered: &conversationpb.ToolRemembered{Tool: "search"},
		}}, `"tool.remembered","data":{"tool_name":"search"}`},
		{&conversationpb.Event{Body: &conversationpb.Event_ToolRemembered{
			ToolRemembered: &conversationpb.ToolRemembered{Tool: "search", Forgotten: true},
		}}, `"tool.forgotten","data":{"tool_name":"search"}`},
	}
	described := documentedEvents(t, false)
	for _, c := range cases {
		c.event.Seq, c.event.RunId, c.event.CreatedAt = 7, "run_1", 1_700_000_000_123
		got := string(Append(nil, c.event, Conversation))
		fits(t, described, c.event)
		require.Equal(t, `{"seq":7,"type":`+c.want+`,"run_id":"run_1","created_at":"2023-11-14T22:13:20.123Z"}`, got)
	}
}

// TestEveryTypeCanBeSelected: each type has a place of its own among those that a client may ask for.
func TestEveryTypeCanBeSelected(t *testing.T) {
	all := selectTypes([]string{typeDelta, typeSnapshot})
	for _, name := range conversationpb.PublicTypes() {
		bit := typeBit(name)
		require.NotZero(t, bit, name)
		require.Zero(t, all&bit, name)
		all |= bit
	}
	require.Zero(t, typeBit(""))
	require.Zero(t, typeBit("session.unknown"))
}

// TestEveryPublicEventHasData: each member of Event.body that has a public type is written with the values that it holds, all of which
// the documents describe.
func TestEveryPublicEventHasData(t *testing.T) {
	described := documentedEvents(t, true)
	bodies := new(conversationpb.Event).ProtoReflect().Descriptor().Oneofs().ByName("body").Fields()
	for i := range bodies.Len() {
		event := &conversationpb.Event{Seq: 1}
		fill(event.ProtoReflect().Mutable(bodies.Get(i)).Message(), 4)
		if event.PublicType() == "" {
			continue
		}
		if closed := event.GetActionClosed(); closed != nil {
			closed.Resolution = []byte(`{"type":"tool_approval","decision":"allow","approvedArgs":{"a":1},"rememberForSession":true}`)
		}
		fits(t, described, event)
		line := Append(nil, event, Conversation)
		if event.GetCancelRequested() == nil { // which has nothing to show
			require.NotContains(t, string(line), `"data":{},`, bodies.Get(i).Name())
		}
	}
}

// fill sets every field of a message, of the messages in it down to a depth, and one value of each list.
func fill(message protoreflect.Message, depth int) {
	fields := message.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		switch {
		case field.IsMap():
		case field.IsList() && field.Message() != nil:
			value := message.Mutable(field).List().AppendMutable()
			if depth > 0 {
				fill(value.Message(), depth-1)
			}
		case field.IsList():
			message.Mutable(field).List().Append(valueOf(field))
		case field.Message() == nil:
			message.Set(field, valueOf(field))
		case depth > 0:
			fill(message.Mutable(field).Message(), depth-1)
		}
	}
}

func valueOf(field protoreflect.FieldDescriptor) protoreflect.Value {
	switch field.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(1)
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(`{"a":1}`))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(1)
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(1)
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(1)
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(1)
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(1)
	default:
		return protoreflect.ValueOfString("x")
	}
}
