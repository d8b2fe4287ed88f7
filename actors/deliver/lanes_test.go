package deliver_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"parley/actors/deliver"
)

// targets runs jobs that take a time for each target, and notes when they began.
type targets struct {
	lanes *deliver.Lanes
	began time.Time

	mu   sync.Mutex
	runs map[string][]string
	late []string
	now  map[string]int
	most map[string]int
}

func newTargets(t *testing.T, config deliver.LanesConfig) *targets {
	t.Helper()
	lanes, err := deliver.NewLanes(config)
	require.NoError(t, err)
	return &targets{lanes: lanes, began: time.Now(), runs: map[string][]string{}, now: map[string]int{}, most: map[string]int{}}
}

func (r *targets) add(target, name string, takes, wait time.Duration) bool {
	return r.lanes.Add(deliver.Job{
		Target: target, Wait: wait,
		Run: func(ctx context.Context) {
			r.count(target, name, 1)
			select {
			case <-time.After(takes):
			case <-ctx.Done():
			}
			r.count(target, "", -1)
		},
		Late: func(context.Context) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.late = append(r.late, name)
		},
	})
}

func (r *targets) count(target, name string, by int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if name != "" {
		r.runs[target] = append(r.runs[target], fmt.Sprint(name, "@", time.Since(r.began)))
	}
	for _, of := range []string{target, "all"} {
		r.now[of] += by
		r.most[of] = max(r.most[of], r.now[of])
	}
}

func TestADeadTargetDelaysOnlyItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTargets(t, deliver.LanesConfig{Max: 8, PerTarget: 2})
		for n := range 20 {
			require.True(t, r.add("dead", fmt.Sprint("d", n), 10*time.Second, 29*time.Second))
		}
		for n := range 3 {
			require.True(t, r.add("live", fmt.Sprint("l", n), time.Second, 30*time.Second))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, []string{"l0@0s", "l1@0s", "l2@1s"}, sorted(r.runs["live"]))
		require.Equal(t, 2, r.most["dead"])
		require.Len(t, r.runs["dead"], 2*3, "what waits longer than it may is given up")
		require.Len(t, r.late, 14)
		require.Zero(t, r.lanes.Waiting())
		r.lanes.Stop()
	})
}

func TestTargetsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTargets(t, deliver.LanesConfig{Max: 1, PerTarget: 1})
		for n := range 3 {
			require.True(t, r.add("many", fmt.Sprint(n), time.Second, time.Minute))
		}
		require.True(t, r.add("few", "f", time.Second, time.Minute))
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, []string{"0@0s", "1@2s", "2@3s"}, r.runs["many"], "in the order in which they came")
		require.Equal(t, []string{"f@1s"}, r.runs["few"])
		require.Equal(t, 1, r.most["all"])
		r.lanes.Stop()
	})
}

func TestLanesAreBoundedAndStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTargets(t, deliver.LanesConfig{Max: 1, PerTarget: 1, MaxWaiting: 2})
		require.True(t, r.add("x", "0", time.Hour, time.Minute))
		require.True(t, r.add("x", "1", time.Hour, time.Minute))
		require.True(t, r.add("y", "2", time.Hour, time.Minute))
		require.False(t, r.add("z", "3", time.Hour, time.Minute), "too many wait")
		r.lanes.Stop() // which waits for what runs
		require.False(t, r.add("x", "4", time.Hour, time.Minute))
		time.Sleep(time.Hour)
		require.Equal(t, 0, r.now["all"])
		require.Len(t, r.runs["x"], 1)
		require.Empty(t, r.runs["y"])
		require.Empty(t, r.late)
	})
}

func TestTargetOf(t *testing.T) {
	t.Parallel()
	require.Equal(t, "host.example:8443", deliver.TargetOf("https://HOST.example:8443/a?b"))
	require.Equal(t, deliver.TargetOf("https://host.example/a"), deliver.TargetOf("https://host.example/b"))
	require.NotEmpty(t, deliver.TargetOf("::"))
}

func sorted(all []string) []string {
	slices.Sort(all)
	return all
}
