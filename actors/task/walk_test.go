package task_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"parley/actors/machine"
	"parley/actors/machine/machinetest"
	"parley/actors/task"
	"parley/proto/conversationpb"
	"parley/proto/deliverypb"
	"parley/proto/taskpb"
)

// walk is a task to which anything may happen, and the world around it: what drives it, and what is posted.
type walk struct {
	entity *machinetest.Entity
	now    int64
	epoch  uint64
	driven *taskpb.State // newest state that a driver was given; nil = it died with its node
	posts  []task.Post   // not answered
	turns  int
}

func (w *walk) state() *taskpb.State {
	state, _ := w.entity.State.(*taskpb.State)
	return state
}

func (w *walk) do(t *rapid.T, command *taskpb.Command) {
	prepare(command)
	decision, _, err := w.entity.Do(command, machine.Env{
		Now: time.UnixMilli(w.now), Node: "n", Epoch: w.epoch, NewID: w.entity.NewID,
	})
	require.NoError(t, err)
	for _, effect := range decision.Effects {
		switch e := effect.(type) {
		case task.Drive:
			w.driven = e.Task
		case task.Post:
			w.posts = append(w.posts, e)
		}
	}
	w.check(t)
}

// check holds what is stored against the state.
func (w *walk) check(t *rapid.T) {
	s, rows := w.state(), w.entity.Rows.String()
	if s == nil {
		return
	}
	run, waiting := s.GetRun(), s.GetWaiting()
	require.False(t, run != nil && waiting != nil, "a run that waits is not open")
	require.Equal(t, waiting != nil, s.GetStatus() == taskpb.Status_WAITING_FOR_INPUT)
	switch s.GetStatus() {
	case taskpb.Status_PENDING, taskpb.Status_RUNNING:
		require.NotNil(t, run, "somebody works on it")
		require.Zero(t, s.GetCompletedAt())
	case taskpb.Status_COMPLETED, taskpb.Status_FAILED:
		require.Nil(t, run)
		require.NotZero(t, s.GetCompletedAt())
	case taskpb.Status_CANCELED:
		require.True(t, run == nil || run.GetCancelling())
		require.Empty(t, s.GetQueued())
	case taskpb.Status_WAITING_FOR_INPUT, taskpb.Status_STATUS_UNSPECIFIED:
	}
	if run != nil {
		require.Equal(t, s.GetRuns(), run.GetNumber())
		require.NotNil(t, w.driven, "an open run is driven")
		require.Contains(t, rows, fmt.Sprintf("list task/running %d task_1\n", run.GetOpenedAt()))
	} else {
		require.NotContains(t, rows, "task/running")
		require.Empty(t, s.GetQueued(), "what was said is being said")
	}
	require.Equal(t, waiting != nil || s.GetCallback() != nil, strings.Contains(rows, "list task/due"))
	require.Equal(t, int(s.GetComments()), strings.Count(rows, "item 1 "))
	require.Equal(t, s.GetHasResult(), strings.Contains(rows, "item 2 result"))
	require.Equal(t, 8, strings.Count(rows, "list task/c/"))
	require.Equal(t, 8, strings.Count(rows, "count task/n/"))
	status := strings.ToLower(s.GetStatus().String())
	require.Equal(t, 4, strings.Count(strings.ReplaceAll(rows, "task/running", ""), "/"+status+" 1000000 task_1"))
	require.LessOrEqual(t, len(s.GetOutcomes()), limits().Outcomes)
}

// driver is what the newest driver may say.
func (w *walk) driver(t *rapid.T) *taskpb.Command {
	number, canceling := w.driven.GetRun().GetNumber(), w.driven.GetRun().GetCancelling()
	if w.driven.GetRun() == nil {
		number = w.driven.GetWaiting().GetNumber()
	}
	turn := &conversationpb.TurnResult{RunId: fmt.Sprint("run_", w.turns)}
	ended := func(reason conversationpb.StopReason) *taskpb.Command {
		turn.StopReason = reason
		return &taskpb.Command{Body: &taskpb.Command_Ended{Ended: &taskpb.Ended{Number: number, Turn: turn}}}
	}
	if canceling {
		return ended(conversationpb.StopReason_CANCELLED)
	}
	if waiting := w.state().GetWaiting(); waiting != nil && rapid.Bool().Draw(t, "acted") {
		return &taskpb.Command{Body: &taskpb.Command_Resumed{Resumed: &taskpb.Resumed{RunId: waiting.GetRunId()}}}
	}
	switch rapid.IntRange(0, 5).Draw(t, "driver") {
	case 0:
		w.turns++
		return &taskpb.Command{Body: &taskpb.Command_Started{Started: &taskpb.Started{Number: number, RunId: turn.GetRunId()}}}
	case 1:
		for i := range rapid.IntRange(1, 3).Draw(t, "pending") {
			kind := rapid.SampledFrom([]string{"user_question", "tool_approval"}).Draw(t, "kind")
			turn.Pending = append(turn.Pending, &conversationpb.PendingAction{
				Id: fmt.Sprint("act_", w.turns, "_", i), Kind: kind, ExpiresAt: w.now + 100_000,
				Details: []byte(`{"questions":[{"question":"Q"}]}`),
			})
		}
		return ended(conversationpb.StopReason_REQUIRES_ACTION)
	case 2:
		return &taskpb.Command{Body: &taskpb.Command_Ended{Ended: &taskpb.Ended{Number: number, Error: "no"}}}
	}
	return ended(rapid.SampledFrom([]conversationpb.StopReason{
		conversationpb.StopReason_END_TURN, conversationpb.StopReason_ERROR, conversationpb.StopReason_CANCELLED,
		conversationpb.StopReason_BUDGET_REACHED, conversationpb.StopReason_LIMIT,
	}).Draw(t, "reason"))
}

// TestWalk lets anything happen to a task, and its node die between any two steps; it always has somebody who works on it
// or an end, and can always be ended.
func TestWalk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &walk{entity: machinetest.NewEntity(task.New(limits(), task.Config{}).Machine), now: 1000, epoch: 1}
		url := rapid.SampledFrom([]string{"", "https://host/"}).Draw(t, "url")
		w.do(t, &taskpb.Command{Body: &taskpb.Command_Create{Create: &taskpb.Create{
			AgentId: "a", Input: "dig", ConversationId: "conv_1", CallbackUrl: url,
		}}})
		ids := []string{"", "", "", "c1", "c2", "c3"}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			w.now += int64(rapid.SampledFrom([]int{0, 1, 500, 3000, 70_000}).Draw(t, "pause"))
			id := rapid.SampledFrom(ids).Draw(t, "id")
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0, 1:
				w.do(t, &taskpb.Command{CommandId: id, Body: &taskpb.Command_AddComment{AddComment: &taskpb.AddComment{Content: "more"}}})
			case 2:
				w.do(t, &taskpb.Command{CommandId: id, Body: &taskpb.Command_Cancel{Cancel: &taskpb.Cancel{}}})
			case 3:
				w.do(t, &taskpb.Command{Body: &taskpb.Command_Due{Due: &taskpb.Due{}}})
			case 4: // the node dies
				w.epoch++
				w.posts = nil
				if command := w.entity.Machine.OnActivate(w.entity.State, machine.Env{Epoch: w.epoch}); command != nil {
					if w.state().GetRun() != nil {
						w.driven = nil
					}
					recoverTask, _ := command.(*taskpb.Command)
					w.do(t, recoverTask)
				}
			case 5:
				if len(w.posts) > 0 {
					told := w.posts[0]
					w.posts = slices.Delete(w.posts, 0, 1)
					w.do(t, &taskpb.Command{Body: &taskpb.Command_Reported{Reported: &deliverypb.Report{
						Id: told.Callback.GetId(), Attempt: told.Callback.GetAttempt(), Ok: rapid.Bool().Draw(t, "ok"), Hopeless: rapid.IntRange(0, 4).Draw(t, "hopeless") == 0,
					}}})
				}
			default:
				w.do(t, w.driver(t))
			}
		}
		w.settle(t)
	})
}

// settle lets the task come to its end.
func (w *walk) settle(t *rapid.T) {
	w.do(t, &taskpb.Command{Body: &taskpb.Command_Cancel{Cancel: &taskpb.Cancel{}}})
	for range 3 {
		if w.state().GetRun() != nil {
			w.do(t, &taskpb.Command{Body: &taskpb.Command_Ended{Ended: &taskpb.Ended{
				Number: w.state().GetRun().GetNumber(), Turn: &conversationpb.TurnResult{StopReason: conversationpb.StopReason_CANCELLED},
			}}})
		}
	}
	require.Nil(t, w.state().GetRun())
	require.Nil(t, w.state().GetWaiting())
	for range 10 {
		w.now += 100_000
		w.do(t, &taskpb.Command{Body: &taskpb.Command_Due{Due: &taskpb.Due{}}})
	}
	require.Nil(t, w.state().GetCallback(), "nobody is called for ever")
	require.NotContains(t, w.entity.Rows.String(), "task/due")
}
