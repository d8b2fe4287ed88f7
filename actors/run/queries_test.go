package run

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/actors/kit"
	"parley/proto/conversationpb"
	"parley/proto/nodepb"
	"parley/proto/runpb"
)

// shelf is a session and the result of the run that holds it.
type shelf struct {
	kit.View

	session *conversationpb.State
	result  *conversationpb.TurnResult
}

func (s shelf) Head(string) (kit.Head, bool, error) {
	if s.session == nil {
		return kit.Head{}, false, nil
	}
	raw, err := proto.Marshal(s.session)
	return kit.Head{State: raw}, true, err
}

func (s shelf) Item(string, uint8, []byte) ([]byte, bool, error) {
	raw, err := proto.Marshal(s.result)
	return raw, true, err
}

// A run hears only afterwards what was decided in its session, and does not ask for it again meanwhile.
func TestRunIsReadAsItsSessionIs(t *testing.T) {
	waits := func(turn string, actions ...string) *conversationpb.State {
		return &conversationpb.State{
			Status: conversationpb.Status_WAITING, Paused: &conversationpb.Lease{RunId: turn}, Pending: pending(actions...),
		}
	}
	for name, one := range map[string]struct {
		session *conversationpb.State
		status  runpb.Status
		left    []string
	}{
		"waits":                     {waits("turn_1", "a", "b"), runpb.Status_REQUIRES_ACTION, []string{"a", "b"}},
		"one is decided":            {waits("turn_1", "b"), runpb.Status_REQUIRES_ACTION, []string{"b"}},
		"goes on":                   {&conversationpb.State{Status: conversationpb.Status_RUNNING, Lease: &conversationpb.Lease{RunId: "turn_1"}}, runpb.Status_RUNNING, nil},
		"has ended":                 {&conversationpb.State{Status: conversationpb.Status_IDLE, LastRunId: "turn_1"}, runpb.Status_RUNNING, nil},
		"waits anew":                {waits("turn_1", "c"), runpb.Status_RUNNING, nil},
		"waits in a turn of others": {waits("turn_2", "a"), runpb.Status_RUNNING, nil},
	} {
		run := &runpb.State{Id: "run_1", TurnRunId: "turn_1", Status: runpb.Status_REQUIRES_ACTION, Pending: pending("a", "b"), HasResult: true}
		view := shelf{session: one.session, result: &conversationpb.TurnResult{RunId: "turn_1", Pending: pending("a", "b")}}
		reply, err := readRun(view, run, &nodepb.RunQuery{Id: "run_1"})
		require.NoError(t, err, name)
		require.Equal(t, one.status, reply.GetRun().GetStatus(), name)
		require.Equal(t, one.left, ids(reply.GetRun().GetPending()), name)
		require.Equal(t, one.left, ids(reply.GetResult().GetPending()), name)
		require.Equal(t, one.left != nil, reply.GetResult() != nil, name)
	}
	gone, err := readRun(shelf{}, &runpb.State{Status: runpb.Status_REQUIRES_ACTION, HasResult: true}, &nodepb.RunQuery{})
	require.NoError(t, err)
	require.Equal(t, runpb.Status_REQUIRES_ACTION, gone.GetRun().GetStatus(), "its end is told in a moment")
}

func pending(ids ...string) (all []*conversationpb.PendingAction) {
	for _, id := range ids {
		all = append(all, &conversationpb.PendingAction{Id: id})
	}
	return all
}

func ids(actions []*conversationpb.PendingAction) (all []string) {
	for _, action := range actions {
		all = append(all, action.GetId())
	}
	return all
}
