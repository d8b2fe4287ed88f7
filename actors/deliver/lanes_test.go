package deliver_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
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
	return r.addOf("", target, name, takes, wait)
}

func (r *targets) addOf(tenant, target, name string, takes, wait time.Duration) bool {
	return r.lanes.Add(deliver.Job{
		Place: deliver.Place{Tenant: tenant, Target: target}, Wait: wait,
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

// TestATenantDelaysOnlyItself: one that has 500 targets which hold what they get has most of the places, and not all. Others begin at
// once, and get more as soon as places are given back.
func TestATenantDelaysOnlyItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTargets(t, deliver.LanesConfig{})
		defer r.lanes.Stop()
		for n := range 500 {
			require.True(t, r.addOf("holds", fmt.Sprint("h", n), "h", 10*time.Second, time.Minute))
		}
		synctest.Wait()
		require.Equal(t, 96, r.most["all"])
		for n := range 40 {
			require.True(t, r.addOf("other", "o", fmt.Sprint("o", n), 100*time.Millisecond, time.Minute))
		}
		for n := range 8 {
			require.True(t, r.addOf(fmt.Sprint("small", n), fmt.Sprint("s", n), "s", time.Second, time.Minute))
		}
		time.Sleep(9 * time.Second)
		synctest.Wait()
		require.Len(t, r.runs["o"], 40, "with the places that the first one leaves")
		require.Contains(t, r.runs["o"], "o0@0s")
		for n := range 8 {
			require.Equal(t, []string{"s@0s"}, r.runs[fmt.Sprint("s", n)])
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Empty(t, r.late)
	})
}

// TestManyTenantsThatHold: each leaves something to the next, and the last places are for those who have none. Places that are given
// back are shared evenly.
func TestManyTenantsThatHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTargets(t, deliver.LanesConfig{})
		defer r.lanes.Stop()
		for tenant := range 12 {
			for n := range 500 {
				r.addOf(fmt.Sprint("t", tenant), fmt.Sprint(tenant, "/", n), fmt.Sprint("t", tenant), 10*time.Second, time.Hour)
			}
			require.True(t, r.addOf(fmt.Sprint("late", tenant), fmt.Sprint("late", tenant), "l", 100*time.Millisecond, time.Minute))
			synctest.Wait()
			require.Equal(t, []string{fmt.Sprintf("l@%v", time.Since(r.began))}, r.runs[fmt.Sprint("late", tenant)], "it begins at once")
			time.Sleep(200 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		shares := map[string]int{}
		now := time.Since(r.began)
		for _, began := range r.runs {
			for _, one := range began {
				name, at, _ := strings.Cut(one, "@")
				if begun, err := time.ParseDuration(at); err == nil && now-begun < 10*time.Second {
					shares[name]++
				}
			}
		}
		require.Len(t, shares, 12)
		for tenant, share := range shares {
			require.InDelta(t, 112/12, share, 1, tenant)
		}
		require.True(t, r.addOf("new", "new", "n", time.Second, time.Minute))
		synctest.Wait()
		require.Equal(t, []string{fmt.Sprintf("n@%v", now)}, r.runs["new"])
	})
}

// TestTenantsShareATarget: its bound holds for all of them together, and none of them has it alone.
func TestTenantsShareATarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTargets(t, deliver.LanesConfig{Max: 100, PerTarget: 16})
		defer r.lanes.Stop()
		for n := range 50 {
			require.True(t, r.addOf("holds", "x", fmt.Sprint("h", n), 10*time.Second, time.Minute))
		}
		for n := range 50 {
			require.True(t, r.addOf("other", "x", fmt.Sprint("o", n), 10*time.Second, time.Minute))
		}
		require.True(t, r.addOf("third", "x", "t", 10*time.Second, time.Minute))
		synctest.Wait()
		require.Contains(t, r.runs["x"], "o0@0s")
		require.Contains(t, r.runs["x"], "t@0s")
		time.Sleep(9 * time.Second)
		require.LessOrEqual(t, r.most["x"], 16)
		time.Sleep(time.Minute)
		require.LessOrEqual(t, r.most["x"], 16)
	})
}

// TestTenantsShareWhatWaits: one whose jobs wait does not keep those of others out.
func TestTenantsShareWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTargets(t, deliver.LanesConfig{Max: 4, MaxWaiting: 100})
		defer r.lanes.Stop()
		took := 0
		for n := range 200 {
			if r.addOf("many", fmt.Sprint("m", n), "m", time.Hour, 2*time.Hour) {
				took++
			}
		}
		require.Equal(t, 3+75, took)
		require.True(t, r.addOf("few", "f", "f", time.Second, time.Minute))
		require.True(t, r.addOf("few", "f", "f", time.Second, time.Minute))
		require.Equal(t, 76, r.lanes.Waiting())
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Len(t, r.runs["f"], 2)
	})
}

// TestTake: those who are slow have half of the places, whoever stops waiting lets others go on, and a place is taken once.
func TestTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lanes, err := deliver.NewLanes(deliver.LanesConfig{Max: 4, PerTarget: 4})
		require.NoError(t, err)
		within, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		got := map[string][]func(){}
		take := func(ctx context.Context, tenant string, slow bool) {
			go func() {
				if leave, ok := lanes.Take(ctx, deliver.Place{Tenant: tenant, Target: tenant, Slow: slow}); ok {
					mu.Lock()
					defer mu.Unlock()
					got[tenant] = append(got[tenant], leave)
				}
			}()
			synctest.Wait()
		}
		for range 3 {
			take(within, "slow", true)
		}
		take(t.Context(), "slow", false) // behind the third
		require.Len(t, got["slow"], 2)
		take(t.Context(), "other", false)
		require.Len(t, got["other"], 1)
		cancel() // the third waits no more
		synctest.Wait()
		require.Len(t, got["slow"], 3)
		require.Zero(t, lanes.Waiting())
		take(t.Context(), "last", false)
		require.Empty(t, got["last"])
		got["slow"][0]()
		synctest.Wait()
		require.Len(t, got["last"], 1)
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
