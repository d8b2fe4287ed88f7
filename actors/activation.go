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

// activationActor is the actor of an activation. It is its own small type because the engine makes it before it is known for whom.
type activationActor struct{ activation *activation }

// Receive is one turn of an activation's mailbox.
func (c *activationActor) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *activation:
		c.activation = m
	case *ask:
		c.activation.handle(m)
	case *alarm:
		c.activation.ring(m)
	case *pack:
		c.activation.guard(c.activation.pack) // the host waits for the message that follows
		c.activation.host.system.root.Send(c.activation.host.pid, &packed{})
	case *forget:
		c.activation.purge()
		c.activation.note()
	case *actor.Stopping:
		c.activation.stop()
	case *actor.Stopped:
		c.activation.host.system.root.Send(c.activation.host.pid, &gone{c.activation})
	}
}

// activation is one active entity.
type activation struct {
	host *host
	kind *Kind
	id   string
	term *term
	pid  *actor.PID

	residence // owned by the host

	// Written by the activation, read by the host.
	queued  atomic.Int32 // commands in the mailbox or being handled
	working atomic.Bool  // something is open: a turn, a waiter, a timer

	// The activation's own.
	loaded  bool
	fresh   bool          // what is known was confirmed while the command was here
	state   proto.Message // nil: does not exist, or is packed
	packed  []byte        // the state in its stored form, a third of the size, until the next command
	sender  *ask          // of the command being handled, until it is answered
	waiters map[string][]*ask
	waiting int
	alarms  []*alarm
	next    []proto.Message // commands that effects brought up

	doubt      doubt
	losses     losses
	settledSeq uint64 // seq of the state that was dropped last, up to which waiters were told
}

// residence is what the host keeps about an activation: its place in the order of use, and how it ends.
type residence struct {
	newer, older *activation
	touched      uint64 // tick of the newest command
	stopping     bool
	pending      []*ask // for its successor
}

// doubt is an append whose outcome is unknown: it may still be applied as long as the stored seq is this one.
type doubt struct {
	open bool
	seq  uint64
}

// losses is how often outside work was found lost in the state of one seq.
type losses struct {
	times int
	seq   uint64
}

// engaged says that an activation must not be retired now. Only the host hands out commands, so what is not engaged stays so
// until the host is done with it.
func (act *activation) engaged() bool { return act.queued.Load() > 0 || act.working.Load() }

// note publishes to the host whether the activation has open work.
func (act *activation) note() {
	act.working.Store(act.waiting > 0 || len(act.alarms) > 0 || act.busy())
}

// busy reports whether the loaded state says that work is going on outside the entity, such as a turn.
func (act *activation) busy() bool {
	return act.loaded && act.state != nil && act.kind.Busy != nil && act.kind.Busy(act.state)
}

func (act *activation) handle(a *ask) {
	if !a.gone.Load() { // else nobody waits for it any more, and nothing has been done yet
		act.sender = a
		act.guard(func() { _ = act.serve(a.command) }) // the sender has the error
	}
	act.note() // before the count: the host must not see a gap
	act.queued.Add(-1)
	act.host.inFlight.Add(-1)
	act.host.finished()
}

// guard confines a panic of the rules or of an effect to the command that caused it.
func (act *activation) guard(run func()) {
	defer func() {
		if fault := recover(); fault != nil {
			act.host.system.metrics.panics.Inc()
			act.host.system.log.Error("command panicked", slog.String("entity", act.id), slog.Uint64("epoch", act.term.epoch),
				slog.String("fault", fmt.Sprint(fault)), slog.String("stack", string(debug.Stack())))
			act.drop()
			act.next = nil
			_ = act.answer(nil, failure.New(failurepb.Code_INTERNAL, failure.CommandNotHandled))
		}
		act.sender = nil
	}()
	run()
}

// pack replaces the state of an idle activation by its smaller stored form.
func (act *activation) pack() {
	if !act.loaded || act.state == nil || act.engaged() {
		return
	}
	if packed, err := proto.Marshal(act.state); err == nil {
		act.packed, act.state = packed, nil
	}
}

// stop ends an activation: callers that still wait get an error that sends them to the next owner.
func (act *activation) stop() {
	act.disarm()
	act.settleAll(act.host.refusal())
	act.drop()
}
