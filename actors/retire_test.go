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

// look shows a host while everything is quiet. What is its own is read here, so it is sent a word afterwards.
func (s *shell) look(show func(h *host)) {
	s.tb.Helper()
	synctest.Wait()
	h := s.hostIf(testShard)
	show(h)
	s.root.Send(h.pid, &forget{id: "nobody"})
}

// listed counts the activations of a host's rings, and checks that each is listed once, and no other.
func (s *shell) listed() (n int) {
	s.tb.Helper()
	s.look(func(h *host) {
		seen := map[*activation]bool{}
		for _, r := range []*ring{&h.warm, &h.cold} {
			for g := r.root.newer; g != &r.root; g = g.newer {
				require.False(s.tb, seen[g], "%s is listed twice", g.id)
				require.Same(s.tb, g, g.newer.older)
				require.Same(s.tb, g, h.byID[g.id])
				seen[g] = true
			}
		}
		require.Len(s.tb, h.byID, len(seen))
		n = len(seen)
	})
	return n
}

// warm says whether there are activations that have not packed.
func (s *shell) warm() (found bool) {
	s.look(func(h *host) { found = h.warm.first() != nil || h.packing > 0 })
	return found
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
		require.Equal(t, entities, s.listed())
		time.Sleep(30 * time.Second) // at rest
		require.Equal(t, entities, s.listed())
		require.False(t, s.warm())
	})
}

// A load of ever new entities, far more of them per tick than are ever retired at once, leaves those that may be active,
// and of the others nothing that the collector could not take.
func TestRetirementKeepsUpWithTheLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most, seconds, perSecond = 100, 10, 3000
		s := newShell(t, newJournal(), 1, withInstant, func(c *Config) { c.MaxActive = most })
		var all []weak.Pointer[activation]
		for second := range seconds {
			for i := range perSecond {
				id := fmt.Sprintf("conv_%d_%d", second, i)
				_, err := s.tellTo(t.Context(), id, "add:x")
				require.NoError(t, err)
				if i%100 == 0 {
					s.look(func(h *host) { all = append(all, weak.Make(h.byID[id])) })
				}
			}
			require.Equal(t, most, s.listed())
			time.Sleep(time.Second)
		}
		require.Eventually(t, func() bool { return alive(all) <= most }, time.Minute, time.Second)
		time.Sleep(s.config.IdleAfter)
		require.Eventually(t, func() bool { return alive(all) == 0 }, time.Minute, time.Second)
		require.InDelta(t, 0, s.metric("parley_actors_active_entities"), 0)
	})
}

func alive(all []weak.Pointer[activation]) (n int) {
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
		require.False(t, s.warm(), "all are packed")
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
		require.Equal(t, busy, s.listed(), "of the idle ones none has a place")
		tell("end")
		time.Sleep(2 * s.beat)
		require.Equal(t, most, s.listed())
	})
}
