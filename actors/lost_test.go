package actors

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"parley/actors/background"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/runpb"
	"parley/proto/taskpb"
)

// giveUp has everything of a kind given up that is at work, though the node goes on to own the shard.
func (s *shell) giveUp(kind int) { s.config.Kinds[kind].OnRelease(testShard, 1) }

// What was given up is taken up again, though nobody asks for it.
func TestLostWorkIsTakenUpAgain(t *testing.T) {
	t.Run("turn", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			j := newJournal()
			o := newOffice(t, j, slowly)
			o.session(t, testID)
			require.NoError(t, o.sendTo(testID, "dig"))
			time.Sleep(time.Second)
			o.giveUp(0)
			time.Sleep(2 * time.Minute)
			require.Nil(t, j.state(testID).GetLease())
			require.Equal(t, conversationpb.StopReason_END_TURN, j.state(testID).GetStopReason())
		})
	})
	t.Run("cancelled turn", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			j := newJournal()
			o := newOffice(t, j, deaf)
			o.session(t, testID)
			require.NoError(t, o.sendTo(testID, "dig"))
			time.Sleep(time.Second)
			go func() {
				_, _ = o.inSession(testID, background.Cancel(""))
			}()
			synctest.Wait()
			o.giveUp(0)
			time.Sleep(2 * time.Minute)
			require.Nil(t, j.state(testID).GetLease())
			require.Equal(t, conversationpb.StopReason_CANCELLED, j.state(testID).GetStopReason())
		})
	})
	t.Run("run", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			j := newJournal()
			o := newOffice(t, j, slowly)
			o.session(t, testID)
			o.start(t, "run_1", testID, "dig")
			time.Sleep(time.Second)
			require.Equal(t, runpb.Status_RUNNING, j.run("run_1").GetStatus())
			o.giveUp(1)
			time.Sleep(2 * time.Minute)
			j.settledRun(t, "run_1", testID, runpb.Status_SUCCEEDED)
			require.Equal(t, 1, j.turns(t))
		})
	})
	t.Run("task", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			j := newJournal()
			s := workshop(t, j, slowly)
			s.createTask(t, &taskpb.Create{AgentId: "a", Input: "dig"})
			time.Sleep(time.Second)
			s.giveUp(1)
			time.Sleep(2 * time.Minute)
			done, _ := j.task(t)
			require.Equal(t, taskpb.Status_COMPLETED, done.GetStatus())
			require.Equal(t, 1, j.turns(t))
		})
	})
}

// deaf does not end when it is told to.
func deaf(context.Context, string) (string, error) {
	time.Sleep(10 * time.Minute)
	return "too late", nil
}

// Work that is lost each time is not begun without end, and work that goes on is left alone.
func TestLostWorkIsNotBegunWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		var begun atomic.Int64
		o := newOffice(t, j, func(ctx context.Context, _ string) (string, error) {
			begun.Add(1)
			<-ctx.Done()
			return "", context.Cause(ctx)
		})
		o.session(t, testID)
		require.NoError(t, o.sendTo(testID, "dig"))
		time.Sleep(5 * time.Minute)
		require.EqualValues(t, 1, begun.Load())
		for range 20 {
			o.giveUp(0)
			time.Sleep(time.Minute)
		}
		require.EqualValues(t, 1+maxLosses, begun.Load())
	})
}

// The driver of a run is lost after it has held the session, and the agent is gone when the next one begins: the session is
// not held for ever by a run that there is not.
func TestRunThatIsNotAdmittedAfterAllHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		o := newOffice(t, j, echo)
		o.session(t, testID)
		_, err := o.inSession(testID, &conversationpb.Command{BackgroundRun: "run_1", Body: &conversationpb.Command_Hold{
			Hold: &conversationpb.Hold{RunId: "run_1", Agent: &agentpb.Agent{Id: "a"}},
		}})
		require.NoError(t, err)
		require.Equal(t, "run_1", j.state(testID).GetBackgroundRun())
		command := createRun(testID, "dig")
		command.GetCreate().AgentId = "gone"
		_, err = o.onRun(t.Context(), "run_1", command)
		require.Equal(t, failurepb.Code_AGENT_NOT_FOUND, codeOf(err))
		idle(t)
		require.Nil(t, j.run("run_1"))
		require.Empty(t, j.state(testID).GetBackgroundRun())
		require.NoError(t, o.sendTo(testID, "hello"))
		idle(t)
	})
}
