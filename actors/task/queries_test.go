package task

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/actors/kit"
	"parley/proto/conversationpb"
	"parley/proto/nodepb"
	"parley/proto/taskpb"
)

// shelf is the conversation of a task.
type shelf struct {
	kit.View

	conversation *conversationpb.State
}

func (s shelf) Head(string) (kit.Head, bool, error) {
	raw, err := proto.Marshal(s.conversation)
	return kit.Head{State: raw}, s.conversation != nil, err
}

func TestTaskIsReadAsItsConversationIs(t *testing.T) {
	actions := []*conversationpb.PendingAction{{Id: "a"}}
	for name, one := range map[string]struct {
		conversation *conversationpb.State
		status       taskpb.Status
	}{
		"waits":   {&conversationpb.State{Status: conversationpb.Status_WAITING, Paused: &conversationpb.Lease{RunId: "turn_1"}, Pending: actions}, taskpb.Status_WAITING_FOR_INPUT},
		"goes on": {&conversationpb.State{Status: conversationpb.Status_RUNNING, Lease: &conversationpb.Lease{RunId: "turn_1"}}, taskpb.Status_RUNNING},
		"is gone": {nil, taskpb.Status_WAITING_FOR_INPUT},
	} {
		task := &taskpb.State{Status: taskpb.Status_WAITING_FOR_INPUT, Waiting: &taskpb.Waiting{RunId: "turn_1", Pending: actions}}
		reply, err := readTask(shelf{conversation: one.conversation}, task, &nodepb.TaskQuery{Id: "task_1"})
		require.NoError(t, err, name)
		require.Equal(t, one.status, reply.GetTask().GetStatus(), name)
	}
}
