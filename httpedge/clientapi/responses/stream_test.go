package responses

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/httpedge/sse"
	"parley/proto/conversationpb"
)

// heard is what a client makes of a stream: types in order, the text of the deltas, the response of the last event.
type heard struct {
	types []string
	text  string
	last  json.RawMessage
}

func (h *heard) take(t *testing.T, frame sse.Frame) {
	t.Helper()
	for _, found := range regexp.MustCompile(`data: (\{.*\})\n`).FindAllStringSubmatch(string(frame), -1) {
		var event struct {
			Type     string
			Sequence int `json:"sequence_number"`
			Delta    string
			Response json.RawMessage
			Code     string
		}
		require.NoError(t, json.Unmarshal([]byte(found[1]), &event), found[1])
		require.Equal(t, len(h.types), event.Sequence)
		h.types = append(h.types, strings.TrimPrefix(event.Type, "response."))
		if event.Type == "response.output_text.delta" {
			h.text += event.Delta
		}
		h.last = event.Response
	}
}

func viewOf(prior string) *responseView {
	view := &responseView{wholeResponse: &wholeResponse{session: "conv_1", agent: "a", echo: newEcho(&createResponseIn{}), prior: prior, number: 2}, run: "r"}
	view.resume()
	return view
}

func of(body *conversationpb.Event) *conversationpb.Event {
	body.RunId = "r"
	return body
}

func said(text string, calls ...*conversationpb.ToolCall) *conversationpb.Event {
	return of(&conversationpb.Event{Body: &conversationpb.Event_AgentMessage{AgentMessage: &conversationpb.AgentMessage{
		Message: &conversationpb.Message{Content: text, Number: 2, ToolCalls: calls},
	}}})
}

func endedBy(reason conversationpb.StopReason) *conversationpb.Event {
	return of(&conversationpb.Event{Body: &conversationpb.Event_TurnEnded{TurnEnded: &conversationpb.TurnEnded{StopReason: reason}}})
}

func TestResponseView(t *testing.T) {
	whole := []string{"output_item.added", "content_part.added", "output_text.delta", "output_text.done", "content_part.done", "output_item.done", "completed"}
	tell := func(t *testing.T, view *responseView, events ...*conversationpb.Event) *heard {
		t.Helper()
		h, done := &heard{}, false
		for _, event := range events {
			require.False(t, done)
			var frame sse.Frame
			frame, done = view.Event(event)
			h.take(t, frame)
		}
		require.True(t, done)
		return h
	}
	t.Run("text_that_was_missed_comes_before_the_end", func(t *testing.T) {
		h := tell(t, viewOf(""), said("Hello"), endedBy(conversationpb.StopReason_END_TURN))
		require.Equal(t, whole, h.types)
		require.Equal(t, "Hello", h.text)
	})
	t.Run("nothing_said", func(t *testing.T) {
		h := tell(t, viewOf(""), said(""), endedBy(conversationpb.StopReason_END_TURN))
		require.Equal(t, []string{"output_item.added", "content_part.added", "output_text.done", "content_part.done", "output_item.done", "completed"}, h.types)
	})
	t.Run("what_was_said_before_is_not_told_again", func(t *testing.T) {
		view := viewOf("Before.")
		h := &heard{}
		h.take(t, view.Delta(sse.Run{ID: "r", Text: []byte("\n\nAf")}, 0))
		h.take(t, view.Delta(sse.Run{ID: "r", Text: []byte("\n\nAfter")}, 4))
		h.take(t, view.Delta(sse.Run{ID: "other", Text: []byte("x")}, 0))
		frame, _ := view.Event(said("Before.\n\nAfter."))
		h.take(t, frame)
		frame, done := view.Event(endedBy(conversationpb.StopReason_END_TURN))
		h.take(t, frame)
		require.True(t, done)
		require.Equal(t, "After.", h.text)
		var response struct{ Output []struct{ ID string } }
		require.NoError(t, json.Unmarshal(h.last, &response))
		require.Equal(t, "msg_conv_1.2.7", response.Output[0].ID)
	})
	t.Run("a_recovered_run_says_something_else", func(t *testing.T) {
		view, h := viewOf(""), &heard{}
		h.take(t, view.Delta(sse.Run{ID: "r", Text: []byte("Hello")}, 0))
		h.take(t, view.Snapshot(sse.Run{ID: "r", Text: []byte("Good day")}))
		frame, _ := view.Event(said("Good day"))
		h.take(t, frame)
		frame, _ = view.Event(endedBy(conversationpb.StopReason_END_TURN))
		h.take(t, frame)
		require.Equal(t, "Hello", h.text, "what was sent cannot be taken back")
		require.Contains(t, string(h.last), "Good day")
	})
	for reason, want := range map[conversationpb.StopReason][3]string{
		conversationpb.StopReason_LIMIT:          {"incomplete", `"status":"incomplete"`, `"incomplete_details":{"reason":"max_output_tokens"}`},
		conversationpb.StopReason_MAX_TURNS:      {"incomplete", `"status":"incomplete"`, `"incomplete_details":{"reason":"max_turns"}`},
		conversationpb.StopReason_CANCELLED:      {"incomplete", `"status":"cancelled"`, `"incomplete_details":{"reason":"cancelled"}`},
		conversationpb.StopReason_ERROR:          {"failed", `"status":"failed"`, `"code":"server_error"`},
		conversationpb.StopReason_BUDGET_REACHED: {"failed", `"status":"failed"`, `"code":"budget_reached"`},
	} {
		t.Run(reason.WireName(), func(t *testing.T) {
			h := tell(t, viewOf(""), endedBy(reason))
			require.Equal(t, []string{want[0]}, h.types)
			require.Contains(t, string(h.last), want[1])
			require.Contains(t, string(h.last), want[2])
		})
	}
	t.Run("calls", func(t *testing.T) {
		action := &conversationpb.PendingAction{Kind: conversationpb.KindClient, ToolCallId: "c2", ToolName: "look", Args: []byte(`{"a":1}`)}
		paused := &conversationpb.Event{Body: &conversationpb.Event_TurnPaused{TurnPaused: &conversationpb.TurnPaused{Answer: &conversationpb.Message{
			Number: 2, ToolCalls: []*conversationpb.ToolCall{{Id: "c1"}, {Id: "c2"}}, Pending: []*conversationpb.PendingAction{action},
		}}}}
		h := tell(t, viewOf(""), of(paused))
		require.Equal(t, []string{"output_item.added", "function_call_arguments.delta", "function_call_arguments.done", "output_item.done", "completed"}, h.types)
		require.Contains(t, string(h.last), `{"id":"fc_conv_1.2.1","type":"function_call","call_id":"c2","name":"look","arguments":"{\"a\":1}","status":"completed"}`)
	})
	t.Run("partings", func(t *testing.T) {
		view, h := viewOf(""), &heard{}
		for _, why := range []sse.EndReason{sse.Stopping, sse.Deleted, sse.Lost, sse.Unauthorized, sse.Forbidden} {
			h.take(t, view.End(why))
		}
		require.Equal(t, []string{"error", "error", "error", "error", "error"}, h.types)
	})
}

func TestItemIDs(t *testing.T) {
	place, ok := parseItemID(itemID("fc", "conv_a-b_c", 12, 3))
	require.True(t, ok)
	require.Equal(t, itemPlace{"fc", "conv_a-b_c", 12, 3}, place)
	for _, bad := range []string{"", "msg_1", "msg_conv_1.0.0", "msg_conv_1.x.0", "msg_conv_1.1.-1", "rs_conv_1.1.1", "msg_a.b.1.1", "msg_conv_1.99999999999999.0"} {
		_, ok = parseItemID(bad)
		require.False(t, ok, bad)
	}
	require.Nil(t, referredItem(nil, itemPlace{kind: "msg", at: 0}))
	require.Nil(t, referredItem(&conversationpb.Message{Content: "ä"}, itemPlace{kind: "msg", at: 1}), "in the middle of a letter")
	require.Nil(t, referredItem(&conversationpb.Message{Content: "a"}, itemPlace{kind: "msg", at: 2}))
	require.Nil(t, referredItem(&conversationpb.Message{}, itemPlace{kind: "fc", at: 0}))
}

func TestTranscript(t *testing.T) {
	read := func(t *testing.T, text string) *transcript {
		t.Helper()
		var in itemsInput
		require.NoError(t, json.Unmarshal([]byte(text), &in))
		require.Nil(t, in.failure)
		said, failure := readItems(in.items)
		require.Nil(t, failure)
		return said
	}
	got := read(t, `[{"role":"system","content":"s"},{"role":"assistant","content":"Hi!"},{"role":"user","content":"one"},{"type":"reasoning","id":"rs_1","summary":[]},
		{"role":"assistant","content":[{"type":"output_text","text":"I look."}]},{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"},{"type":"function_call","call_id":"c2","name":"f","arguments":"{}"},
		{"type":"function_call_output","call_id":"c2","output":"2"},{"type":"function_call_output","call_id":"c1","output":[{"type":"input_text","text":"1"}]},{"role":"assistant","content":"Done."},
		{"role":"user","content":"two"},{"type":"function_call","call_id":"c3","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c3","output":"3"},
		{"type":"function_call","call_id":"c4","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c4","output":"4"}]`)
	require.Equal(t, []string{"s"}, got.system)
	require.Equal(t, "two", got.newest.Text)
	messages := got.messages()
	require.Len(t, messages, 3)
	require.Equal(t, []string{"Hi!", "one", "I look.\n\nDone."}, []string{messages[0].GetContent(), messages[1].GetContent(), messages[2].GetContent()})
	require.Equal(t, "1", messages[2].GetToolCalls()[0].GetResult())
	require.Len(t, got.given, 2, "each round is one of its own")
	require.Empty(t, read(t, `"hello"`).messages())
	again := read(t, `[{"role":"user","content":"one"},{"type":"function_call","call_id":"c","name":"f"},{"type":"function_call_output","call_id":"c","output":"1"},
		{"role":"assistant","content":[{"type":"refusal","refusal":"no"}]},{"role":"user","content":"two"},{"type":"function_call","call_id":"c","name":"f"},{"type":"function_call_output","call_id":"c","output":"2"}]`)
	require.Equal(t, []string{"1", "2"}, []string{again.messages()[1].GetToolCalls()[0].GetResult(), again.given[0].GetCalls()[0].GetResult()}, "numbered anew")
	require.Equal(t, "no", again.messages()[1].GetContent())
	require.Nil(t, read(t, `[]`).newest)
	require.Len(t, read(t, `[{"type":"function_call_output","call_id":"c","output":"x"}]`).outputs, 1)
}
