package conversationpb_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"parley/proto/conversationpb"
)

func TestRuntimeStatus(t *testing.T) {
	pausing := &conversationpb.Budget{OnReach: conversationpb.OnReachPause}
	cut := &conversationpb.State{
		Status: conversationpb.Status_IDLE, StopReason: conversationpb.StopReason_BUDGET_REACHED, Continuable: true, Budget: pausing,
	}
	for name, test := range map[string]struct {
		state *conversationpb.State
		want  string
	}{
		"none":    {nil, "idle"},
		"new":     {&conversationpb.State{Status: conversationpb.Status_IDLE}, "idle"},
		"running": {&conversationpb.State{Status: conversationpb.Status_RUNNING, Lease: &conversationpb.Lease{}}, "running"},
		"waiting": {&conversationpb.State{Status: conversationpb.Status_WAITING}, "requires_action"},
		"cut":     {cut, "budget_paused"},
		"cut, and nothing to go on with": {&conversationpb.State{
			Status: conversationpb.Status_IDLE, StopReason: conversationpb.StopReason_BUDGET_REACHED, Budget: pausing,
		}, "idle"},
		"cut, and the budget is gone": {&conversationpb.State{
			Status: conversationpb.Status_IDLE, StopReason: conversationpb.StopReason_BUDGET_REACHED, Continuable: true,
		}, "idle"},
		"held for a run that is queued": {&conversationpb.State{Status: conversationpb.Status_IDLE, BackgroundRun: "run_1"}, "idle"},
	} {
		require.Equal(t, test.want, test.state.RuntimeStatus(), name)
	}
}

func TestStopReasonNames(t *testing.T) {
	names := map[string]int{}
	for value := range conversationpb.StopReason_name {
		names[conversationpb.StopReason(value).WireName()]++
	}
	require.Equal(t, map[string]int{
		"": 1, "end_turn": 1, "requires_action": 1, "cancelled": 1, "limit": 2, "budget_reached": 1, "error": 1,
	}, names)
}

func TestTasksAreNoSessions(t *testing.T) {
	require.False(t, (*conversationpb.State)(nil).IsSession())
	require.False(t, (&conversationpb.State{Source: conversationpb.SourceTask}).IsSession())
	require.True(t, (&conversationpb.State{Source: conversationpb.SourceConversation}).IsSession())
}
