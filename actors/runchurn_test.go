package actors

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"parley/actors/queue"
	"parley/proto/conversationpb"
	"parley/proto/runpb"
)

// A node dies at every moment of a run's life: the next one finishes it, and no turn is begun twice.
func TestRunSurvivesItsNode(t *testing.T) {
	for appends := range 24 {
		t.Run(fmt.Sprint(appends), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := newJournal()
				first := newOffice(t, j, curious)
				first.session(t, testID)
				var left atomic.Int64
				left.Store(int64(appends))
				var once sync.Once
				j.watch = func(string) {
					if left.Add(-1) < 0 {
						once.Do(func() { go first.Disown(testShard) })
					}
				}
				create := func(o *office) error {
					command := createRun(testID, "dig")
					command.CommandId = "create"
					_, err := o.onRun(t.Context(), "run_1", command)
					return err
				}
				if err := create(first); err != nil {
					requireNotOwner(t, err, 1)
				}
				idle(t)
				if first.hostIf(testShard).term.Load() != nil && len(j.state(testID).GetPending()) > 0 {
					first.resolve(t, testID, "garden")
				}
				idle(t)
				first.Disown(testShard)
				synctest.Wait()
				j.watch = nil
				second := newOffice(t, j, curious)
				second.Own(testShard, 2)
				require.NoError(t, create(second), "as the router does")
				time.Sleep(time.Minute)
				if len(j.state(testID).GetPending()) > 0 {
					require.Equal(t, runpb.Status_REQUIRES_ACTION, j.run("run_1").GetStatus())
					second.resolve(t, testID, "garden")
					idle(t)
				}
				j.settledRun(t, "run_1", testID, runpb.Status_SUCCEEDED)
				require.Contains(t, j.result("run_1").GetResponse().GetContent(), "garden")
				require.Equal(t, 1, j.turns(t))
				require.Nil(t, j.line())
			})
		})
	}
}

// TestRunsUnderChurn has runs made, cancelled and their questions answered while storage fails now and then, notices are
// lost and nodes die, and holds the end of it against what was asked for: every run is over, each message was said at most
// once, never too many ran at a time, and nothing is held any more.
// PARLEY_CHURN_SEED repeats a run, PARLEY_CHURN_RUNS makes more of them.
func TestRunsUnderChurn(t *testing.T) {
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
			synctest.Test(t, func(t *testing.T) {
				c := &runChurn{random: rand.New(rand.NewPCG(seed, 2)), journal: newJournal(), made: map[string]string{}}
				c.journal.slow(time.Millisecond)
				c.walk(t)
				c.settle(t)
			})
		})
	}
}

type runChurn struct {
	random  *rand.Rand
	journal *journal
	office  *office
	epoch   uint64
	made    map[string]string // session by run
}

const churnSessions = 6

func (c *runChurn) open(t *testing.T) {
	t.Helper()
	think := func(ctx context.Context, asked string) (string, error) {
		sleep(ctx, ctx, time.Duration(len(asked)%7)*300*time.Millisecond)
		if strings.HasSuffix(asked, "?") {
			return "?Where?", ctx.Err()
		}
		return "ok: " + asked, ctx.Err()
	}
	c.office = newOffice(t, c.journal, think, func(l *queue.Limits) { l.Concurrency, l.MaxQueued = 2, 4 })
	lose := rand.New(rand.NewPCG(c.random.Uint64(), 3))
	var mu sync.Mutex
	sometimes := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return lose.IntN(3) == 0
	}
	c.office.near.lose.Store(&sometimes)
	if c.epoch++; c.epoch > 1 {
		c.office.Own(testShard, c.epoch)
	}
}

func (c *runChurn) walk(t *testing.T) {
	t.Helper()
	c.open(t)
	for i := range churnSessions {
		c.office.session(t, fmt.Sprint("conv_", i))
	}
	for i := range 40 {
		time.Sleep(time.Duration(c.random.IntN(1000)) * time.Millisecond)
		switch c.random.IntN(8) {
		case 0, 1, 2:
			id, session := fmt.Sprint("run_c", i), fmt.Sprint("conv_", c.random.IntN(churnSessions))
			text := fmt.Sprint("message ", i, strings.Repeat("!", c.random.IntN(6)), strings.Repeat("?", c.random.IntN(2)))
			c.made[id] = session
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, _ = c.office.onRun(ctx, id, createRun(session, text))
			cancel()
		case 3:
			for id := range c.made {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				_, _ = c.office.onRun(ctx, id, &runpb.Command{Body: &runpb.Command_Cancel{Cancel: &runpb.Cancel{}}})
				cancel()
				break
			}
		case 4, 5:
			c.answer()
		case 6:
			for range c.random.IntN(3) {
				c.journal.fail([]fault{busy, lost, lostAck, full, late}[c.random.IntN(5)])
			}
		case 7:
			c.office.Disown(testShard)
			c.open(t)
		}
		if line := c.journal.line(); line != nil {
			require.LessOrEqual(t, len(line.GetWaiting()), 4)
		}
	}
}

// answer acts on whatever waits for a person.
func (c *runChurn) answer() {
	for i := range churnSessions {
		session := fmt.Sprint("conv_", i)
		for _, action := range c.journal.state(session).GetPending() {
			_, _ = c.office.inSession(session, &conversationpb.Command{Body: &conversationpb.Command_Resolve{Resolve: &conversationpb.Resolve{
				ActionId:   action.GetId(),
				Resolution: &conversationpb.Resolve_Answers{Answers: &conversationpb.UserAnswers{Answers: []byte(`{"Where?":"here"}`)}},
			}}})
		}
	}
}

func (c *runChurn) settle(t *testing.T) {
	t.Helper()
	c.journal.mu.Lock()
	c.journal.faults = nil
	c.journal.mu.Unlock()
	for range 4 {
		time.Sleep(5 * time.Minute)
		c.answer()
	}
	synctest.Wait()
	for id, session := range c.made {
		if c.journal.run(id) == nil {
			continue // it was not admitted
		}
		state := c.journal.run(id)
		require.True(t, state.Over() && state.GetSettled(), "%v", state)
		require.NotEqual(t, runpb.Status_FAILED, state.GetStatus(), "%v", state)
		require.Empty(t, c.journal.state(session).GetBackgroundRun())
		require.Equal(t, conversationpb.Status_IDLE, c.journal.state(session).GetStatus())
	}
	require.Nil(t, c.journal.line(), "%v", c.journal.line())
	require.NotContains(t, fmt.Sprint(c.journal.rows), "run/running")
	said := map[string]int{}
	for i := range churnSessions {
		for _, event := range c.journal.log(t, fmt.Sprint("conv_", i)) {
			if message := event.GetUserMessage().GetMessage(); message != nil {
				said[message.GetContent()]++
			}
		}
	}
	for text, times := range said {
		require.Equal(t, 1, times, text)
	}
}
