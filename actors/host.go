package actors

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"parley/actors/core/failure"
)

// host is the permanent actor of one shard and the only one that can reach its activations. Commands for an activation
// that is being retired wait here until it is gone.
type host struct {
	system *System
	shard  uint32
	pid    *actor.PID
	props  *actor.Props // of activations; shared

	term    atomic.Pointer[term] // under which the shard is owned; nil = not owned
	newest  atomic.Uint64        // newest epoch ever owned here
	past    []uint64             // the newest epochs owned here; System.mu guards it, terms share older values of the slice
	stopped atomic.Bool          // the shard was owned when the system was stopped
	load
	outbox outbox

	// The rest belongs to the actor.
	serving *term             // as the actor knows it
	holding hold              // which commands are held
	held    []*ask            // in the order of arrival
	quiet   []chan<- struct{} // closed when active is 0
	residents
	retirement
}

// load counts the commands of a shard.
type load struct {
	inFlight atomic.Int64 // commands queued, held or being decided
	active   atomic.Int64 // of them those that an activation has, and the activations' own
	watched  atomic.Bool  // somebody waits for active to be 0
}

// residents are the active entities of a shard, ordered by their last use.
type residents struct {
	byID    map[string]*activation
	warm    ring // used within the last packTicks
	cold    ring // unused for longer; told to pack their state
	ticks   uint64
	window  int // how many may be packing or retiring at once
	packing int // told to pack, not yet done
}

// retirement is the activations that are about to end, such as those of former epochs.
type retirement struct {
	leaving  []*activation // of a former epoch, still to be retired
	retiring int           // told to stop, not yet gone
	draining uint64        // former epoch that is being drained, 0 = none
	done     []func()      // called when drained
}

type (
	ownership struct {
		term *term
		done func()
	}
	tick   struct{ window int }
	gone   struct{ activation *activation }
	pack   struct{}
	packed struct{}
)

func newHost(s *System, shard uint32) *host {
	h := &host{system: s, shard: shard, residents: residents{byID: make(map[string]*activation), window: leastHousekeeping}}
	h.outbox.woken = make(chan struct{}, 1)
	h.warm.init()
	h.cold.init()
	h.props = actor.PropsFromProducer(func() actor.Actor { return &activationActor{} }, actor.WithDispatcher(s.workers))
	h.pid = s.root.Spawn(actor.PropsFromProducer(func() actor.Actor { return h }, actor.WithDispatcher(s.workers)))
	return h
}

func (h *host) notOwner() *NotOwnerError {
	return &NotOwnerError{Shard: h.shard, Epoch: h.newest.Load()}
}

// prove records that the journal has answered a request that began at start, which proves that the node owns the shard.
// It returns whether the node owns it under this term and has not lost it in between.
func (h *host) prove(t *term, start time.Time) bool {
	if t.over.Load() || !h.system.config.Journal.Owns(h.shard, t.epoch) {
		return false
	}
	t.prove(start)
	return true
}

// refusal is the error for calls that arrive when the shard is no longer owned.
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
		if act := h.byID[m.id]; act != nil && !act.stopping {
			h.system.root.Send(act.pid, m)
		}
	case *tick:
		h.ticks++
		h.window = m.window
		h.tidy(len(h.byID))
	case *packed:
		h.packing--
		h.system.metrics.tidied.Dec()
		h.tidy(evictLook)
	case *gone:
		h.retired(m.activation)
	case *ownership:
		h.change(m)
	case *holdOrder:
		h.applyHold(m)
	case *becameQuiet:
		h.notifyQuiet()
	}
}

// route passes a command to its activation, which it starts if there is none.
func (h *host) route(a *ask) {
	if h.serving == nil {
		h.refuse(a, h.refusal())
		return
	}
	if h.holds(a) {
		h.held = append(h.held, a)
		return
	}
	act := h.byID[a.id]
	switch {
	case act == nil:
		h.forward(h.spawn(a.id, a.kind), a)
		if h.crowded() {
			h.tidy(evictLook) // not before: the new one must not be what goes
		}
		return
	case act.stopping:
		if len(act.pending) >= h.system.config.MaxQueued {
			h.refuse(a, unavailable(failure.TooManyCommands))
			return
		}
		act.pending = append(act.pending, a)
		return
	}
	h.forward(act, a)
}

func (h *host) forward(act *activation, a *ask) {
	if act.queued.Load() >= int32(h.system.config.MaxQueued) {
		h.refuse(a, unavailable(failure.TooManyCommands))
		return
	}
	act.queued.Add(1)
	h.active.Add(1)
	h.touch(act)
	h.system.root.Send(act.pid, a)
}

func (h *host) refuse(a *ask, err error) {
	h.inFlight.Add(-1)
	a.answer(nil, err)
}

func (h *host) spawn(id string, kind *Kind) *activation {
	act := &activation{host: h, kind: kind, id: id, term: h.serving}
	act.pid = h.system.root.Spawn(h.props)
	h.system.root.Send(act.pid, act) // tells the new actor which activation it runs
	h.byID[id] = act
	h.touch(act)
	h.system.metrics.active.Inc()
	h.system.metrics.activations.Inc()
	return act
}

// change starts another term, or none, and retires every activation of the former one, beginning with those that callers
// wait for. Until an activation is gone, commands for it wait if the shard is still owned here; otherwise they are refused.
func (h *host) change(m *ownership) {
	if m.done != nil {
		h.done = append(h.done, m.done)
	}
	if h.serving != nil && h.serving != m.term {
		h.draining = max(h.draining, h.serving.epoch)
		var engaged []*activation
		for _, act := range h.byID {
			switch {
			case act.stopping:
				continue
			case act.engaged():
				engaged = append(engaged, act)
			default:
				h.leaving = append(h.leaving, act)
			}
			act.stopping = true
			act.unlink()
		}
		h.leaving = append(h.leaving, engaged...) // the last go first
	}
	h.serving = m.term
	h.release()
	h.drain()
}

// drain retires the leaving activations, a window at a time.
func (h *host) drain() {
	for len(h.leaving) > 0 && h.retiring < retireWindow {
		last := len(h.leaving) - 1
		act := h.leaving[last]
		h.leaving[last] = nil
		h.leaving = h.leaving[:last]
		h.retire(act)
	}
	if len(h.leaving) > 0 || h.retiring > 0 {
		return
	}
	h.leaving = nil
	if h.draining != 0 {
		// Once more, now that no activation of that epoch can start anything.
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

// fenced gives up the shard because its log holds an entry of a newer owner.
func (h *host) fenced(t *term) {
	h.system.log.Warn("fenced by a newer owner", slog.Uint64("shard", uint64(h.shard)), slog.Uint64("epoch", t.epoch))
	h.system.disown(h, t)
}
