package actors

const (
	// housekeeping bounds how many grains of a node are packing or being retired at the same time, and leastHousekeeping
	// those of one shard. It is a bound on what runs, not on how many a second: every run of a mailbox is a goroutine, and
	// retiring 100,000 at once would leave as many goroutine descriptors behind; but retiring fewer than are activated
	// would let them pile up.
	housekeeping      = 1024
	leastHousekeeping = 16
	// retireWindow bounds how many grains of a shard are being retired when it changes hands.
	retireWindow = 256
	// packTicks is after how many ticks without a command a grain packs its state.
	packTicks = 5
	// evictLook is how many grains that are at work are passed over in the search for one that can be retired, between ticks.
	evictLook = 8
)

// ring is a list of grains, the least recently used first. It runs through the grains themselves: a grain is in at most
// one place of one ring, and nothing is left behind of one that has been taken out.
type ring struct{ root grain }

func (r *ring) init() { r.root.newer, r.root.older = &r.root, &r.root }

// first is the least recently used grain, nil when there is none.
func (r *ring) first() *grain {
	if r.root.newer == &r.root {
		return nil
	}
	return r.root.newer
}

// push puts a grain behind all others, out of where it was.
func (r *ring) push(g *grain) {
	g.unlink()
	g.newer, g.older = &r.root, r.root.older
	g.older.newer, r.root.older = g, g
}

func (g *grain) unlink() {
	if g.newer != nil {
		g.newer.older, g.older.newer = g.older, g.newer
		g.newer, g.older = nil, nil
	}
}

// touch makes a grain the most recently used.
func (h *host) touch(g *grain) {
	g.touched = h.ticks
	h.warm.push(g)
}

// oldest is the least recently used grain that is not being retired, nil when there is none.
func (h *host) oldest() *grain {
	if g := h.cold.first(); g != nil {
		return g
	}
	return h.warm.first()
}

// tidy retires what is above the bound and what has been idle for long enough, and has what nobody used for a while pack
// its state. As many are begun as the window has room for, and each that has ended makes room for the next: it keeps up
// with any load. What is at work counts as used now; at most so many of those are looked at.
func (h *host) tidy(looks int) {
	for h.hasRoom() {
		g := h.oldest()
		if g == nil || !h.crowded() && h.ticks-g.touched <= h.system.idleTicks {
			break
		}
		if !g.engaged() {
			h.retire(g)
			continue
		}
		if looks == 0 {
			break
		}
		looks--
		h.touch(g)
	}
	for h.hasRoom() {
		g := h.warm.first()
		if g == nil || g.touched+packTicks > h.ticks {
			break
		}
		h.cold.push(g)
		if !g.engaged() {
			h.packing++
			h.system.metrics.tidied.Inc()
			h.system.root.Send(g.pid, &pack{})
		}
	}
}

func (h *host) hasRoom() bool { return h.retiring+h.packing < h.window }

// crowded says that more grains are active than may be, those on their way out not counted.
func (h *host) crowded() bool {
	return len(h.grains)-h.retiring-len(h.leaving) > h.system.config.MaxActive
}

// retire tells a grain to stop once its mailbox is empty. Poison, not Stop: Stop would jump the queue and lose what is
// in it.
func (h *host) retire(g *grain) {
	g.stopping = true
	g.unlink()
	h.retiring++
	h.system.metrics.tidied.Inc()
	h.system.root.Poison(g.pid)
}

// buried ends a grain that has stopped. What has come for it meanwhile goes to its successor.
func (h *host) buried(g *grain) {
	h.retiring--
	h.system.metrics.tidied.Dec()
	delete(h.grains, g.id)
	h.system.metrics.active.Dec()
	h.system.metrics.passivations.Inc()
	pending := g.pending
	g.pending = nil
	for _, a := range pending {
		h.route(a)
	}
	h.drain()
	h.tidy(evictLook)
}
