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

// session is one connection of a link. It has a virtual address of its own that is never reused: when an old connection ends late,
// the engine tears down whatever has the same address.
type session struct {
	link       *link
	generation uint64
	target     string
	since      int64         // clock when it was opened
	up         chan struct{} // closed when proven
	over       chan struct{} // closed when it ends
	queued     atomic.Int64  // bytes in the engine's queue

	// Under the link's lock.
	proven bool  // the other side has answered
	echoed int64 // newest beat that was echoed

	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	closed bool
}

const dialTimeout = time.Second

// open opens a connection; nil if nobody listens at the address. The engine connects when the first message is sent and takes two
// seconds to notice that nobody listens, so the address is probed first.
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

// close ends everything that belongs to the connection.
func (on *session) close() {
	s := on.link.system
	s.routes.Delete(on.target) // first: the ends below must not be reported as a lost connection
	on.mu.Lock()
	on.closed = true
	conns := on.conns
	on.conns = nil
	on.mu.Unlock()
	close(on.over)
	// The engine's writer may be blocked in a write that the other side does not read.
	for conn := range conns {
		_ = conn.Close()
	}
	s.engine.publishTerminated(on.target)
}

// smallReserve is how much small messages (beats, refusals) may take when the queue is full.
const smallReserve = 1 << 20

// send passes a message to the engine; false if the queue is full. An empty queue takes a message of any size. Messages on a
// connection that has ended are dropped: the link fails the calls that wait for their answers.
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
	case <-on.over: // the engine would reconnect to the address
	default:
		s.engine.send(on.target, process, &queuedEnvelope{Envelope: envelope, queued: &on.queued, size: int64(size)})
	}
	return true
}

var errNoRoute = errors.New("placement: the connection is over")

// dial makes the engine's connections: it maps a session's virtual address to the node's real one.
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

// disconnected is called by the engine when a connection has ended. The engine may hold locks.
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
	return c.Conn.Close() //nolint:wrapcheck // a wrapper of a connection
}
