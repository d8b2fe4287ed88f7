package conversation_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/actors/conversation"
	"parley/actors/machine"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// TestRepeatsOfForgottenCommands: a command that is given again is answered while its outcome is remembered; later it
// is refused where it may have been carried out, and carried out where it cannot have been.
func TestRepeatsOfForgottenCommands(t *testing.T) {
	limits := conversation.DefaultLimits()
	limits.Outcomes = 4
	rules := conversation.New(limits)
	caller := &conversationpb.Caller{TenantId: "t", ProjectId: "p", Trusted: true}
	made := 0
	env := machine.Env{Node: "n1", Epoch: 1, NewID: func(kind string) string {
		made++
		return fmt.Sprint(kind, "_", made)
	}}
	var state proto.Message
	give := func(c *conversationpb.Command) (*conversationpb.Reply, *machine.Failure) {
		c.ConversationId, c.Caller = "conv_1", caller
		decision, failure := rules.Decide(state, c, env)
		if failure != nil {
			return nil, failure
		}
		state = rules.Evolve(state, decision.Events)
		reply, _ := decision.Reply.(*conversationpb.Reply)
		return reply, nil
	}
	rename := func(id string, issued int64, repeated bool) *conversationpb.Command {
		return &conversationpb.Command{
			CommandId: id, IssuedAt: issued, Repeated: repeated,
			Body: &conversationpb.Command_Update{Update: &conversationpb.Update{Patch: &conversationpb.Patch{Title: proto.String(id)}}},
		}
	}
	title := func() string {
		s, ok := state.(*conversationpb.State)
		require.True(t, ok)
		return s.GetTitle()
	}
	_, failure := give(&conversationpb.Command{
		CommandId: "create", IssuedAt: 50, Body: &conversationpb.Command_Create{Create: &conversationpb.Create{Agent: agent()}},
	})
	require.Nil(t, failure)

	for i := range 10 { // the clocks of those who ask do not agree
		_, failure = give(rename(fmt.Sprint("u", i), int64(100+10*i-25*(i%2)), false))
		require.Nil(t, failure)
	}
	for i := 6; i < 10; i++ {
		_, failure = give(rename(fmt.Sprint("u", i), int64(100+10*i-25*(i%2)), true))
		require.Nil(t, failure, "u%d is remembered", i)
		require.Equal(t, "u9", title(), "and not carried out again")
	}
	for i := range 6 {
		_, failure = give(rename(fmt.Sprint("u", i), int64(100+10*i-25*(i%2)), true))
		require.NotNil(t, failure, "u%d was carried out and is forgotten", i)
		require.Equal(t, failurepb.Code_UNAVAILABLE, failure.Code)
	}
	for _, command := range []*conversationpb.Command{
		{CommandId: "s", Body: &conversationpb.Command_Send{Send: &conversationpb.Send{Agent: agent(), Content: "hi"}}},
		{CommandId: "c", Body: &conversationpb.Command_Cancel{Cancel: &conversationpb.Cancel{}}},
	} {
		command.Repeated, command.IssuedAt = true, 120
		_, failure = give(command)
		require.NotNil(t, failure, command.CommandId)
		require.Equal(t, failurepb.Code_UNAVAILABLE, failure.Code)
	}
	require.Equal(t, "u9", title())

	_, failure = give(rename("never_came", 200, true))
	require.Nil(t, failure, "it was issued after all that is forgotten: it cannot have been carried out")
	require.Equal(t, "never_came", title())
	_, failure = give(rename("late", 90, false))
	require.Nil(t, failure, "what is given for the first time is carried out, however long it took")
	require.Equal(t, "late", title())
}
