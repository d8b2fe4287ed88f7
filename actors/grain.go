package actors

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"parley/actors/core/failure"
	"parley/proto/failurepb"
)

// cell is the actor of a grain. It is its own small type because the engine makes it before it is known for whom.
type cell struct{ grain *grain }

// Receive is one turn of a grain's mailbox.
func (c *cell) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *grain:
		c.grain = m
	case *ask:
		c.grain.handle(m)
	case *alarm:
		c.grain.ring(m)
	case *pack:
		c.grain.guard(c.grain.pack) // the host waits for the word that follows
		c.grain.host.system.root.Send(c.grain.host.pid, &packed{})
	case *forget:
		c.grain.purge()
		c.grain.note()
	case *actor.Stopping:
		c.grain.stop()
	case *actor.Stopped:
		c.grain.host.system.root.Send(c.grain.host.pid, &gone{c.grain})
	}
}

// grain is one active entity.
type grain struct {
	host   *host
	kind   *Kind
	id     string
	tenure *tenure
	pid    *actor.PID

	// The host's.
	newer, older *grain
	touched      uint64
	stopping     bool
	pending      []*ask

	// Written by the grain, read by the host.
	queued  atomic.Int32 // commands in the mailbox or being handled
	working atomic.Bool  // something is open: a turn, a waiter, a timer

	// The grain's own.
	loaded  bool
	fresh   bool          // what is known was confirmed while the command was here
	state   proto.Message // nil: does not exist, or is packed
	packed  []byte        // the state in its stored form, a third of the size, until the next command
	sender  *ask          // of the command being handled, until it is answered
	waiters map[string][]*ask
	waiting int
	alarms  []*alarm
	next    []proto.Message // commands that effects brought up

	doubtful bool   // an append whose outcome is not known may still be applied
	doubt    uint64 // as long as the stored seq is this
	heard    uint64 // seq of the state that was dropped last, up to which waiters were told
	losses   int    // how often work was found lost
	lostAt   uint64 // in the state of this seq
}

// engaged says that a grain must not be retired now. Only the host hands out commands, so what is not engaged stays so
// until the host is done with it.
func (g *grain) engaged() bool { return g.queued.Load() > 0 || g.working.Load() }

// note tells the host whether something is open.
func (g *grain) note() {
	g.working.Store(g.waiting > 0 || len(g.alarms) > 0 || g.busy())
}

// busy says that something of the entity goes on outside, as far as is known.
func (g *grain) busy() bool {
	return g.loaded && g.state != nil && g.kind.Busy != nil && g.kind.Busy(g.state)
}

func (g *grain) handle(a *ask) {
	if !a.gone.Load() { // else nobody waits for it any more, and nothing has been done yet
		g.sender = a
		g.guard(func() { _ = g.serve(a.command) }) // the sender has the error
	}
	g.note() // before the count: the host must not see a gap
	g.queued.Add(-1)
	g.host.inFlight.Add(-1)
	g.host.finished()
}

// guard keeps a fault of the rules or of an effect inside the command that met it.
func (g *grain) guard(run func()) {
	defer func() {
		if fault := recover(); fault != nil {
			g.host.system.metrics.panics.Inc()
			g.host.system.log.Error("command panicked", slog.String("entity", g.id), slog.Uint64("epoch", g.tenure.epoch),
				slog.String("fault", fmt.Sprint(fault)), slog.String("stack", string(debug.Stack())))
			g.drop()
			g.next = nil
			_ = g.answer(nil, failure.New(failurepb.Code_INTERNAL, failure.CommandNotHandled))
		}
		g.sender = nil
	}()
	run()
}

// pack makes the state of a grain at rest small.
func (g *grain) pack() {
	if !g.loaded || g.state == nil || g.engaged() {
		return
	}
	if packed, err := proto.Marshal(g.state); err == nil {
		g.packed, g.state = packed, nil
	}
}

// stop ends an activation: whoever still waits is sent to the next owner.
func (g *grain) stop() {
	g.disarm()
	g.settleAll(g.host.refusal())
	g.drop()
}
