package actors

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"
)

// listed counts the grains of a host's rings, and checks that each is listed once.
func listed(t *testing.T, h *host) int {
	t.Helper()
	seen := map[*grain]bool{}
	for _, r := range []*ring{&h.warm, &h.cold} {
		for g := r.root.newer; g != &r.root; g = g.newer {
			require.False(t, seen[g], "%s is listed twice", g.id)
			require.Same(t, g, g.newer.older)
			require.Same(t, g, h.grains[g.id])
			seen[g] = true
		}
	}
	return len(seen)
}

// However many entities are used in however many ticks, no more are remembered than are active.
func TestUseIsRememberedOncePerEntity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShell(t, newJournal(), 1)
		const entities, rounds = 50, 100
		for range rounds {
			for i := range entities {
				_, err := s.tellTo(t.Context(), fmt.Sprint("conv_", i), "title")
				require.NoError(t, err)
			}
			time.Sleep(time.Second)
		}
		synctest.Wait()
		h := s.hostIf(testShard)
		require.Equal(t, entities, listed(t, h))
		time.Sleep(30 * time.Second) // at rest
		synctest.Wait()
		require.Equal(t, entities, listed(t, h))
		require.Nil(t, h.warm.first())
		require.Zero(t, h.packing)
	})
}

// A load of ever new entities, far more of them per tick than are ever retired at once, leaves those that may be active,
// and of the others nothing that the collector could not take.
func TestRetirementKeepsUpWithTheLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most, seconds, perSecond = 100, 10, 3000
		s := newShell(t, newJournal(), 1, withInstant, func(c *Config) { c.MaxActive = most })
		h := s.hostIf(testShard)
		var all []weak.Pointer[grain]
		for second := range seconds {
			for i := range perSecond {
				id := fmt.Sprintf("conv_%d_%d", second, i)
				_, err := s.tellTo(t.Context(), id, "add:x")
				require.NoError(t, err)
				if i%100 == 0 {
					synctest.Wait()
					all = append(all, weak.Make(h.grains[id]))
				}
			}
			synctest.Wait()
			require.Equal(t, most, activeIn(h))
			require.Equal(t, most, listed(t, h))
			time.Sleep(time.Second)
		}
		require.Eventually(t, func() bool { return alive(all) <= most }, time.Minute, time.Second)
		time.Sleep(s.config.IdleAfter)
		require.Eventually(t, func() bool { return alive(all) == 0 }, time.Minute, time.Second)
		require.InDelta(t, 0, s.metric("parley_actors_active_entities"), 0)
	})
}

func alive(all []weak.Pointer[grain]) (n int) {
	runtime.GC()
	for _, g := range all {
		if g.Value() != nil {
			n++
		}
	}
	return n
}

// What has been idle for long enough is retired at once, however much it is.
func TestAllThatIsIdleIsRetired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const entities = 5000
		s := newShell(t, newJournal(), 1, withInstant, func(c *Config) { c.MaxActive = 2 * entities })
		for i := range entities {
			_, err := s.tellTo(t.Context(), fmt.Sprint("conv_", i), "add:x")
			require.NoError(t, err)
		}
		time.Sleep(s.config.IdleAfter / 2)
		synctest.Wait()
		require.Nil(t, s.hostIf(testShard).warm.first(), "all are packed")
		require.InDelta(t, entities, s.metric("parley_actors_active_entities"), 0)
		time.Sleep(s.config.IdleAfter/2 + 2*s.beat)
		synctest.Wait()
		require.InDelta(t, 0, s.metric("parley_actors_active_entities"), 0)
	})
}

// Entities that are at work are in nobody's way: those behind them go, and they go themselves once they are done.
func TestEntitiesAtWorkDoNotHoldUpOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most, busy = 10, 100
		s := newShell(t, newJournal(), 1, func(c *Config) {
			c.MaxActive = most
			c.Kinds[0].Running = "" // nothing else uses them
		})
		h := s.hostIf(testShard)
		tell := func(words string) {
			for i := range busy {
				_, err := s.tellTo(t.Context(), fmt.Sprint("conv_busy", i), words)
				require.NoError(t, err)
			}
		}
		tell("run")
		for i := range 500 {
			_, err := s.tellTo(t.Context(), fmt.Sprint("conv_", i), "add:x")
			require.NoError(t, err)
		}
		time.Sleep(2 * s.beat)
		synctest.Wait()
		require.Equal(t, busy, activeIn(h), "of the idle ones none has a place")
		tell("end")
		time.Sleep(2 * s.beat)
		synctest.Wait()
		require.Equal(t, most, activeIn(h))
		require.Equal(t, most, listed(t, h))
	})
}

func activeIn(h *host) int { return len(h.grains) }
