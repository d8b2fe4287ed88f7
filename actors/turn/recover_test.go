package turn

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/actors/turn/model"
	"parley/proto/conversationpb"
)

// crash ends the runner as a lost node does, and gives the turn to the next owner.
func (b *bench) crash(t *testing.T) {
	t.Helper()
	b.Release(3, b.book.epoch)
	done, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	b.Drain(done)
	b.book.lost()
	b.page = &page{}
	b.renew(t)
}

func TestRecoveredTurnDoesNothingTwice(t *testing.T) {
	b := newBench(t, asks("First.", `c1 write {}`), asks("Second.", `c2 write {}`), says("Third."))
	stuck, release := make(chan struct{}), make(chan struct{})
	b.talks.rounds[2] = func(stream model.Stream) (*model.Answer, error) {
		stream.Text("Thi")
		stuck <- struct{}{}
		<-release
		return nil, errDisk
	}
	b.start(t)
	<-stuck
	close(release)
	b.crash(t)
	b.talks.rounds[2] = says("Third.")
	finish := b.whole(t)
	require.Equal(t, "First.\n\nSecond.\n\nThird.", finish.GetContent())
	require.Equal(t, finish.GetContent(), b.page.text.String(), "what the lost attempt had said is void")
	require.Equal(t, map[string]int{"run_1/1/0": 1, "run_1/3/0": 1}, b.shop.counts())
	require.Equal(t, []string{`c1 write {} = write done`, `c2 write {} = write done`}, callsOf(finish.GetToolCalls()))
	require.Equal(t, 2, b.talks.last().Step)
	require.Len(t, b.talks.last().Messages, 5)
}

func TestLostCallsAreRunAgainOnlyIfThatDoesNoHarm(t *testing.T) {
	b := newBench(t, asks("Hm.", `c1 write {"n":1}`, `c2 read {}`, `c3 gone {}`), says("ok"))
	b.book.lose = func(p *conversationpb.Progress) error {
		if p.GetResults() != nil {
			return context.DeadlineExceeded
		}
		return nil
	}
	b.book.fail = b.book.lose // no result is ever journalled
	b.start(t)
	<-b.shop.served
	<-b.shop.served
	b.book.mu.Lock()
	b.book.lose, b.book.fail = nil, nil
	b.book.mu.Unlock()
	b.Release(3, 7)
	b.book.lost()
	b.page = &page{}
	b.renew(t)
	stored := b.untilPause(t)
	require.Equal(t, 1, b.book.doubted)
	require.Equal(t, "Hm.", stored.GetContent())
	require.Equal(t, conversationpb.Need_OUTCOME, b.book.calls[0].GetNeed())
	require.Equal(t, map[string]int{"run_1/1/0": 1, "run_1/1/1": 2}, b.shop.counts(), "the same key again")

	require.True(t, b.book.decide("c1", nil, ""))
	b.renew(t)
	finish := b.whole(t)
	require.Equal(t, map[string]int{"run_1/1/0": 2, "run_1/1/1": 2}, b.shop.counts(), "a person said so")
	require.Equal(t, []string{
		`c1 write {"n":1} = write done`, `c2 read {} = read done`, `c3 gone {} = there is no such tool`,
	}, callsOf(finish.GetToolCalls()))
	require.Equal(t, 1, b.book.doubted, "in the epoch in which it was resumed nothing is in doubt")
}

func TestCallInDoubtWhoseToolIsGone(t *testing.T) {
	b := newBench(t, asks("", `c1 write {}`), says("ok"))
	b.book.add(&conversationpb.Step{Body: &conversationpb.Step_Use{Use: &conversationpb.ToolUse{
		Calls: []*conversationpb.ToolCall{{Id: "c1", Name: "was", Arguments: `{"n":1}`}},
	}}})
	b.book.calls = []*conversationpb.OpenCall{{Id: "c1", Name: "was", Need: conversationpb.Need_RUN}}
	b.book.lost()
	b.untilPause(t)
	require.JSONEq(t, `{"n":1}`, string(b.book.stored.GetDoubt().GetCalls()[0].GetArgs()))
	require.True(t, b.book.decide("c1", nil, ""))
	b.renew(t)
	finish := b.whole(t)
	require.Equal(t, []string{`c1 was {"n":1} = there is no such tool`}, callsOf(finish.GetToolCalls()))
	require.Equal(t, conversationpb.StopReason_END_TURN, finish.GetStopReason())
}

func TestStepsThatAreNotThere(t *testing.T) {
	b := newBench(t, says("ok"))
	job := b.book.on(b.job())
	job.Steps = 2
	require.NoError(t, b.Start(job))
	finish := <-b.reports
	require.Equal(t, "internal_error", finish.GetError().GetCode())
	require.Empty(t, finish.GetContent())
	require.Empty(t, finish.GetToolCalls())
}

// TestKilledAtAnyPoint kills the runner at random points of turns with three tool calls: before a step is taken, after it
// was taken and before its runner hears of it, while tools run. No effect of a tool that is not idempotent happens twice
// unless a person said so, and every turn ends.
func TestKilledAtAnyPoint(t *testing.T) {
	turns, seed := kills(t, 40)
	random := rand.New(rand.NewPCG(seed, 1))
	b := newBench(t)
	for i := range turns {
		b.runID = fmt.Sprint("run_", i) // a call of a lost runner may still be on its way to the server
		killTurn(t, b, random)
		b.Drain(context.Background())
	}
}

// kills says how many turns to try, and with which seed.
func kills(t *testing.T, turns int) (int, uint64) {
	t.Helper()
	if more, err := strconv.Atoi(os.Getenv("PARLEY_TURN_KILLS")); err == nil {
		turns = more
	}
	seed := uint64(time.Now().UnixNano())
	if given, err := strconv.ParseUint(os.Getenv("PARLEY_SEED"), 10, 64); err == nil {
		seed = given
	}
	t.Logf("PARLEY_SEED=%d", seed)
	return turns, seed
}

func killTurn(t *testing.T, b *bench, random *rand.Rand) {
	t.Helper()
	b.talks = &dialogue{rounds: []func(model.Stream) (*model.Answer, error){
		asks("One.", `c1 write {}`, `c2 read {}`), asks("Two.", `c3 write {}`, `c4 pay {}`, `c5 write {}`), says("Three."),
	}}
	b.book = &book{epoch: 7, attempt: 1}
	kills := make(chan struct{}, 100)
	chance := func() bool { return random.IntN(6) == 0 }
	left := 4                                      // kills of this turn
	kill := func(*conversationpb.Progress) error { // under the book's lock
		if left == 0 || !chance() {
			return nil
		}
		left--
		kills <- struct{}{}
		return fmt.Errorf("killed: %w", ErrFenced)
	}
	b.book.fail, b.book.lose = kill, kill
	slow := random.IntN(3)
	b.shop.hook = func(name string, _ *http.Request) (int, string) {
		if slow == 0 && name == "write" {
			b.book.mu.Lock()
			if left > 0 {
				left--
				kills <- struct{}{}
			}
			b.book.mu.Unlock()
		}
		return http.StatusOK, name + " done"
	}
	allowed := map[string]int{}
	b.page = &page{}
	b.renew(t)
	b.start(t)
	for range 100 {
		idle := make(chan struct{})
		go func() {
			b.Wait(context.Background(), 3)
			close(idle)
		}()
		select {
		case finish := <-b.reports:
			require.Equal(t, conversationpb.StopReason_END_TURN, finish.GetStopReason(), "%v", finish)
			require.Equal(t, "One.\n\nTwo.\n\nThree.", finish.GetContent())
			require.Len(t, finish.GetToolCalls(), 5)
			for key, count := range b.shop.counts() {
				if !strings.HasPrefix(key, b.runID+"/") {
					continue
				}
				if strings.HasSuffix(key, "/1/1") { // read
					continue
				}
				require.LessOrEqual(t, count, 1+allowed[key], key)
			}
			<-idle
			return
		case <-kills:
			b.Release(3, b.book.epoch)
			<-idle
			b.Drain(context.Background())
			for len(kills) > 0 {
				<-kills
			}
			if len(b.reports) > 0 {
				continue
			}
			b.book.mu.Lock()
			paused := b.book.paused
			b.book.mu.Unlock()
			if paused {
				b.people(t, allowed)
			} else {
				b.book.lost()
			}
		case <-idle:
			if len(b.reports) > 0 || len(kills) > 0 {
				continue
			}
			b.people(t, allowed)
		}
		b.page = &page{}
		b.renewWith(t)
		b.start(t)
	}
	t.Fatal("the turn does not end")
}

// renewWith keeps the reports of the former desk.
func (b *bench) renewWith(t *testing.T) {
	t.Helper()
	reports := b.reports
	b.renew(t)
	b.reports = reports
}

// people decide everything that waits: calls whose outcome is not known are run again.
func (b *bench) people(t *testing.T, allowed map[string]int) {
	t.Helper()
	require.True(t, b.book.paused, "neither paused nor reported")
	for _, call := range b.book.calls {
		if call.GetDone() || call.GetNeed() == conversationpb.Need_RUN {
			continue
		}
		if call.GetNeed() == conversationpb.Need_OUTCOME {
			allowed[b.key(call.GetId())]++
		}
		b.book.decide(call.GetId(), nil, "")
	}
}

// key finds the idempotency key of an open call.
func (b *bench) key(id string) string {
	for _, step := range b.book.steps {
		for index, call := range step.GetUse().GetCalls() {
			if call.GetId() == id {
				return fmt.Sprintf("%s/%d/%d", b.runID, step.GetNumber(), index)
			}
		}
	}
	return ""
}
