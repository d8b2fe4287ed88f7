package actors

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"parley/actors/background"
	"parley/actors/queue"
	"parley/actors/turn/model"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/runpb"
)

func echo(_ context.Context, asked string) (string, error) { return "I did: " + asked, nil }

// slowly takes a minute for everything.
func slowly(ctx context.Context, asked string) (string, error) {
	sleep(ctx, ctx, time.Minute)
	return "I did: " + asked, ctx.Err()
}

func forever(ctx context.Context, _ string) (string, error) {
	<-ctx.Done()
	return "", context.Cause(ctx)
}

func TestRunAnswersInItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		o := newOffice(t, j, slowly)
		o.session(t, testID)
		admitted := o.start(t, "run_1", testID, "dig")
		require.Equal(t, runpb.Status_QUEUED, admitted.GetStatus())
		require.Equal(t, "run_1", j.state(testID).GetBackgroundRun())
		require.Equal(t, failurepb.Code_CONVERSATION_BUSY, codeOf(o.sendTo(testID, "me too")))
		time.Sleep(time.Second)
		require.Equal(t, runpb.Status_RUNNING, j.run("run_1").GetStatus())
		require.Equal(t, "tok", j.state(testID).GetLease().GetByToken())
		told := o.wait(t, "run_1")
		require.NoError(t, o.sendTo(testID, "me too"), "at once")
		require.Equal(t, runpb.Status_SUCCEEDED, told.GetRun().GetStatus())
		require.Equal(t, "I did: dig", told.GetResult().GetResponse().GetContent())
		idle(t)
		state := j.run("run_1")
		require.True(t, state.GetSettled())
		require.Empty(t, state.GetOrder().GetContent(), "the session has it")
		require.InDelta(t, time.Minute.Milliseconds(), state.GetEndedAt()-state.GetStartedAt(), 10)
		require.Equal(t, "I did: dig", j.result("run_1").GetResponse().GetContent())
		require.EqualValues(t, 2, j.result("run_1").GetUsage().GetInputTokens())
		require.Nil(t, j.line(), "nothing is left of the queue")
		require.Equal(t, runpb.Status_SUCCEEDED, o.wait(t, "run_1").GetRun().GetStatus())
		require.Equal(t, runpb.Status_SUCCEEDED, o.cancelRun(t, "run_1").GetStatus(), "it is over")
		require.NotContains(t, fmt.Sprint(j.rows), "run/running")
	})
}

func TestRunThatIsNotAdmittedLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		o := newOffice(t, j, slowly)
		o.session(t, testID)
		refuses := func(code failurepb.Code, session, agent string) {
			t.Helper()
			command := createRun(session, "dig")
			command.GetCreate().AgentId = agent
			_, err := o.onRun(t.Context(), "run_1", command)
			require.Equal(t, code, codeOf(err))
			require.Nil(t, j.run("run_1"))
			require.Nil(t, j.line())
		}
		refuses(failurepb.Code_SESSION_NOT_FOUND, "conv_none", "a")
		refuses(failurepb.Code_AGENT_NOT_FOUND, testID, "gone")
		_, err := o.inSession(testID, &conversationpb.Command{Body: &conversationpb.Command_Continue{Continue: &conversationpb.Continue{}}})
		require.Equal(t, failurepb.Code_NOTHING_TO_CONTINUE, codeOf(err))
		_, err = o.onRun(t.Context(), "run_1", createRun(testID, ""))
		require.Equal(t, failurepb.Code_NOTHING_TO_CONTINUE, codeOf(err))
		require.NoError(t, o.sendTo(testID, "hello"))
		refuses(failurepb.Code_CONVERSATION_BUSY, testID, "a")
		idle(t)
		require.NotContains(t, fmt.Sprint(j.rows), "run/")
		require.NotContains(t, fmt.Sprint(j.rows), "queue/")
		time.Sleep(time.Minute)
		o.start(t, "run_1", testID, "dig")
		_, err = o.onRun(t.Context(), "run_2", createRun(testID, "too"))
		require.Equal(t, failurepb.Code_CONVERSATION_BUSY, codeOf(err))
	})
}

// The limit holds for the project, whatever happens to notices; the first to come is the first to run.
func TestRunsWaitForTheirPlace(t *testing.T) {
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprint("lost ", lost), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := newJournal()
				var mu sync.Mutex
				running, most, order := 0, 0, []string(nil)
				o := newOffice(t, j, func(ctx context.Context, asked string) (string, error) {
					mu.Lock()
					running++
					most, order = max(most, running), append(order, asked)
					mu.Unlock()
					sleep(ctx, ctx, time.Minute)
					mu.Lock()
					running--
					mu.Unlock()
					return "ok", ctx.Err()
				}, narrow)
				lose := func() bool { return lost }
				o.near.lose.Store(&lose)
				for i := range 5 {
					session := fmt.Sprint("conv_", i)
					o.session(t, session)
					o.start(t, fmt.Sprint("run_", i), session, fmt.Sprint(i))
				}
				o.session(t, "conv_5")
				_, err := o.onRun(t.Context(), "run_5", createRun("conv_5", "5"))
				require.Equal(t, failurepb.Code_QUOTA_REACHED, codeOf(err))
				require.Empty(t, j.state("conv_5").GetBackgroundRun())
				idle(t)
				require.Len(t, j.line().GetPlaces(), 2)
				require.Len(t, j.line().GetWaiting(), 3)
				if !lost {
					time.Sleep(3 * time.Minute)
				} else {
					time.Sleep(10 * time.Minute)
				}
				for i := range 5 {
					require.True(t, j.run(fmt.Sprint("run_", i)).GetSettled(), i)
				}
				require.Equal(t, 2, most)
				if !lost {
					slices.Sort(order[:2]) // they have begun at the same moment
					slices.Sort(order[2:4])
					require.Equal(t, []string{"0", "1", "2", "3", "4"}, order)
				}
				require.Nil(t, j.line())
			})
		})
	}
}

func TestRunKeepsItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		o := newOffice(t, j, func(ctx context.Context, asked string) (string, error) {
			sleep(ctx, ctx, 9*time.Minute)
			return "I did: " + asked, ctx.Err()
		}, func(l *queue.Limits) { l.Concurrency, l.Lease = 1, 4*time.Minute })
		o.session(t, testID)
		o.start(t, "run_1", testID, "dig")
		o.session(t, "conv_2")
		o.start(t, "run_2", "conv_2", "fill")
		time.Sleep(8 * time.Minute)
		require.Equal(t, runpb.Status_RUNNING, j.run("run_1").GetStatus())
		require.Equal(t, runpb.Status_QUEUED, j.run("run_2").GetStatus())
		time.Sleep(90 * time.Second)
		require.Equal(t, runpb.Status_SUCCEEDED, j.run("run_1").GetStatus())
		require.Equal(t, runpb.Status_RUNNING, j.run("run_2").GetStatus())
	})
}

func TestRunThatRequiresAnAction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		o := newOffice(t, j, curious, func(l *queue.Limits) { l.Concurrency = 1 })
		o.session(t, testID)
		o.start(t, "run_1", testID, "dig")
		told := o.wait(t, "run_1")
		require.Equal(t, runpb.Status_REQUIRES_ACTION, told.GetRun().GetStatus())
		idle(t)
		require.Nil(t, j.line(), "others may run")
		require.Equal(t, "run_1", j.state(testID).GetBackgroundRun())
		require.Equal(t, failurepb.Code_CONVERSATION_BUSY, codeOf(o.sendTo(testID, "never mind")))
		require.Len(t, j.result("run_1").GetPending(), 1)
		time.Sleep(2 * time.Hour)
		require.Equal(t, runpb.Status_REQUIRES_ACTION, j.run("run_1").GetStatus(), "it can wait")
		o.resolve(t, testID, "garden")
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		state := j.settledRun(t, "run_1", testID, runpb.Status_SUCCEEDED)
		require.NotEmpty(t, state.GetTurnRunId())
		require.Equal(t, `dug: {"Where?":"garden"}`, j.result("run_1").GetResponse().GetContent())
	})
}

// The person acts in the moment between two looks at the session: the turn is neither ended nor waits, and is not lost.
func TestRunGoesOnWhileItIsLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		o := newOffice(t, j, func(ctx context.Context, asked string) (string, error) {
			if asked == "dig" {
				return curious(ctx, asked)
			}
			return slowly(ctx, asked)
		})
		o.session(t, testID)
		o.start(t, "run_1", testID, "dig")
		idle(t)
		require.Equal(t, runpb.Status_REQUIRES_ACTION, j.run("run_1").GetStatus())
		act := func() {
			o.reads.Store(nil)
			o.resolve(t, testID, "garden")
		}
		o.reads.Store(&act)
		_, err := o.onRun(t.Context(), "run_1", &runpb.Command{Body: &runpb.Command_Paused{Paused: &runpb.Paused{
			Turn: &conversationpb.TurnResult{Pending: []*conversationpb.PendingAction{{Id: "act_former"}}},
		}}})
		require.NoError(t, err, "what it knows is not what the session waits for any more")
		time.Sleep(5 * time.Minute)
		require.Nil(t, o.reads.Load())
		j.settledRun(t, "run_1", testID, runpb.Status_SUCCEEDED)
		require.Contains(t, j.result("run_1").GetResponse().GetContent(), "garden")
	})
}

func TestCancelOfARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		o := newOffice(t, j, forever, func(l *queue.Limits) { l.Concurrency = 1 })
		o.session(t, testID)
		o.session(t, "conv_2")
		o.start(t, "run_1", testID, "dig")
		o.start(t, "run_2", "conv_2", "fill")
		idle(t)
		require.Equal(t, runpb.Status_QUEUED, o.cancelRun(t, "run_2").GetStatus())
		require.Equal(t, runpb.Status_CANCELED, o.wait(t, "run_2").GetRun().GetStatus())
		idle(t)
		j.settledRun(t, "run_2", "conv_2", runpb.Status_CANCELED)
		require.Equal(t, 0, int(j.state("conv_2").GetMessageCount()))

		o.cancelRun(t, "run_1")
		require.Equal(t, runpb.Status_CANCELED, o.wait(t, "run_1").GetRun().GetStatus())
		idle(t)
		j.settledRun(t, "run_1", testID, runpb.Status_CANCELED)
		require.Equal(t, conversationpb.StopReason_CANCELLED, j.state(testID).GetStopReason())
		require.Nil(t, j.line())
	})
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		o := newOffice(t, j, curious)
		o.session(t, testID)
		o.start(t, "run_1", testID, "dig")
		idle(t)
		o.cancelRun(t, "run_1")
		require.Equal(t, runpb.Status_CANCELED, o.wait(t, "run_1").GetRun().GetStatus())
		idle(t)
		j.settledRun(t, "run_1", testID, runpb.Status_CANCELED)
		require.Equal(t, conversationpb.Status_IDLE, j.state(testID).GetStatus())
	})
}

// A run is cancelled whose turn has begun, and ended, before it was told so: it has ended as its turn has.
func TestCancelOfARunAfterItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		o := newOffice(t, j, slowly, func(l *queue.Limits) { l.Concurrency = 1 })
		o.session(t, testID)
		o.session(t, "conv_2")
		o.start(t, "run_2", "conv_2", "fill")
		o.start(t, "run_1", testID, "dig")
		idle(t)
		o.near.system.Store(nil)
		ofRun := &conversationpb.Command{
			ConversationId: testID, CommandId: "run_1/begin", BackgroundRun: "run_1", Caller: customer,
			Body: &conversationpb.Command_Send{Send: &conversationpb.Send{Agent: &agentpb.Agent{Id: "a"}, Content: "dig"}},
		}
		_, err := o.Ask(t.Context(), testShard, testID, ofRun)
		require.NoError(t, err, "what a driver did that was lost then")
		_, err = o.onRun(t.Context(), "run_1", &runpb.Command{Body: &runpb.Command_Placed{Placed: &runpb.Placed{}}})
		require.NoError(t, err)
		time.Sleep(2 * time.Minute)
		require.Equal(t, runpb.Status_QUEUED, j.run("run_1").GetStatus())
		o.cancelRun(t, "run_1")
		told := o.wait(t, "run_1")
		require.Equal(t, runpb.Status_SUCCEEDED, told.GetRun().GetStatus())
		require.Equal(t, "I did: dig", j.result("run_1").GetResponse().GetContent()) // who asks when it is over is not told it
		require.NotZero(t, told.GetRun().GetStartedAt())
		o.near.system.Store(o.System)
		time.Sleep(time.Minute)
		j.settledRun(t, "run_1", testID, runpb.Status_SUCCEEDED)
	})
}

// The turn of a run is cancelled in the session, running or waiting.
func TestSessionOfARunIsCancelled(t *testing.T) {
	for name, think := range map[string]thinker{"running": forever, "waiting": curious} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := newJournal()
				o := newOffice(t, j, think)
				o.session(t, testID)
				o.start(t, "run_1", testID, "dig")
				idle(t)
				_, err := o.inSession(testID, background.Cancel(""))
				require.NoError(t, err)
				time.Sleep(100 * time.Millisecond)
				synctest.Wait()
				j.settledRun(t, "run_1", testID, runpb.Status_CANCELED)
			})
		})
	}
}

// The session of a run is deleted while the run waits in line, runs, or waits for a person.
func TestSessionOfARunIsDeleted(t *testing.T) {
	for name, think := range map[string]thinker{"queued": forever, "running": forever, "waiting": curious} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := newJournal()
				o := newOffice(t, j, think, func(l *queue.Limits) { l.Concurrency = 1 })
				if name == "queued" {
					o.session(t, "conv_0")
					o.start(t, "run_0", "conv_0", "first")
				}
				o.session(t, testID)
				o.start(t, "run_1", testID, "dig")
				idle(t)
				remove := func(onlyIdle bool) error {
					_, err := o.inSession(testID, &conversationpb.Command{Body: &conversationpb.Command_Delete{
						Delete: &conversationpb.Delete{OnlyIdle: onlyIdle},
					}})
					return err
				}
				waits := name == "waiting" // and so is at rest
				if !waits {
					require.Equal(t, failurepb.Code_CONVERSATION_BUSY, codeOf(remove(true)))
				}
				require.NoError(t, remove(waits))
				time.Sleep(100 * time.Millisecond)
				synctest.Wait()
				state := j.settledRun(t, "run_1", testID, runpb.Status_FAILED)
				require.Equal(t, "session_not_found", state.GetError().GetType())
			})
		})
	}
}

func TestRunThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		o := newOffice(t, j, func(context.Context, string) (string, error) {
			return "", &model.Error{Code: model.CodeInvalidRequest, Message: "No such model."}
		})
		o.session(t, testID)
		o.start(t, "run_1", testID, "dig")
		idle(t)
		state := j.settledRun(t, "run_1", testID, runpb.Status_FAILED)
		require.Equal(t, "No such model.", state.GetError().GetMessage())
		require.Equal(t, string(model.CodeInvalidRequest), state.GetError().GetType())
	})
}

// A run begins only while its agent is active: one that has waited in line meanwhile fails, and its session is let go. The turn
// that runs already goes on.
func TestRunOfADeactivatedAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		o := newOffice(t, j, func(ctx context.Context, _ string) (string, error) {
			sleep(ctx, ctx, time.Minute)
			return "ok", ctx.Err()
		}, func(limits *queue.Limits) { limits.Concurrency = 1 })
		for i := range 2 {
			o.session(t, fmt.Sprint("conv_", i))
			o.start(t, fmt.Sprint("run_", i), fmt.Sprint("conv_", i), "dig")
		}
		idle(t)
		o.asleep.Store(true)
		time.Sleep(3 * time.Minute)
		j.settledRun(t, "run_0", "conv_0", runpb.Status_SUCCEEDED)
		state := j.settledRun(t, "run_1", "conv_1", runpb.Status_FAILED)
		require.Equal(t, []string{"agent_not_active", "The agent of this run is not active."},
			[]string{state.GetError().GetType(), state.GetError().GetMessage()})
		require.Empty(t, state.GetTurnRunId())
		require.Empty(t, j.state("conv_1").GetBackgroundRun())
	})
}

// Who may not see a run is told that there is none.
func TestRunsOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		o := newOffice(t, j, echo)
		o.session(t, testID)
		o.start(t, "run_1", testID, "dig")
		for _, caller := range []*conversationpb.Caller{
			{TenantId: "t", ProjectId: "p", UserId: "other", Identified: true},
			{TenantId: "t", ProjectId: "q", UserId: "u", Identified: true},
			{TenantId: "s", ProjectId: "p", UserId: "u", Identified: true, Trusted: true},
		} {
			for _, command := range []*runpb.Command{
				{Body: &runpb.Command_Cancel{Cancel: &runpb.Cancel{}}},
				{Body: &runpb.Command_Await{Await: &runpb.Await{}}},
				createRun(testID, "dig"),
			} {
				command.RunId, command.Caller, command.CommandId = "run_1", caller, "x"
				_, err := o.Ask(t.Context(), testShard, "run_1", command)
				require.Equal(t, failurepb.Code_RUN_NOT_FOUND, codeOf(err))
			}
		}
		o.session(t, "conv_other")
		command := createRun("conv_other", "dig")
		command.RunId, command.CommandId = "run_2", "x"
		command.Caller = &conversationpb.Caller{TenantId: "t", ProjectId: "p", UserId: "other", Identified: true}
		_, err := o.Ask(t.Context(), testShard, "run_2", command)
		require.Equal(t, failurepb.Code_SESSION_NOT_FOUND, codeOf(err), "the session is not theirs")
	})
}

func TestCreateOfARunIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		o := newOffice(t, j, slowly)
		o.session(t, testID)
		for range 3 {
			command := createRun(testID, "dig")
			command.CommandId = "same"
			reply, err := o.onRun(t.Context(), "run_1", command)
			require.NoError(t, err)
			require.True(t, reply.GetRun().GetAdmitted())
			idle(t)
		}
		time.Sleep(2 * time.Minute)
		j.settledRun(t, "run_1", testID, runpb.Status_SUCCEEDED)
		require.Equal(t, 1, j.turns(t))
		_, err := o.onRun(t.Context(), "run_1", createRun(testID, "dig"))
		require.Equal(t, failurepb.Code_ALREADY_EXISTS, codeOf(err))
	})
}
