package run

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/actors/kit"
	"parley/proto/conversationpb"
	"parley/proto/runpb"
	"parley/proto/taskpb"
)

// told is a conversation that knows commands by their outcomes, and keeps what it is told.
type told struct {
	kit.Commander

	state    *conversationpb.State
	commands []*conversationpb.Command
}

func (c *told) AskOutside(_ context.Context, _ uint32, _ string, message proto.Message) (proto.Message, error) {
	command := message.(*conversationpb.Command) //nolint:errcheck,forcetypeassert // nothing else is told
	c.commands = append(c.commands, command)
	if command.GetHold() != nil {
		return &conversationpb.Reply{Body: &conversationpb.Reply_State{State: c.state}}, nil
	}
	return &conversationpb.Reply{Body: &conversationpb.Reply_Cancelled{Cancelled: &conversationpb.Cancelled{Settled: true}}}, nil
}

// TestTaskCancelsItsTurn: others may talk in the conversation of a task. The task is cancelled without them, also when it does not know
// its turn yet.
func TestTaskCancelsItsTurn(t *testing.T) {
	for _, one := range []struct {
		known, begun string
		waiting      *taskpb.Waiting
		cancelled    string
	}{
		{known: "run_1", begun: "run_2", cancelled: "run_1"},
		{begun: "run_2", waiting: &taskpb.Waiting{RunId: "run_0"}, cancelled: "run_2"},
		{waiting: &taskpb.Waiting{RunId: "run_0"}, cancelled: "run_0"},
		{},
	} {
		talk := &told{state: &conversationpb.State{Lease: &conversationpb.Lease{RunId: "somebody's"}, Outcomes: []*conversationpb.Outcome{
			{CommandId: "other", RunId: "somebody's"}, {CommandId: "task_1/3/send", RunId: one.begun},
		}}}
		w := &worker{
			ctx: t.Context(), at: kit.NewRef(1, 1, "task_1", talk), run: &runpb.State{ConversationId: "conv_1", TurnRunId: one.known},
			task: &taskRun{taskJob: taskJob{number: 3, cancelling: true}, state: &taskpb.State{Run: &taskpb.Run{Number: 3, Waiting: one.waiting}}},
		}
		report, err := w.taskStep()
		require.NoError(t, err)
		require.Equal(t, conversationpb.StopReason_CANCELLED, report.GetEnded().GetTurn().GetStopReason())
		require.Equal(t, one.cancelled, report.GetEnded().GetTurn().GetRunId())
		last := talk.commands[len(talk.commands)-1]
		require.Equal(t, one.cancelled, last.GetCancel().GetRunId())
		require.Equal(t, one.cancelled == "", last.GetCancel() == nil, "%v", last)
	}
}
