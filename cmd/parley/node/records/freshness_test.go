package records

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"parley/persistence"
)

func newFreshness(confirm func(context.Context) error) *freshness {
	f := &freshness{}
	f.start(confirm, 5*time.Second)
	return f
}

// TestQuestionsAreShared: however many ask, one question is under way, and none is answered by one that was asked before
// it came.
func TestQuestionsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		f := newFreshness(func(context.Context) error {
			asked++ // one at a time
			time.Sleep(10 * time.Millisecond)
			return nil
		})
		defer f.stop()
		var waiting sync.WaitGroup
		for i := range 1000 {
			waiting.Go(func() {
				time.Sleep(time.Duration(i%25) * time.Millisecond)
				came := time.Now()
				if err := f.pass(t.Context()); err != nil || time.Since(came) < 10*time.Millisecond {
					t.Errorf("answered after %v, %v", time.Since(came), err)
				}
			})
		}
		waiting.Wait()
		require.Equal(t, 4, asked)
	})
}

func TestQuestionThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("no owner")
		f := newFreshness(func(ctx context.Context) error {
			time.Sleep(time.Second)
			return errors.Join(broken, ctx.Err())
		})
		require.ErrorIs(t, f.pass(t.Context()), broken)
		short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		require.ErrorIs(t, f.pass(short), context.DeadlineExceeded)
		f.stop() // waits for the one that nobody waits for any more
		require.ErrorIs(t, f.pass(t.Context()), persistence.ErrStopped)
	})
}

func TestMissesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFreshness(nil)
		defer f.stop()
		require.False(t, f.missed("tokens", "a"))
		f.miss("tokens", "a")
		require.True(t, f.missed("tokens", "a"))
		require.False(t, f.missed("users", "a"))
		time.Sleep(missKept)
		require.False(t, f.missed("tokens", "a"))
		for i := range 3 * maxMisses {
			f.miss("tokens", fmt.Sprint(i))
			require.LessOrEqual(t, len(f.misses), maxMisses)
		}
	})
}
