package conversation

import (
	"slices"

	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// rememberTool notes that the tool needs no approval any more in this conversation.
func (r *request) rememberTool(run, tool string) {
	if slices.Contains(r.state.GetRememberedTools(), tool) {
		return
	}
	r.emit(run, &conversationpb.Event{Body: &conversationpb.Event_ToolRemembered{
		ToolRemembered: &conversationpb.ToolRemembered{Tool: tool},
	}})
}

func (r *request) roomToRemember(tool string) *machine.Failure {
	if remembered := r.state.GetRememberedTools(); len(remembered) < r.limits.RememberedTools || slices.Contains(remembered, tool) {
		return nil
	}
	return failure.New(failurepb.Code_VALIDATION, failure.TooManyRememberedTools).Param("most", r.limits.RememberedTools)
}

// forget takes a remembered approval back (document 2, DELETE /conversations/:id/remembered-tools/:tool).
func (r *request) forget(c *conversationpb.Forget) *machine.Failure {
	if f := r.access(); f != nil {
		return f
	}
	known := slices.Contains(r.state.GetRememberedTools(), c.GetTool())
	if !known && r.Command.GetRepeated() { // the first time may have done it
		return r.reply(toolsReply(r.state))
	}
	if !known {
		return failure.New(failurepb.Code_NOT_FOUND, failure.ToolNotRemembered)
	}
	r.emit("", &conversationpb.Event{Body: &conversationpb.Event_ToolRemembered{
		ToolRemembered: &conversationpb.ToolRemembered{Tool: c.GetTool(), Forgotten: true},
	}})
	return r.reply(toolsReply(r.State()))
}

func toolsReply(s *conversationpb.State) *conversationpb.Reply {
	return &conversationpb.Reply{Body: &conversationpb.Reply_Tools{Tools: &conversationpb.Tools{Tools: s.GetRememberedTools()}}}
}
