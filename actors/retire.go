package actors

const (
	// housekeeping bounds how many activations of a node are packing or being retired at the same time, and leastHousekeeping
	// those of one shard. It is a bound on what runs, not on how many a second: every run of a mailbox is a goroutine, and
	// retiring 100,000 at once would leave as many goroutine descriptors behind; but retiring fewer than are activated
	// would let them pile up.
	housekeeping      = 1024
	leastHousekeeping = 16
	// retireWindow bounds how many activations of a shard are being retired when it changes hands.
	retireWindow = 256
	// packTicks is after how many ticks without a command an activation packs its state.
	packTicks = 5
	// evictLook is how many busy activations are skipped in the search for one that can be retired, between ticks.
	evictLook = 8
)

// ring is an intrusive list of activations, the least recently used first. An activation is in at most one ring, and
// removing it leaves nothing behind.
type ring struct{ root activation }

func (r *ring) init() { r.root.newer, r.root.older = &r.root, &r.root }

// first is the least recently used activation, nil when there is none.
func (r *ring) first() *activation {
	if r.root.newer == &r.root {
		return nil
	}
	return r.root.newer
}

// push moves an activation to the end of the ring.
func (r *ring) push(act *activation) {
	act.unlink()
	act.newer, act.older = &r.root, r.root.older
	act.older.newer, r.root.older = act, act
}

func (act *activation) unlink() {
	if act.newer != nil {
		act.newer.older, act.older.newer = act.older, act.newer
		act.newer, act.older = nil, nil
	}
}

// touch makes an activation the most recently used.
func (h *host) touch(act *activation) {
	act.touched = h.ticks
	h.warm.push(act)
}

// oldest is the least recently used activation that is not being retired, nil when there is none.
func (h *host) oldest() *activation {
	if act := h.cold.first(); act != nil {
		return act
	}
	return h.warm.first()
}

// tidy retires activations above the bound and those that have been idle for long enough, and makes those that were not
// used for a while pack their state. It starts as many as the window has room for, and each that ends makes room for the
// next, so it keeps up with any load. Busy activations count as used now; at most looks of them are skipped.
func (h *host) tidy(looks int) {
	for h.hasRoom() {
		act := h.oldest()
		if act == nil || !h.crowded() && h.ticks-act.touched <= h.system.idleTicks {
			break
		}
		if !act.engaged() {
			h.retire(act)
			continue
		}
		if looks == 0 {
			break
		}
		looks--
		h.touch(act)
	}
	for h.hasRoom() {
		act := h.warm.first()
		if act == nil || act.touched+packTicks > h.ticks {
			break
		}
		h.cold.push(act)
		if !act.engaged() {
			h.packing++
			h.system.metrics.tidied.Inc()
			h.system.root.Send(act.pid, &pack{})
		}
	}
}

func (h *host) hasRoom() bool { return h.retiring+h.packing < h.window }

// crowded reports whether more activations are active than allowed, not counting those that are being retired.
func (h *host) crowded() bool {
	return len(h.byID)-h.retiring-len(h.leaving) > h.system.config.MaxActive
}

// retire tells an activation to stop once its mailbox is empty. Poison, not Stop: Stop would jump the queue and lose what is
// in it.
func (h *host) retire(act *activation) {
	act.stopping = true
	act.unlink()
	h.retiring++
	h.system.metrics.tidied.Inc()
	h.system.root.Poison(act.pid)
}

// buried ends an activation that has stopped. What has come for it meanwhile goes to its successor.
func (h *host) retired(act *activation) {
	h.retiring--
	h.system.metrics.tidied.Dec()
	delete(h.byID, act.id)
	h.system.metrics.active.Dec()
	h.system.metrics.passivations.Inc()
	pending := act.pending
	act.pending = nil
	for _, a := range pending {
		h.route(a)
	}
	h.drain()
	h.tidy(evictLook)
}
