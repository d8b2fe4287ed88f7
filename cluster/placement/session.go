package placement

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"parley/proto/nodepb"
)

// session is one connection of a link, under a virtual address of its own. The engine tears down whatever is new at an
// address when something old at it ends late; so an address is used once.
type session struct {
	link       *link
	generation uint64
	target     string
	since      int64         // clock at its beginning
	up         chan struct{} // closed when proven
	over       chan struct{} // closed when it ends
	queued     atomic.Int64  // bytes in the engine's queue

	// Under the link's lock.
	proven bool  // the other side hears us
	echoed int64 // newest beat that came back

	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	closed bool
}

const dialTimeout = time.Second

// open begins a connection, nil when nobody listens at the address. The engine makes the real one when the first
// message is sent; it would take two seconds to find out that nobody is there, so that is tried first.
func (l *link) open() *session {
	s := l.system
	l.mu.Lock()
	address := l.state.address
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(l.life, dialTimeout)
	defer cancel()
	probe, err := s.config.Dial(ctx, address)
	if err != nil {
		return nil
	}
	_ = probe.Close()
	_, port, err := splitAddress(address)
	if err != nil {
		return nil
	}
	on := &session{
		link: l, generation: s.generations.Add(1), since: s.clock(),
		up: make(chan struct{}), over: make(chan struct{}), conns: map[net.Conn]struct{}{},
	}
	on.target = net.JoinHostPort(l.host+"-"+strconv.FormatUint(on.generation, 36), strconv.Itoa(port))
	s.routes.Store(on.target, on)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state.closed != "" {
		s.routes.Delete(on.target)
		return nil
	}
	l.state.session = on
	return on
}

// close has everything end that belongs to the connection.
func (on *session) close() {
	s := on.link.system
	s.routes.Delete(on.target) // first: what ends now is no news
	on.mu.Lock()
	on.closed = true
	conns := on.conns
	on.conns = nil
	on.mu.Unlock()
	close(on.over)
	// The engine's writer may hang in a write that nobody reads.
	for conn := range conns {
		_ = conn.Close()
	}
	s.engine.publishTerminated(on.target)
}

// smallReserve is what small messages (beats, refusals) may take when the queue is full.
const smallReserve = 1 << 20

// send gives a message to the engine, false when too much waits already. One message always has room. What is sent on a
// connection that is over is dropped: whoever waits for an answer is told so by the link.
func (on *session) send(process string, envelope *nodepb.Envelope, size int) bool {
	s := on.link.system
	limit := int64(s.config.QueueBytes)
	if size <= callBytes {
		limit += smallReserve
	}
	if total := on.queued.Add(int64(size)); total > limit && total > int64(size) {
		on.queued.Add(-int64(size))
		s.metrics.congested.Inc()
		return false
	}
	envelope.From, envelope.Generation = s.host, on.generation
	select {
	case <-on.over: // the engine would connect to the address once more
	default:
		s.engine.send(on.target, process, &queuedEnvelope{Envelope: envelope, queued: &on.queued, size: int64(size)})
	}
	return true
}

var errNoRoute = errors.New("placement: the connection is over")

// dial makes the engine's connections: to the address of the session whose virtual address it is.
func (s *System) dial(ctx context.Context, target string) (net.Conn, error) {
	on := s.route(target)
	if on == nil {
		return nil, errNoRoute
	}
	on.link.mu.Lock()
	address := on.link.state.address
	on.link.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := s.config.Dial(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("dial node %s: %w", on.link.name, err)
	}
	on.mu.Lock()
	defer on.mu.Unlock()
	if on.closed {
		_ = conn.Close()
		return nil, errNoRoute
	}
	tracked := &trackedConn{Conn: conn, session: on}
	on.conns[tracked] = struct{}{}
	return tracked, nil
}

func (s *System) route(target string) *session {
	found, _ := s.routes.Load(target)
	on, _ := found.(*session)
	return on
}

// disconnected hears from the engine that a connection has ended. The engine may hold locks.
func (s *System) disconnected(target string) {
	if on := s.route(target); on != nil {
		on.link.disconnect(on, "the connection was lost")
	}
}

type trackedConn struct {
	net.Conn
	session *session
}

// Close implements net.Conn.
func (c *trackedConn) Close() error {
	c.session.mu.Lock()
	delete(c.session.conns, c)
	c.session.mu.Unlock()
	return c.Conn.Close() //nolint:wrapcheck // a connection in between
}
