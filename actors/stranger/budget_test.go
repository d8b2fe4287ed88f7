package stranger_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"parley/actors/stranger"
)

const (
	kib  = 1 << 10
	mib  = 1 << 20
	step = 64 * kib
)

func open(t *testing.T, budget *stranger.Budget, tenant string) *stranger.Answer {
	t.Helper()
	_, answer := budget.Open(stranger.Of(t.Context(), tenant))
	t.Cleanup(answer.Close)
	return answer
}

// pending takes memory in a goroutine of the bubble; the channel gets the outcome.
func pending(answer *stranger.Answer, bytes int64) <-chan error {
	done := make(chan error, 1)
	go func() { done <- answer.Take(bytes) }()
	synctest.Wait()
	return done
}

// TestShares: a tenant may hold as much as is free then, whatever others hold.
func TestShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := stranger.New(32 * mib) // a pool of 16
		one, two := open(t, budget, "one"), open(t, budget, "two")
		require.NoError(t, one.Take(8*mib))
		require.NoError(t, two.Take(4*mib))
		require.EqualValues(t, 12*mib, budget.Most())

		// One is above its share: its next answer gets the reserve, the one behind waits. A newcomer is served at once.
		require.NoError(t, open(t, budget, "one").Take(step))
		late := open(t, budget, "one")
		waits := pending(late, step)
		require.Empty(t, waits)
		require.NoError(t, open(t, budget, "three").Take(2*mib))
		require.Empty(t, waits)

		one.Close()
		synctest.Wait()
		require.NoError(t, <-waits)
	})
}

// TestRoundRobin: those who wait are served tenant by tenant, however many of one came first.
func TestRoundRobin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := stranger.New(2 * mib) // a pool of 1
		full, last := open(t, budget, "full"), open(t, budget, "full")
		require.NoError(t, full.Take(512*kib))
		require.NoError(t, last.Take(step)) // has the reserve
		var mu sync.Mutex
		var served []string
		var group sync.WaitGroup
		for _, name := range []string{"a1", "a2", "a3", "b1", "c1", "b2"} {
			answer := open(t, budget, name[:1])
			group.Go(func() {
				if answer.Take(400*kib) == nil { // not more than one fits beside what is held
					mu.Lock()
					served = append(served, name)
					mu.Unlock()
					time.Sleep(time.Second)
					answer.Close()
				}
			})
			synctest.Wait()
		}
		require.Empty(t, served)
		full.Close()
		group.Wait()
		require.Equal(t, []string{"a1", "b1", "c1", "a2", "b2", "a3"}, served)
	})
}

// TestWaitEnds: a wait ends with its call, in words.
func TestWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := stranger.New(2 * mib)
		require.NoError(t, open(t, budget, "a").Take(512*kib))
		require.NoError(t, open(t, budget, "a").Take(512*kib))
		ctx, cancel := context.WithTimeout(stranger.Of(t.Context(), "a"), time.Minute)
		defer cancel()
		begun := time.Now()
		call, answer := budget.Open(ctx)
		defer answer.Close()
		require.NoError(t, answer.Take(stranger.Free), "a little is not counted")
		require.Equal(t, stranger.ErrBusy, answer.Take(1), "the second has the reserve for %s", stranger.Hurry)
		require.Equal(t, time.Minute, time.Since(begun))
		require.Equal(t, stranger.ErrBusy, answer.Err())
		require.Error(t, call.Err())
		require.Equal(t, stranger.ErrBusy, answer.Take(1), "it was given up")
	})
}

// TestReserve: where all hold a part and wait for the rest, one after the other comes to its end.
func TestReserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := stranger.New(8 * mib) // a pool of 4
		const answers, whole = 40, 2 * mib
		var group sync.WaitGroup
		for range answers {
			answer := open(t, budget, "a")
			group.Go(func() {
				defer answer.Close()
				for taken := 0; taken < whole; taken += step {
					if err := answer.Take(step); err != nil {
						t.Errorf("an answer is given up: %v", err)
						return
					}
					time.Sleep(time.Millisecond)
				}
			})
		}
		group.Wait()
		require.LessOrEqual(t, budget.Most(), int64(2*mib+4*mib))
		require.NoError(t, open(t, budget, "a").Take(2*mib), "all was given back")
	})
}

// TestHurry: what has the reserve is given up when it takes long, and the next one is served.
func TestHurry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := stranger.New(2 * mib)
		require.NoError(t, open(t, budget, "a").Take(512*kib))
		ctx, slow := budget.Open(stranger.Of(t.Context(), "a"))
		begun := time.Now()
		require.NoError(t, slow.Take(512*kib))
		next := open(t, budget, "a")
		waits := pending(next, 512*kib)
		<-ctx.Done()
		require.Equal(t, stranger.ErrSlow, context.Cause(ctx))
		require.Equal(t, stranger.Hurry, time.Since(begun))
		require.Equal(t, stranger.ErrSlow, slow.Take(1))
		slow.Close()
		require.NoError(t, <-waits)
		next.Close()
		time.Sleep(2 * stranger.Hurry)
		require.NoError(t, next.Err(), "what is closed in time is not given up")
	})
}

func TestTooLarge(t *testing.T) {
	t.Parallel()
	budget := stranger.New(2 * mib)
	_, answer := budget.Open(t.Context())
	defer answer.Close()
	read, err := io.ReadAll(answer.Reader(strings.NewReader(strings.Repeat("x", mib/4+1)), 4))
	require.Equal(t, stranger.ErrTooLarge, err)
	require.LessOrEqual(t, len(read), mib/4)
	require.LessOrEqual(t, budget.Most(), int64(mib))
}

// TestKeep: what is kept for long is never waited for.
func TestKeep(t *testing.T) {
	t.Parallel()
	budget := stranger.New(2 * mib)
	require.True(t, open(t, budget, "a").Keep(512*kib))
	require.False(t, open(t, budget, "a").Keep(step))
	require.True(t, open(t, budget, "b").Keep(256*kib))
	require.True(t, open(t, budget, "a").Keep(stranger.Free))
}

// TestMetrics: an operator sees what is held, who waits and what was given up.
func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		budget := stranger.New(2 * mib)
		budget.Observe(registry)
		full, last := open(t, budget, "a"), open(t, budget, "a")
		require.NoError(t, full.Take(512*kib))
		require.NoError(t, last.Take(step)) // has the reserve
		ctx, cancel := context.WithTimeout(stranger.Of(t.Context(), "a"), time.Minute)
		defer cancel()
		_, late := budget.Open(ctx)
		waits := pending(late, step)
		want := func(bytes, waiting, busy, large, slow float64) {
			t.Helper()
			require.Equal(t, map[string]float64{
				"parley_answer_memory_bytes": bytes, "parley_answer_memory_limit_bytes": 2 * mib, "parley_answer_memory_waiting_calls": waiting,
				"parley_answer_memory_refused_total busy": busy, "parley_answer_memory_refused_total large": large,
				"parley_answer_memory_refused_total slow": slow,
			}, gathered(t, registry))
		}
		want(512*kib+step, 1, 0, 0, 0)
		require.Equal(t, stranger.ErrBusy, <-waits)
		require.Equal(t, stranger.ErrBusy, late.Take(1), "counted once")
		require.Equal(t, stranger.ErrTooLarge, full.Take(2*mib))
		want(512*kib+step, 0, 1, 1, 1) // the one with the reserve was slow meanwhile
		full.Close()
		last.Close()
		want(0, 0, 1, 1, 1)
	})
}

// gathered are the values of a registry, by name and the values of labels.
func gathered(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	values := make(map[string]float64)
	for _, family := range families {
		for _, one := range family.GetMetric() {
			name := family.GetName()
			for _, label := range one.GetLabel() {
				name += " " + label.GetValue()
			}
			values[name] = one.GetGauge().GetValue() + one.GetCounter().GetValue()
		}
	}
	return values
}

func TestNobodyIsBounded(t *testing.T) {
	t.Parallel()
	var none *stranger.Answer
	read, err := io.ReadAll(stranger.From(t.Context()).Reader(bytes.NewReader(make([]byte, mib)), 100))
	require.NoError(t, err)
	require.Len(t, read, mib)
	none.Give(1)
	none.Reset()
	none.Close()
	require.NoError(t, none.Err())
}

// TestNeverAbove: whatever many do, no more is held than there is, each comes to an end, and in the end nothing is held.
func TestNeverAbove(outer *testing.T) {
	rapid.Check(outer, func(t *rapid.T) {
		size := int64(rapid.IntRange(4, 64).Draw(t, "steps")) * 2 * step
		type plan struct {
			tenant string
			takes  []int
		}
		plans := make([]plan, rapid.IntRange(1, 20).Draw(t, "answers"))
		for i := range plans {
			plans[i] = plan{
				fmt.Sprint(rapid.IntRange(0, 3).Draw(t, "tenant")),
				rapid.SliceOfN(rapid.IntRange(-3*step, 4*step), 1, 8).Draw(t, "takes"),
			}
		}
		var ended []error
		var most int64
		synctest.Test(outer, func(*testing.T) {
			budget := stranger.New(size)
			var group sync.WaitGroup
			var mu sync.Mutex
			for _, one := range plans {
				group.Go(func() {
					ctx, cancel := context.WithTimeout(stranger.Of(context.Background(), one.tenant), 5*time.Minute)
					defer cancel()
					_, answer := budget.Open(ctx)
					defer answer.Close()
					for _, bytes := range one.takes {
						if bytes < 0 {
							answer.Give(int64(-bytes))
						} else if answer.Take(int64(bytes)) != nil {
							break
						}
						time.Sleep(time.Millisecond)
					}
					mu.Lock()
					ended = append(ended, answer.Err())
					mu.Unlock()
				})
			}
			group.Wait()
			most = budget.Most()
			_, all := budget.Open(stranger.Of(context.Background(), "all"))
			if !all.Keep(size / 4 / step * step) {
				outer.Errorf("something is still held")
			}
			all.Close()
		})
		if most > size {
			t.Fatalf("%d of %d were held", most, size)
		}
		if slices.Contains(ended, stranger.ErrBusy) || slices.Contains(ended, stranger.ErrSlow) {
			t.Fatalf("one waited to its end: %v", ended)
		}
	})
}
