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

// TestRepeatsThroughClocksThatDiffer: what is forgotten of one node says nothing of a command that another one issued, however far its
// clock is behind.
func TestRepeatsThroughClocksThatDiffer(t *testing.T) {
	const hour = 3_600_000
	limits := conversation.DefaultLimits()
	limits.Outcomes = 4
	rules := conversation.New(limits)
	env := machine.Env{Node: "n1", Epoch: 1, NewID: func(kind string) string { return kind }}
	var state proto.Message
	give := func(id, by string, issued int64, repeated bool) *machine.Failure {
		command := &conversationpb.Command{
			ConversationId: "conv_1", Caller: &conversationpb.Caller{TenantId: "t", ProjectId: "p", Trusted: true},
			CommandId: id, IssuedBy: by, IssuedAt: issued, Repeated: repeated,
			Body: &conversationpb.Command_Update{Update: &conversationpb.Update{Patch: &conversationpb.Patch{Title: proto.String(id)}}},
		}
		if state == nil {
			command.Body = &conversationpb.Command_Create{Create: &conversationpb.Create{Agent: agent()}}
		}
		decision, failure := rules.Decide(state, command, env)
		if failure == nil {
			state = rules.Evolve(state, decision.Events)
		}
		return failure
	}
	require.Nil(t, give("create", "a", 2*hour, false))
	for i := range 10 {
		require.Nil(t, give(fmt.Sprint("a", i), "a", int64(2*hour+i), false))
	}
	require.Nil(t, give("new", "b", hour, true), "b has given nothing before")
	require.NotNil(t, give("a0", "a", 2*hour, true), "a's command was carried out and is forgotten")
	require.NotNil(t, give("old", "", hour, true), "who issued it is not known")
	for i := range 10 {
		require.Nil(t, give(fmt.Sprint("b", i), "b", int64(hour+10+i), false))
	}
	require.NotNil(t, give("b0", "b", hour+10, true))
	require.Nil(t, give("newer", "b", hour+100, true), "it was issued after all of b's that are forgotten")
	require.Nil(t, give("newest", "a", 2*hour+100, true))
	for i := range 40 { // more nodes than are told apart
		for j := range 5 {
			require.Nil(t, give(fmt.Sprint("n", i, "/", j), fmt.Sprint("n", i), int64(3*hour+i), false))
		}
	}
	for i := range 39 {
		require.NotNil(t, give(fmt.Sprint("n", i, "/0"), fmt.Sprint("n", i), int64(3*hour+i), true), i)
	}
	last, is := state.(*conversationpb.State)
	require.True(t, is)
	require.LessOrEqual(t, len(last.GetForgotten()), 16)
	require.EqualValues(t, 3*hour+39, last.GetForgottenAt(), "as the release before reads it")
}
