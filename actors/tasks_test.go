package actors

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"parley/actors/conversation"
	"parley/actors/kit"
	"parley/actors/turn/model"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/taskpb"
)

func TestTaskRunsInAConversationOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		s := workshop(t, j, func(_ context.Context, asked string) (string, error) { return "I did: " + asked, nil })
		s.createTask(t, &taskpb.Create{Input: "dig a\nhole"})
		idle(t)
		state, result := j.task(t)
		require.Equal(t, taskpb.Status_COMPLETED, state.GetStatus())
		require.Equal(t, "I did: dig a\nhole", result.GetContent())
		require.EqualValues(t, 2, result.GetUsage().GetInputTokens())
		require.NotZero(t, state.GetStartedAt())
		require.NotZero(t, state.GetCompletedAt())
		require.Nil(t, state.GetRun())
		head := j.state(testID)
		require.Equal(t, conversation.SourceTask, head.GetSource())
		require.Equal(t, "dig a hole", head.GetTitle())
		require.JSONEq(t, `{"parley.taskId":"task_1"}`, string(head.GetServerMetadata()))
		require.Equal(t, "u", head.GetUserId())
		require.Equal(t, 1, j.turns(t))

		require.Equal(t, taskpb.Status_PENDING, s.comment(t, "fill it").GetStatus())
		idle(t)
		state, result = j.task(t)
		require.Equal(t, taskpb.Status_COMPLETED, state.GetStatus())
		require.Equal(t, "I did: fill it", result.GetContent())
		require.Equal(t, 2, j.turns(t))
	})
}

func TestTaskThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		s := workshop(t, j, func(context.Context, string) (string, error) {
			return "", &model.Error{Code: model.CodeInvalidRequest, Message: "No such model."}
		})
		s.createTask(t, &taskpb.Create{Input: "dig"})
		idle(t)
		state, result := j.task(t)
		require.Equal(t, taskpb.Status_FAILED, state.GetStatus())
		require.Equal(t, "No such model.", state.GetError())
		require.Empty(t, result.GetId())
	})
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		s := workshop(t, j, nil)
		s.createTask(t, &taskpb.Create{Input: "dig", AgentId: "gone"})
		idle(t)
		state, _ := j.task(t)
		require.Equal(t, taskpb.Status_FAILED, state.GetStatus())
		require.Equal(t, "The agent of this task does not exist any more.", state.GetError())
	})
}

func TestCommentWhileATaskRunsIsSaidNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		var asked []string
		s := workshop(t, j, func(ctx context.Context, text string) (string, error) {
			asked = append(asked, text)
			sleep(ctx, ctx, time.Minute)
			return "ok", ctx.Err()
		})
		s.createTask(t, &taskpb.Create{Input: "dig"})
		idle(t)
		state, _ := j.task(t)
		require.Equal(t, taskpb.Status_RUNNING, state.GetStatus())
		require.Equal(t, taskpb.Status_PENDING, s.comment(t, "deeper").GetStatus())
		s.comment(t, "wider")
		time.Sleep(2*time.Minute - 20*time.Second)
		synctest.Wait()
		state, _ = j.task(t)
		require.Equal(t, taskpb.Status_RUNNING, state.GetStatus())
		require.Equal(t, []string{"dig", "deeper\n\nwider"}, asked)
		time.Sleep(time.Minute)
		state, _ = j.task(t)
		require.Equal(t, taskpb.Status_COMPLETED, state.GetStatus())
		require.Equal(t, 2, j.turns(t))
	})
}

func TestCancelATaskThatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		s := workshop(t, j, func(ctx context.Context, text string) (string, error) {
			if text == "again" {
				return "done", nil
			}
			<-ctx.Done()
			return "", context.Cause(ctx)
		})
		s.createTask(t, &taskpb.Create{Input: "dig"})
		idle(t)
		require.Equal(t, taskpb.Status_CANCELED, s.cancelTask(t).GetStatus())
		idle(t)
		state, _ := j.task(t)
		require.Equal(t, taskpb.Status_CANCELED, state.GetStatus())
		require.Nil(t, state.GetRun())
		require.Equal(t, conversationpb.StopReason_CANCELLED, j.state(testID).GetStopReason())
		require.Equal(t, taskpb.Status_CANCELED, s.cancelTask(t).GetStatus(), "it is over")
		s.comment(t, "again")
		idle(t)
		state, result := j.task(t)
		require.Equal(t, taskpb.Status_COMPLETED, state.GetStatus())
		require.Equal(t, "done", result.GetContent())
	})
}

// curious asks back once.
func curious(_ context.Context, asked string) (string, error) {
	switch {
	case asked == "dig":
		return "?Where?", nil
	case strings.Contains(asked, "garden"):
		return "dug: " + asked, nil
	}
	return "ok: " + asked, nil
}

func TestTaskAsksAndACommentAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		s := workshop(t, j, curious)
		s.createTask(t, &taskpb.Create{Input: "dig"})
		idle(t)
		state, result := j.task(t)
		require.Equal(t, taskpb.Status_WAITING_FOR_INPUT, state.GetStatus())
		require.Equal(t, "Where?", result.GetContent())
		require.EqualValues(t, 1, state.GetComments())
		require.Len(t, j.state(testID).GetPending(), 1)
		time.Sleep(2 * time.Hour)
		state, _ = j.task(t)
		require.Equal(t, taskpb.Status_WAITING_FOR_INPUT, state.GetStatus(), "it can wait")
		require.EqualValues(t, 1, state.GetComments())
		s.comment(t, "in the garden")
		idle(t)
		state, result = j.task(t)
		require.Equal(t, taskpb.Status_COMPLETED, state.GetStatus())
		require.Equal(t, `dug: {"Where?":"in the garden"}`, result.GetContent())
		require.Equal(t, 1, j.turns(t), "the turn went on")
	})
}

// A driver was lost after the answer that it gave had been taken and the turn had ended: the next one does not say it
// again as a message.
func TestAnswerOfATaskIsGivenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		s := workshopThat(t, j, curious, func(*Kind, kit.Pool) {}) // the order of both is the other way round here
		s.createTask(t, &taskpb.Create{Input: "dig"})
		idle(t)
		action := j.state(testID).GetPending()[0].GetId()
		_, err := s.Ask(t.Context(), testShard, testID, &conversationpb.Command{
			ConversationId: testID, CommandId: taskID + "/2/answer/" + action, // as its driver does
			Caller: &conversationpb.Caller{TenantId: "t", ProjectId: "p", UserId: "u", Trusted: true},
			Body: &conversationpb.Command_Resolve{Resolve: &conversationpb.Resolve{
				ActionId: action, Agent: &agentpb.Agent{Id: "a"},
				Resolution: &conversationpb.Resolve_Answers{Answers: &conversationpb.UserAnswers{Answers: []byte(`{"Where?":"garden"}`)}},
			}},
		})
		require.NoError(t, err)
		synctest.Wait()
		s.comment(t, "garden")
		idle(t)
		state, result := j.task(t)
		require.Equal(t, taskpb.Status_COMPLETED, state.GetStatus())
		require.Equal(t, `dug: {"Where?":"garden"}`, result.GetContent())
		require.Equal(t, 1, j.turns(t), "the answer is no message")
	})
}

func TestQuestionOfATaskIsAnsweredInItsConversation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		s := workshop(t, j, curious)
		s.createTask(t, &taskpb.Create{Input: "dig"})
		idle(t)
		_, err := s.do(t.Context(), &conversationpb.Command{Body: &conversationpb.Command_Resolve{Resolve: &conversationpb.Resolve{
			ActionId: j.state(testID).GetPending()[0].GetId(), Agent: &agentpb.Agent{Id: "a"},
			Resolution: &conversationpb.Resolve_Answers{Answers: &conversationpb.UserAnswers{Answers: []byte(`{"Where?":"garden"}`)}},
		}}})
		require.NoError(t, err)
		time.Sleep(100 * time.Millisecond) // it hears of it, and needs not look
		synctest.Wait()
		state, result := j.task(t)
		require.Equal(t, taskpb.Status_COMPLETED, state.GetStatus())
		require.Equal(t, `dug: {"Where?":"garden"}`, result.GetContent())
	})
}

// A task runs from the moment at which somebody has acted on its conversation.
func TestTaskRunsAfterItsQuestionIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, release := newJournal(), make(chan struct{})
		s := workshop(t, j, func(ctx context.Context, asked string) (string, error) {
			if asked != "dig" {
				<-release
			}
			return curious(ctx, asked)
		})
		s.createTask(t, &taskpb.Create{Input: "dig"})
		idle(t)
		asked := j.state(testID).GetPaused().GetRunId()
		_, err := s.do(t.Context(), &conversationpb.Command{Body: &conversationpb.Command_Resolve{Resolve: &conversationpb.Resolve{
			ActionId: j.state(testID).GetPending()[0].GetId(), Agent: &agentpb.Agent{Id: "a"},
			Resolution: &conversationpb.Resolve_Answers{Answers: &conversationpb.UserAnswers{Answers: []byte(`{"Where?":"garden"}`)}},
		}}})
		require.NoError(t, err)
		synctest.Wait()
		state, _ := j.task(t)
		require.Equal(t, taskpb.Status_RUNNING, state.GetStatus())
		require.Equal(t, asked, state.GetRun().GetRunId())
		require.False(t, state.GetHasResult(), "what it had asked")
		close(release)
		idle(t)
		state, result := j.task(t)
		require.Equal(t, taskpb.Status_COMPLETED, state.GetStatus())
		require.EqualValues(t, 1, state.GetRuns())
		require.Equal(t, `dug: {"Where?":"garden"}`, result.GetContent())
	})
}

func TestCancelATaskThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		s := workshop(t, j, curious)
		s.createTask(t, &taskpb.Create{Input: "dig"})
		idle(t)
		s.cancelTask(t)
		idle(t)
		state, _ := j.task(t)
		require.Equal(t, taskpb.Status_CANCELED, state.GetStatus())
		require.Equal(t, conversationpb.Status_IDLE, j.state(testID).GetStatus())
		s.comment(t, "something else")
		idle(t)
		_, result := j.task(t)
		require.Equal(t, "ok: something else", result.GetContent())
	})
}

// What others do in the conversation of a task does not stop it.
func TestTaskWhoseConversationIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		s := workshop(t, j, curious)
		s.createTask(t, &taskpb.Create{Input: "dig it"})
		idle(t)
		_, err := s.send(t.Context(), false)
		require.NoError(t, err)
		_, err = s.do(t.Context(), &conversationpb.Command{Body: &conversationpb.Command_Send{Send: &conversationpb.Send{
			Agent: &agentpb.Agent{Id: "a"}, Content: "dig",
		}}})
		if err != nil {
			require.Equal(t, failurepb.Code_CONVERSATION_BUSY, codeOf(err))
		}
		idle(t)
		s.comment(t, "go on")
		time.Sleep(time.Minute)
		state, result := j.task(t)
		require.Equal(t, taskpb.Status_COMPLETED, state.GetStatus())
		require.Equal(t, "ok: go on", result.GetContent())
		require.Empty(t, j.state(testID).GetPending())
	})
}

// A node dies at every moment of a task's life: the next one finishes it, and no turn is begun twice.
func TestTaskSurvivesItsNode(t *testing.T) {
	for appends := range 14 {
		t.Run(fmt.Sprint(appends), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := newJournal()
				first := workshop(t, j, curious)
				var left atomic.Int64
				left.Store(int64(appends) + 1)
				var once sync.Once
				j.watch = func(string) {
					if left.Add(-1) <= 0 {
						once.Do(func() { go first.Disown(testShard) })
					}
				}
				_, err := first.onTask(t, &taskpb.Command{Body: &taskpb.Command_Create{
					Create: &taskpb.Create{AgentId: "a", Input: "dig", ConversationId: testID},
				}})
				if err != nil {
					requireNotOwner(t, err, 1)
				}
				idle(t)
				if j.stateKnown(taskID) {
					_, _ = first.onTask(t, &taskpb.Command{Body: &taskpb.Command_AddComment{
						AddComment: &taskpb.AddComment{Content: "garden"},
					}})
				}
				idle(t)
				first.Disown(testShard)
				synctest.Wait()
				j.watch = nil
				second := workshop(t, j, curious)
				second.Own(testShard, 2)
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				state, _ := j.task(t)
				if state.GetStatus() == taskpb.Status_WAITING_FOR_INPUT {
					second.comment(t, "garden")
					idle(t)
				}
				state, result := j.task(t)
				require.Equal(t, taskpb.Status_COMPLETED, state.GetStatus(), "%v", state)
				require.Contains(t, result.GetContent(), "garden")
				require.LessOrEqual(t, j.turns(t), 2)
				require.Empty(t, j.state(testID).GetPending())
				require.Nil(t, j.state(testID).GetLease())
			})
		})
	}
}

func (j *journal) stateKnown(id string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.entities[id] != nil
}
