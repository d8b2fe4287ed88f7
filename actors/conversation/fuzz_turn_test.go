package conversation_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"parley/actors/machine/machinetest"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
)

// FuzzTurn puts any text where models, tools and people put theirs: it is refused or stored, what is stored can be
// written, and the turn can always end.
func FuzzTurn(f *testing.F) {
	f.Add("pay", `{"n":1}`, "c1", `{"n":2}`, "fine")
	f.Add("\xff", "\xff", "\xff", "{\"\xff\":1}", "\xff")
	f.Add("", "[", "", `"`, "")
	f.Add("a\u2028", "{\n}", "c1", "null", "\x00")
	f.Fuzz(func(t *testing.T, tool, args, id, given, said string) {
		e := machinetest.NewEntity(suite().Machine)
		for _, command := range []*conversationpb.Command{
			{Body: &conversationpb.Command_Create{Create: &conversationpb.Create{Agent: &agentpb.Agent{Id: "a"}}}},
			{Body: &conversationpb.Command_Send{Send: &conversationpb.Send{Content: "x"}}},
			progress(1, said, &conversationpb.Progress_Use{Use: &conversationpb.ToolUse{
				Text: said,
				Calls: []*conversationpb.ToolCall{
					{Id: id, Name: tool, Arguments: args},
					{Id: id + "q", Name: tool, Arguments: args},
					{Id: id + "c", Name: tool},
					{Id: id + "r", Name: tool, Arguments: args},
				},
				Open: []*conversationpb.OpenCall{
					{Need: conversationpb.Need_APPROVAL, Args: []byte(given), Schema: []byte(args), Details: []byte(given)},
					{Need: conversationpb.Need_QUESTION, Details: []byte(given)},
					{Need: conversationpb.Need_CLIENT},
					{Need: conversationpb.Need_RUN},
				},
			}}),
			progress(2, said, &conversationpb.Progress_Results{Results: &conversationpb.ToolResults{
				Results: []*conversationpb.ToolCall{{Id: id + "r", Name: said, Result: said, Error: given}},
			}}),
			{CommandId: id, Body: &conversationpb.Command_Resolve{Resolve: &conversationpb.Resolve{
				ActionId: "act_1", Resolution: &conversationpb.Resolve_Approval{Approval: &conversationpb.ToolApproval{
					Allow: true, Remember: true, ApprovedArgs: []byte(given), Comment: said,
				}},
			}}},
			{Body: &conversationpb.Command_Resolve{Resolve: &conversationpb.Resolve{
				ActionId: "act_2", Resolution: &conversationpb.Resolve_Answers{Answers: &conversationpb.UserAnswers{Answers: []byte(given)}},
			}}},
			{Body: &conversationpb.Command_Resolve{Resolve: &conversationpb.Resolve{
				ActionId: "act_3", Resolution: &conversationpb.Resolve_Client{Client: &conversationpb.ClientResult{
					Output: []byte(given), Error: said,
				}},
			}}},
			{Body: &conversationpb.Command_Forget{Forget: &conversationpb.Forget{Tool: tool}}},
			{Body: &conversationpb.Command_Cancel{Cancel: &conversationpb.Cancel{}}},
			{Body: &conversationpb.Command_Finish{Finish: &conversationpb.Finish{
				RunId: "run_1", StopReason: conversationpb.StopReason_BUDGET_REACHED, Content: said,
				Partial: &conversationpb.Partial{Text: given},
			}}},
		} {
			// Whoever may touch anything may call themselves anything.
			command.ConversationId, command.Caller = "conv_1", &conversationpb.Caller{UserId: said, Trusted: true}
			if command.GetCreate() != nil {
				command.Caller.UserId = "ann"
			}
			_, _, err := e.Do(command, fuzzEnv(e))
			require.NoError(t, err)
		}
		s, _ := e.State.(*conversationpb.State)
		require.Equal(t, conversationpb.Status_IDLE, s.GetStatus())
	})
}

func progress(step uint32, content string, body any) *conversationpb.Command {
	p := &conversationpb.Progress{RunId: "run_1", Epoch: 1, Step: step, Content: content}
	switch body := body.(type) {
	case *conversationpb.Progress_Use:
		p.Body = body
	case *conversationpb.Progress_Results:
		p.Body = body
	}
	return &conversationpb.Command{Body: &conversationpb.Command_Progress{Progress: p}}
}
