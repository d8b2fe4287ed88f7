package placement

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"parley/proto/nodepb"
)

// wireVersion is the newest format of messages between nodes that this release supports. A new field or kind of body needs no
// new version, unless a node that does not know it would do harm. A node does not link with one that states no version.
const wireVersion = wirePasses

// wirePasses is the first format in which a node forwards requests that are meant for a third one. Nodes of the format before
// take them for their own.
const wirePasses = 2

// link is the connection to one start of another node, with everything that waits for it.
type link struct {
	system *System
	name   string
	host   string
	wanted chan struct{} // capacity 1: a caller waits for the link
	pump   *pump

	life  context.Context //nolint:containedctx // as long as the other node is a member
	end   context.CancelFunc
	mu    sync.Mutex
	state linkState // under mu
}

type linkState struct {
	address string
	closed  string   // the reason, once the link is closed
	session *session // nil = not connected
	down    int64    // clock when the last connection ended
	wire    uint32   // newest format that the other side supports, by its last beat
	heard   uint64   // newest generation of the other side, 0 = none
	// unrelayableUntil is the clock until which no third node needs to be asked to forward a request.
	unrelayableUntil int64
	// What waits for the other side.
	calls   map[uint64]*call
	follows map[uint64]*subscription
	// What the other side waits for.
	served       map[uint64]context.CancelFunc
	publications map[uint64]*publication
	received     uint64 // bytes of news under the generation heard
	acked        uint64
}

func newLink(s *System, member Member) *link {
	l := &link{system: s, name: member.Name, host: hostOf(member.Name, member.Boot), wanted: make(chan struct{}, 1)}
	l.pump = newPump(l)
	l.state.down = s.clock()
	l.state.calls, l.state.follows = map[uint64]*call{}, map[uint64]*subscription{}
	l.state.served, l.state.publications = map[uint64]context.CancelFunc{}, map[uint64]*publication{}
	l.life, l.end = context.WithCancel(s.life)
	s.tasks.Go(l.run)
	s.tasks.Go(l.pump.run)
	return l
}

// moveTo sets the address of the next connection.
func (l *link) moveTo(address string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state.address = address
}

// connected returns the connection if it is proven in both directions, else nil.
func (l *link) connected() *session {
	l.mu.Lock()
	defer l.mu.Unlock()
	if on := l.state.session; on != nil && on.proven {
		return on
	}
	return nil
}

// downFor returns how long the other side has been unreachable, 0 if it is connected.
func (l *link) downFor() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if on := l.state.session; on != nil && on.proven {
		return 0
	}
	return time.Duration(l.system.clock() - l.state.down)
}

// markUnrelayable notes, for ReachWait, that no third node reaches the other side either. After the death of a node its callers
// retry until it has a successor, and must not ask every other node each time.
func (l *link) markUnrelayable() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state.unrelayableUntil = l.system.clock() + int64(l.system.config.ReachWait)
}

// unrelayable reports whether markUnrelayable was called within the last ReachWait.
func (l *link) unrelayable() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.system.clock() < l.state.unrelayableUntil
}

// speaks reports whether the other side supports a format.
func (l *link) speaks(wire uint32) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state.wire >= wire
}

// close ends the link for good.
func (l *link) close(why string) {
	l.mu.Lock()
	l.state.closed = why
	on := l.state.session
	l.mu.Unlock()
	l.end()
	if on != nil {
		l.disconnect(on, why)
	}
}

// disconnect ends a connection and fails everything that waits for it.
func (l *link) disconnect(on *session, why string) { l.disconnectSilent(on, why, 0) }

// disconnectSilent is disconnect after a time of silence.
func (l *link) disconnectSilent(on *session, why string, silent time.Duration) {
	l.mu.Lock()
	if l.state.session != on {
		l.mu.Unlock()
		return
	}
	l.state.session = nil
	proven := on.proven
	if proven {
		l.state.down = l.system.clock()
	}
	tell := l.takeLocked(why, silent)
	l.mu.Unlock()
	on.close()
	tell()
	if proven {
		l.system.config.OnLinks()
		l.system.metrics.links.Dec()
		l.system.metrics.disconnects.Inc()
		l.system.log.Info("link is down", slog.String("node", l.name), slog.String("why", why))
	}
}

// accept notes the generation of a message and is false if it comes from an older connection. A newer generation means that
// answers and news may have been lost with the previous one.
func (l *link) accept(generation uint64) bool {
	l.mu.Lock()
	if generation <= l.state.heard {
		defer l.mu.Unlock()
		return generation == l.state.heard
	}
	first := l.state.heard == 0
	l.state.heard = generation
	l.state.received, l.state.acked = 0, 0
	if first {
		l.mu.Unlock()
		return true
	}
	tell := l.takeLocked("it has connected anew", 0)
	l.mu.Unlock()
	tell()
	return true
}

// takeLocked removes everything that waits on either side and returns the function that fails it, to be called without the lock.
func (l *link) takeLocked(why string, silent time.Duration) (tell func()) {
	st := &l.state
	calls, follows, served, publications := st.calls, st.follows, st.served, st.publications
	st.calls, st.follows = map[uint64]*call{}, map[uint64]*subscription{}
	st.served, st.publications = map[uint64]context.CancelFunc{}, map[uint64]*publication{}
	lost := &lostError{node: l.name, why: why, silent: silent}
	return func() {
		l.pump.reset()
		for _, cancel := range served {
			cancel()
		}
		for _, p := range publications {
			p.abandon()
		}
		for id, f := range follows {
			if calls[id] != nil { // its caller is told below
				f.quit.Store(true)
				continue
			}
			f.close(lost)
		}
		for _, c := range calls {
			c.done <- result{err: lost}
		}
		l.system.metrics.follows.Sub(float64(len(follows)))
		l.system.metrics.publications.Sub(float64(len(publications)))
	}
}

// Pauses between attempts to connect. Somebody who waits shortens them to the first.
const (
	retryMin = 50 * time.Millisecond
	retryMax = time.Second
)

// run keeps the link connected.
func (l *link) run() {
	pause := retryMin
	for l.life.Err() == nil {
		if on := l.connect(); on != nil {
			pause = retryMin
			l.beat(on)
			if l.system.clock()-on.since > int64(retryMax) {
				continue // one that lasted: at once, since both sides wait to be told what was lost
			}
		}
		if !l.rest(pause) {
			return
		}
		pause = min(2*pause, retryMax)
	}
}

// rest pauses, not longer than the shortest pause when somebody waits for the link. It is false when the link ends.
func (l *link) rest(pause time.Duration) bool {
	least := time.NewTimer(retryMin)
	defer least.Stop()
	select {
	case <-least.C:
	case <-l.life.Done():
		return false
	}
	if pause <= retryMin {
		return true
	}
	timer := time.NewTimer(pause - retryMin)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.wanted:
	case <-l.life.Done():
		return false
	}
	return true
}

func (l *link) want() {
	select {
	case l.wanted <- struct{}{}:
	default:
	}
}

// helloPause is how often a node that does not answer yet is greeted: it may not have heard of us.
const helloPause = 100 * time.Millisecond

// connect makes a connection that the other side has proven to hear, nil when that does not work.
func (l *link) connect() *session {
	on := l.open()
	if on == nil {
		return nil
	}
	ticker := time.NewTicker(helloPause)
	defer ticker.Stop()
	patience := time.NewTimer(l.system.config.Silence)
	defer patience.Stop()
	for {
		l.sendBeat(on, 0)
		select {
		case <-on.up:
			return on
		case <-on.over:
			return nil
		case <-patience.C:
			l.disconnect(on, "it does not answer")
			return nil
		case <-l.life.Done():
			l.disconnect(on, "it is not a member any more")
			return nil
		case <-ticker.C:
		}
	}
}

// beat proves to both sides that the other is there, until the connection is over.
func (l *link) beat(on *session) {
	interval, silence := int64(l.system.config.Beat), int64(l.system.config.Silence)
	timer := time.NewTimer(0)
	defer timer.Stop()
	var due, next, grace int64
	for due = l.system.clock(); ; timer.Reset(time.Duration(due - l.system.clock())) {
		select {
		case <-timer.C:
		case <-on.over:
			return
		case <-l.life.Done():
			l.disconnect(on, "it is not a member any more")
			return
		}
		now := l.system.clock()
		if now-due > interval {
			grace = now + 2*interval // this process has been standing still itself: the other side may have been talking
		}
		if now >= next {
			l.sendBeat(on, 0)
			next = now + interval
		}
		end := max(l.echoOf(on)+silence, grace)
		if now >= end {
			l.disconnectSilent(on, "it is silent", time.Duration(now-l.echoOf(on)))
			return
		}
		due = min(next, end)
	}
}

func (l *link) echoOf(on *session) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return on.echoed
}

// sendBeat asks for a sign of life, or gives one.
func (l *link) sendBeat(on *session, echo int64) {
	beat := &nodepb.Beat{Echo: echo, Cluster: l.system.config.Cluster, Wire: wireVersion}
	if echo == 0 {
		beat.Sent = l.system.clock()
	}
	on.send(nodeTarget, &nodepb.Envelope{Body: &nodepb.Envelope_Beat{Beat: beat}}, beatBytes)
}

const beatBytes = 128

// beaten takes a beat.
func (l *link) beaten(beat *nodepb.Beat) {
	if beat.GetCluster() != l.system.config.Cluster || beat.GetWire() == 0 {
		return
	}
	l.mu.Lock()
	l.state.wire = beat.GetWire()
	on, came := l.state.session, false
	if on != nil && beat.GetEcho() >= on.since {
		on.echoed = max(on.echoed, beat.GetEcho())
		if !on.proven {
			on.proven, came = true, true
			close(on.up)
			l.pump.poke()
			l.system.metrics.links.Inc()
			l.system.log.Info("link is up", slog.String("node", l.name))
		}
	}
	l.mu.Unlock()
	if came {
		l.system.config.OnLinks()
	}
	switch {
	case beat.GetSent() == 0:
	case on == nil:
		l.want() // it is there, and we are not connected: now is the time
	default:
		l.sendBeat(on, beat.GetSent())
	}
}
