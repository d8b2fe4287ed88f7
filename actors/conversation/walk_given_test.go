package conversation_test

import (
	"pgregory.net/rapid"

	"parley/proto/conversationpb"
)

// alongside adds what POST /responses sends with a message.
func (w *walk) alongside(send *conversationpb.Send) {
	t := w.t
	call := func(id string) *conversationpb.ToolCall {
		return &conversationpb.ToolCall{Id: id, Name: w.tool(), Arguments: "{}", Result: rapid.SampledFrom([]string{"r", "", "\xff"}).Draw(t, "result")}
	}
	for range rapid.IntRange(0, 3).Draw(t, "earlier") {
		message := &conversationpb.Message{Role: conversationpb.Role_USER, Content: "before \xff"}
		if rapid.Bool().Draw(t, "assistant") {
			message.Role, message.ToolCalls = conversationpb.Role_ASSISTANT, []*conversationpb.ToolCall{call("e1")}
		}
		send.Earlier = append(send.Earlier, message)
	}
	for range rapid.IntRange(0, 2).Draw(t, "given") {
		send.Given = append(send.Given, &conversationpb.ToolUse{Text: "hm \xff", Calls: []*conversationpb.ToolCall{call("g1"), call("g2")}})
	}
	send.Options = w.options()
}

func (w *walk) options() *conversationpb.TurnOptions {
	return rapid.SampledFrom([]*conversationpb.TurnOptions{
		nil, {Instructions: "be brief"}, {Instructions: "\xff"}, {},
	}).Draw(w.t, "options")
}

// answer gives outputs of calls that wait, mostly.
func (w *walk) answer() *conversationpb.Answer {
	t := w.t
	answer := &conversationpb.Answer{Agent: w.agent(), Wait: rapid.Bool().Draw(t, "wait"), Options: w.options()}
	for _, action := range w.state().GetPending() {
		client := action.GetKind() == conversationpb.KindClient
		if client == (rapid.IntRange(0, 9).Draw(t, "answered") != 7) {
			answer.Outputs = append(answer.Outputs, &conversationpb.ToolCall{
				Id: action.GetToolCallId(), Result: rapid.SampledFrom([]string{"done", "", "\xff"}).Draw(t, "output"),
			})
		}
	}
	return answer
}
