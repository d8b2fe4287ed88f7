package conversation_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/actors/conversation"
	"parley/proto/conversationpb"
)

// TestActionsOfOnePauseAreBounded: many calls with large arguments do not make an entry that cannot be stored.
func TestActionsOfOnePauseAreBounded(t *testing.T) {
	limits := conversation.DefaultLimits()
	k := newTalk(t, limits)
	k.do(&conversationpb.Command{Body: &conversationpb.Command_Send{Send: &conversationpb.Send{Content: "x"}}})
	use := &conversationpb.ToolUse{}
	for i := range limits.MaxPending {
		use.Calls = append(use.Calls, &conversationpb.ToolCall{
			Id: fmt.Sprint("c", i), Name: "order", Arguments: `{"a":"` + strings.Repeat("x", 60<<10) + `"}`,
		})
		use.Open = append(use.Open, &conversationpb.OpenCall{Need: conversationpb.Need_APPROVAL})
	}
	k.do(progress(1, "", &conversationpb.Progress_Use{Use: use}))
	require.Equal(t, conversationpb.Status_WAITING, k.state().GetStatus())
	require.Len(t, k.state().GetPending(), 8)
	require.EqualValues(t, 2, k.state().GetPaused().GetSteps(), "the others failed at once")
	for _, call := range k.state().GetPaused().GetCalls() {
		require.Equal(t, call.GetActionId() == "", call.GetDone())
	}
}

// TestRepeatedResolveOfForgottenCommands: a resolve that is given again is carried out where it cannot have been, and
// refused where it may have been.
func TestRepeatedResolveOfForgottenCommands(t *testing.T) {
	limits := conversation.DefaultLimits()
	limits.Outcomes = 2
	k := newTalk(t, limits)
	k.do(&conversationpb.Command{Body: &conversationpb.Command_Send{Send: &conversationpb.Send{Content: "x"}}})
	use := &conversationpb.ToolUse{}
	for i := range 6 {
		use.Calls = append(use.Calls, &conversationpb.ToolCall{Id: fmt.Sprint("c", i), Name: "order"})
		use.Open = append(use.Open, &conversationpb.OpenCall{Need: conversationpb.Need_APPROVAL})
	}
	k.do(progress(1, "", &conversationpb.Progress_Use{Use: use}))
	allow := func(action int, repeated bool) *conversationpb.Command {
		return &conversationpb.Command{
			CommandId: fmt.Sprint("r", action), IssuedAt: int64(1000 + action), Repeated: repeated,
			Body: &conversationpb.Command_Resolve{Resolve: &conversationpb.Resolve{
				ActionId:   fmt.Sprint("act_", action),
				Resolution: &conversationpb.Resolve_Approval{Approval: &conversationpb.ToolApproval{Allow: true}},
			}},
		}
	}
	for action := 1; action <= 4; action++ {
		k.do(allow(action, false))
	}
	seq := k.state().GetLastSeq()
	_, failure := k.try(allow(1, true))
	require.NotNil(t, failure)
	require.Equal(t, "UNAVAILABLE", failure.Code.String(), "it is forgotten how that went")
	k.do(allow(4, true))
	require.Equal(t, seq, k.state().GetLastSeq(), "it is remembered")
	late := allow(5, true)
	late.IssuedAt = 1
	k.do(late)
	require.Equal(t, seq+1, k.state().GetLastSeq(), "it is still pending: nobody has decided it")
}
