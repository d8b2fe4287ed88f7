package run_test

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
	"parley/actors/run"
	"parley/proto/conversationpb"
	"parley/proto/deliverypb"
	"parley/proto/failurepb"
	"parley/proto/runpb"
)

// walk is a run to which anything may happen, and the world around it: what drives it, and what is posted.
type walk struct {
	entity  *machinetest.Entity
	now     int64
	epoch   uint64
	driven  bool       // a driver was asked for since the run last needed one, and lives
	posts   []run.Post // not answered
	told    []string   // events of which the address was told first
	turns   int
	waiting map[string]bool // keys that somebody waits for
}

func (w *walk) state() *runpb.State {
	state, _ := w.entity.State.(*runpb.State)
	return state
}

func (w *walk) do(t *rapid.T, command *runpb.Command) {
	prepare(command)
	was := w.state()
	decision, failure, err := w.entity.Do(command, machine.Env{
		Now: time.UnixMilli(w.now), Node: "n", Epoch: w.epoch, NewID: w.entity.NewID,
	})
	require.NoError(t, err)
	if failure != nil {
		require.Contains(t, []failurepb.Code{failurepb.Code_RUN_NOT_FOUND, failurepb.Code_ALREADY_EXISTS}, failure.Code)
	}
	if decision.Wait != "" {
		w.waiting[decision.Wait] = true
	}
	for _, settled := range decision.Settle {
		delete(w.waiting, settled.Key)
	}
	for _, effect := range decision.Effects {
		switch e := effect.(type) {
		case run.Drive:
			w.driven = true
		case run.Post:
			w.posts = append(w.posts, e)
			if e.Call.GetAttempt() == 1 {
				w.told = append(w.told, e.Call.GetEvent())
			}
			require.LessOrEqual(t, e.Call.GetAttempt(), uint32(5))
		}
	}
	if decision.Delete {
		clear(w.waiting)
	}
	if run.Driven(was) && !run.Driven(w.state()) {
		w.driven = false // there is nothing for it to do
	}
	w.check(t)
}

// check holds what is stored against the state.
func (w *walk) check(t *rapid.T) {
	s, rows := w.state(), w.entity.Rows.String()
	if s == nil {
		require.Empty(t, rows)
		require.Empty(t, w.waiting)
		return
	}
	require.Equal(t, run.Driven(s), strings.Contains(rows, fmt.Sprintf("list run/running %d run_1\n", s.GetCreatedAt())))
	if run.Driven(s) {
		require.True(t, w.driven, "somebody is at it: %v", s)
	}
	require.Equal(t, s.GetHasResult(), strings.Contains(rows, "item 1 result"))
	require.Equal(t, s.Over(), s.GetEndedAt() != 0)
	require.Equal(t, s.GetStatus() == runpb.Status_FAILED, s.GetError() != nil)
	if !s.GetSettled() && !run.Driven(s) {
		require.NotZero(t, s.GetCheckAt(), "it looks by itself")
		require.Contains(t, rows, "list run/due")
	}
	if s.GetSettled() {
		require.Contains(t, rows, "list run/due", "it is removed some day")
		require.False(t, s.GetPlaced())
	}
	if s.Over() || s.GetStatus() == runpb.Status_REQUIRES_ACTION && !s.GetCancelling() {
		require.NotContains(t, w.waiting, "rest")
	}
	if s.GetAdmitted() || s.Over() {
		require.NotContains(t, w.waiting, "admitted")
	}
	require.LessOrEqual(t, len(s.GetCallback().GetCalls()), limits().Calls)
}

// report is what a driver may say, whatever it has seen.
func (w *walk) report(t *rapid.T) *runpb.Command {
	turn := &conversationpb.TurnResult{RunId: fmt.Sprint("run_t", w.turns)}
	switch rapid.IntRange(0, 9).Draw(t, "report") {
	case 0:
		return &runpb.Command{Body: &runpb.Command_Admitted{Admitted: &runpb.Admitted{Placed: rapid.Bool().Draw(t, "placed")}}}
	case 1:
		if rapid.IntRange(0, 9).Draw(t, "refused") == 0 {
			return &runpb.Command{Body: &runpb.Command_Admitted{Admitted: &runpb.Admitted{
				Refused: &conversationpb.Refused{Code: failurepb.Code_QUOTA_REACHED},
			}}}
		}
		return &runpb.Command{Body: &runpb.Command_Placed{Placed: &runpb.Placed{}}}
	case 2, 3:
		w.turns++
		return &runpb.Command{Body: &runpb.Command_Began{Began: &runpb.Began{TurnRunId: turn.GetRunId()}}}
	case 4:
		turn.StopReason = conversationpb.StopReason_REQUIRES_ACTION
		turn.Pending = []*conversationpb.PendingAction{{Id: fmt.Sprint("act_", rapid.IntRange(1, 3).Draw(t, "action"))}}
		return &runpb.Command{Body: &runpb.Command_Paused{Paused: &runpb.Paused{Turn: turn}}}
	case 5:
		return &runpb.Command{Body: &runpb.Command_Resumed{Resumed: &runpb.Resumed{}}}
	case 6, 7:
		return &runpb.Command{Body: &runpb.Command_Parked{Parked: &runpb.Parked{}}}
	case 8:
		turn.StopReason = conversationpb.StopReason(rapid.IntRange(0, 7).Draw(t, "reason"))
		return &runpb.Command{Body: &runpb.Command_Ended{Ended: &runpb.Ended{Turn: turn}}}
	}
	return &runpb.Command{Body: &runpb.Command_Settled{Settled: &runpb.Settled{}}}
}

// TestWalk lets anything happen to a run, and its node die between any two steps; it always has somebody who works on it,
// or looks by itself, or has an end; and its address is told once of each change.
func TestWalk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &walk{entity: machinetest.NewEntity(run.New(limits(), run.Config{}).Machine), now: 1000, epoch: 1, waiting: map[string]bool{}}
		url := rapid.SampledFrom([]string{"", "https://host/"}).Draw(t, "url")
		create := func() *runpb.Command {
			return &runpb.Command{CommandId: "c", Body: &runpb.Command_Create{Create: &runpb.Create{
				AgentId: "a", ConversationId: "conv_1", Order: &runpb.Order{Content: "dig"}, CallbackUrl: url,
			}}}
		}
		w.do(t, create())
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			w.now += int64(rapid.SampledFrom([]int{0, 1, 500, 3000, 70_000}).Draw(t, "pause"))
			switch rapid.IntRange(0, 12).Draw(t, "step") {
			case 0:
				w.do(t, &runpb.Command{Body: &runpb.Command_Cancel{Cancel: &runpb.Cancel{}}})
			case 1:
				w.do(t, &runpb.Command{Body: &runpb.Command_Await{Await: &runpb.Await{}}})
			case 2:
				w.do(t, &runpb.Command{Body: &runpb.Command_Due{Due: &runpb.Due{}}})
			case 3: // the node dies
				w.epoch++
				w.posts, w.driven = nil, false
				clear(w.waiting)
				if w.entity.State == nil {
					break
				}
				if command := w.entity.Machine.OnActivate(w.entity.State, machine.Env{Epoch: w.epoch}); command != nil {
					recovers, _ := command.(*runpb.Command)
					w.do(t, recovers)
				}
			case 4:
				if len(w.posts) > 0 {
					told := w.posts[0]
					w.posts = slices.Delete(w.posts, 0, 1)
					w.do(t, &runpb.Command{Body: &runpb.Command_Posted{Posted: &deliverypb.Report{
						Id: told.Call.GetId(), Attempt: told.Call.GetAttempt(),
						Ok: rapid.Bool().Draw(t, "ok"), Hopeless: rapid.IntRange(0, 4).Draw(t, "hopeless") == 0,
					}}})
				}
			case 5:
				w.do(t, &runpb.Command{Body: &runpb.Command_Look{Look: &runpb.Look{}}})
			case 6:
				if w.state() != nil {
					w.do(t, create())
				}
			default:
				if w.state() != nil && w.driven {
					w.do(t, w.report(t))
				}
			}
		}
		w.settle(t, url)
	})
}

// settle lets the run come to its end.
func (w *walk) settle(t *rapid.T, url string) {
	if w.state() == nil {
		return
	}
	w.do(t, &runpb.Command{Body: &runpb.Command_Cancel{Cancel: &runpb.Cancel{}}})
	w.do(t, &runpb.Command{Body: &runpb.Command_Ended{Ended: &runpb.Ended{
		Turn: &conversationpb.TurnResult{StopReason: conversationpb.StopReason_CANCELLED},
	}}})
	w.do(t, &runpb.Command{Body: &runpb.Command_Settled{Settled: &runpb.Settled{}}})
	require.True(t, w.state().Over() && w.state().GetSettled())
	ends := 0
	for _, event := range w.told {
		if event != "agent_run.requires_action" {
			require.Equal(t, "agent_run."+strings.ToLower(w.state().GetStatus().String()), event)
			ends++
		}
	}
	require.Equal(t, url != "", ends == 1)
	for range 12 {
		w.now += 100_000
		w.do(t, &runpb.Command{Body: &runpb.Command_Due{Due: &runpb.Due{}}})
	}
	require.Empty(t, w.state().GetCallback().GetCalls(), "nobody is called for ever")
	w.now += limits().Keep.Milliseconds()
	w.do(t, &runpb.Command{Body: &runpb.Command_Due{Due: &runpb.Due{}}})
	require.Nil(t, w.state())
}
