package actors

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"parley/proto/conversationpb"
	"parley/proto/taskpb"
)

// TestTasksUnderChurn lets people comment on a task and cancel it while storage fails now and then and its nodes die, and
// holds the end of it against what was said: every comment once, no turn and no question left open.
// PARLEY_CHURN_SEED repeats a run, PARLEY_CHURN_RUNS makes more of them.
func TestTasksUnderChurn(t *testing.T) {
	runs := 25
	if n, err := strconv.Atoi(os.Getenv("PARLEY_CHURN_RUNS")); err == nil {
		runs = n
	}
	first := uint64(time.Now().UnixNano())
	if n, err := strconv.ParseUint(os.Getenv("PARLEY_CHURN_SEED"), 10, 64); err == nil {
		first, runs = n, 1
	}
	for i := range runs {
		seed := first + uint64(i)
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { churn(t, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func churn(t *testing.T, random *rand.Rand) {
	t.Helper()
	j := newJournal()
	j.slow(time.Millisecond)
	think := func(ctx context.Context, asked string) (string, error) {
		sleep(ctx, ctx, time.Duration(len(asked)%7)*300*time.Millisecond)
		if strings.HasSuffix(asked, "?") {
			return "?Where?", ctx.Err()
		}
		return "ok: " + asked, ctx.Err()
	}
	s := workshop(t, j, think)
	s.createTask(t, &taskpb.Create{Input: "dig?"})
	said := map[string]bool{"dig?": true}
	epoch := uint64(1)
	for i := range 20 {
		time.Sleep(time.Duration(random.IntN(1500)) * time.Millisecond)
		switch random.IntN(6) {
		case 0, 1:
			text := fmt.Sprint("comment ", i, strings.Repeat("?", random.IntN(2)))
			_, err := s.onTask(t, &taskpb.Command{Body: &taskpb.Command_AddComment{AddComment: &taskpb.AddComment{Content: text}}})
			said[text] = err == nil
		case 2:
			_, _ = s.onTask(t, &taskpb.Command{Body: &taskpb.Command_Cancel{Cancel: &taskpb.Cancel{}}})
		case 3:
			for range random.IntN(3) {
				j.fail([]fault{busy, lost, lostAck, full, late}[random.IntN(5)])
			}
		case 4:
			epoch++
			s.Disown(testShard)
			s = workshop(t, j, think)
			s.Own(testShard, epoch)
		}
	}
	j.fail(none)
	time.Sleep(15 * time.Minute)
	if state, _ := j.task(t); state.GetStatus() == taskpb.Status_WAITING_FOR_INPUT {
		s.comment(t, "the end")
		said["the end"] = true
		idle(t)
	}
	s.settled(t, said)
}

// settled checks what a task has left.
func (s *shell) settled(t *testing.T, said map[string]bool) {
	t.Helper()
	state, _ := s.journal.task(t)
	require.Nil(t, state.GetRun(), "%v\n%v", state, s.journal.state(testID))
	require.Contains(t, []taskpb.Status{taskpb.Status_COMPLETED, taskpb.Status_CANCELED}, state.GetStatus(), "%v", state)
	head := s.journal.state(testID)
	require.Nil(t, head.GetLease())
	require.Equal(t, conversationpb.Status_IDLE, head.GetStatus(), "nothing is left that waits for a person")
	times := map[string]int{}
	for _, event := range s.journal.log(t, testID) {
		var text string
		if message := event.GetUserMessage().GetMessage(); message != nil {
			text = message.GetContent()
		} else if closed := event.GetActionClosed(); closed != nil {
			text = string(closed.GetResolution())
		}
		for one := range said {
			if strings.Contains(text+"\n", one+"\n") || strings.Contains(text, one+`"`) {
				times[one]++
			}
		}
	}
	for text, count := range times {
		require.Equal(t, 1, count, "%q was said more than once", text)
	}
}
