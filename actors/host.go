package actors

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"parley/actors/core/failure"
)

// host is the permanent actor of one shard: the only one that knows its grains. Commands for a grain that is being
// retired wait here until it is gone.
type host struct {
	system *System
	shard  uint32
	pid    *actor.PID
	props  *actor.Props // of grains; shared

	tenure   atomic.Pointer[tenure] // under which the shard is owned; nil = not owned
	newest   atomic.Uint64          // newest epoch ever owned here
	past     []uint64               // the newest of all epochs owned here; the system's mu guards it, and what it was is shared
	inFlight atomic.Int64           // commands queued, held or being decided
	active   atomic.Int64           // of them those that a grain has, and the grains' own
	watched  atomic.Bool            // somebody waits for active to be 0
	stopped  atomic.Bool            // the shard was owned when the system was stopped

	// The rest belongs to the actor.
	serving  *tenure           // as the actor knows it
	holding  hold              // which commands are held
	held     []*ask            // in the order they came
	quiet    []chan<- struct{} // closed when active is 0
	grains   map[string]*grain // one per active entity
	warm     ring              // grains by use: those of the last packTicks,
	cold     ring              // and those that have packed since
	ticks    uint64
	window   int      // how many may be packing or on their way out at once
	leaving  []*grain // of a former epoch, still to be retired
	retiring int      // told to stop, not yet gone
	packing  int      // told to pack, not yet done
	draining uint64   // former epoch that is being drained, 0 = none
	done     []func() // called when drained
}

type (
	ownership struct {
		tenure *tenure
		done   func()
	}
	tick   struct{ window int }
	gone   struct{ grain *grain }
	pack   struct{}
	packed struct{}
)

func newHost(s *System, shard uint32) *host {
	h := &host{system: s, shard: shard, grains: make(map[string]*grain), window: leastHousekeeping}
	h.warm.init()
	h.cold.init()
	h.props = actor.PropsFromProducer(func() actor.Actor { return &cell{} }, actor.WithDispatcher(s.workers))
	h.pid = s.root.Spawn(actor.PropsFromProducer(func() actor.Actor { return h }, actor.WithDispatcher(s.workers)))
	return h
}

func (h *host) notOwner() *NotOwnerError {
	return &NotOwnerError{Shard: h.shard, Epoch: h.newest.Load()}
}

// prove notes that the journal has answered what was asked of it at start: the node owns the shard. It says whether it
// does under this tenure, and has all the time.
func (h *host) prove(t *tenure, start time.Time) bool {
	if t.over.Load() || !h.system.config.Journal.Owns(h.shard, t.epoch) {
		return false
	}
	t.prove(start)
	return true
}

// refusal is the answer to what comes when the shard is not owned any more.
func (h *host) refusal() error {
	if h.stopped.Load() {
		return errStopping()
	}
	return h.notOwner()
}

// Receive is one turn of the host's mailbox.
func (h *host) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *ask:
		h.route(m)
	case *forget:
		if g := h.grains[m.id]; g != nil && !g.stopping {
			h.system.root.Send(g.pid, m)
		}
	case *tick:
		h.ticks++
		h.window = m.window
		h.tidy(len(h.grains))
	case *packed:
		h.packing--
		h.system.metrics.tidied.Dec()
		h.tidy(evictLook)
	case *gone:
		h.buried(m.grain)
	case *ownership:
		h.change(m)
	case *holdOrder:
		h.obey(m)
	case *becameQuiet:
		h.tellQuiet()
	}
}

// route hands a command to its grain.
func (h *host) route(a *ask) {
	if h.serving == nil {
		h.refuse(a, h.refusal())
		return
	}
	if h.holds(a) {
		h.held = append(h.held, a)
		return
	}
	g := h.grains[a.id]
	switch {
	case g == nil:
		h.forward(h.spawn(a.id, a.kind), a)
		if h.crowded() {
			h.tidy(evictLook) // not before: the new one must not be what goes
		}
		return
	case g.stopping:
		if len(g.pending) >= h.system.config.MaxQueued {
			h.refuse(a, unavailable(failure.TooManyCommands))
			return
		}
		g.pending = append(g.pending, a)
		return
	}
	h.forward(g, a)
}

func (h *host) forward(g *grain, a *ask) {
	if g.queued.Load() >= int32(h.system.config.MaxQueued) {
		h.refuse(a, unavailable(failure.TooManyCommands))
		return
	}
	g.queued.Add(1)
	h.active.Add(1)
	h.touch(g)
	h.system.root.Send(g.pid, a)
}

func (h *host) refuse(a *ask, err error) {
	h.inFlight.Add(-1)
	a.answer(nil, err)
}

func (h *host) spawn(id string, kind *Kind) *grain {
	g := &grain{host: h, kind: kind, id: id, tenure: h.serving}
	g.pid = h.system.root.Spawn(h.props)
	h.system.root.Send(g.pid, g) // the cell learns who it is
	h.grains[id] = g
	h.touch(g)
	h.system.metrics.active.Inc()
	h.system.metrics.activations.Inc()
	return g
}

// change retires every grain of a former tenure, first those that somebody waits for. Until one is gone, commands for it
// wait when the shard is still owned here, else they are refused.
func (h *host) change(m *ownership) {
	if m.done != nil {
		h.done = append(h.done, m.done)
	}
	if h.serving != nil && h.serving != m.tenure {
		h.draining = max(h.draining, h.serving.epoch)
		var engaged []*grain
		for _, g := range h.grains {
			switch {
			case g.stopping:
				continue
			case g.engaged():
				engaged = append(engaged, g)
			default:
				h.leaving = append(h.leaving, g)
			}
			g.stopping = true
			g.unlink()
		}
		h.leaving = append(h.leaving, engaged...) // the last go first
	}
	h.serving = m.tenure
	h.release()
	h.drain()
}

// drain retires the leaving grains, a window at a time.
func (h *host) drain() {
	for len(h.leaving) > 0 && h.retiring < retireWindow {
		last := len(h.leaving) - 1
		g := h.leaving[last]
		h.leaving[last] = nil
		h.leaving = h.leaving[:last]
		h.retire(g)
	}
	if len(h.leaving) > 0 || h.retiring > 0 {
		return
	}
	h.leaving = nil
	if h.draining != 0 {
		// Once more, now that no grain of that epoch can start anything.
		for _, kind := range h.system.kinds {
			if kind.OnRelease != nil {
				kind.OnRelease(h.shard, h.draining)
			}
		}
		h.draining = 0
	}
	for _, done := range h.done {
		done()
	}
	h.done = nil
}

// fenced gives the shard up: its log holds an entry of a newer owner.
func (h *host) fenced(t *tenure) {
	h.system.log.Warn("fenced by a newer owner", slog.Uint64("shard", uint64(h.shard)), slog.Uint64("epoch", t.epoch))
	h.system.disown(h, t)
}
