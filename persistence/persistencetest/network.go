package persistencetest

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"

	"parley/persistence"
)

// linkQueue is how many frames may be on their way from one node to another.
const linkQueue = 8192

var errCut = errors.New("link is cut")

// Network joins stores in one process. It loses nothing of its own accord; links are cut by the test. Close it after
// the stores are stopped.
type Network struct {
	tb    testing.TB
	mu    sync.Mutex
	nodes map[uint64]*Endpoint
	links map[link]chan []byte
	cuts  map[link]bool
	stop  chan struct{}
	tasks sync.WaitGroup
}

type link struct{ from, to uint64 }

// Endpoint is a node's place in the network: its transport.
type Endpoint struct {
	network *Network
	id      uint64

	mu    sync.Mutex
	store *persistence.Store
}

var _ persistence.Transport = (*Endpoint)(nil)

// NewNetwork makes a network without nodes.
func NewNetwork(tb testing.TB) *Network {
	tb.Helper()
	return &Network{
		tb: tb, nodes: map[uint64]*Endpoint{}, links: map[link]chan []byte{}, cuts: map[link]bool{}, stop: make(chan struct{}),
	}
}

// Close ends all links and waits for them.
func (n *Network) Close() {
	close(n.stop)
	n.tasks.Wait()
}

// Endpoint is the place of a node; always the same for the same id.
func (n *Network) Endpoint(id uint64) *Endpoint {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.nodes[id] == nil {
		n.nodes[id] = &Endpoint{network: n, id: id}
	}
	return n.nodes[id]
}

// Bind connects the endpoint to a store; nil is a node that is down.
func (e *Endpoint) Bind(s *persistence.Store) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.store = s
}

func (e *Endpoint) bound() *persistence.Store {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.store
}

// Cut stops what one node sends to another.
func (n *Network) Cut(from, to uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cuts[link{from, to}] = true
}

// Isolate cuts a node off in both directions.
func (n *Network) Isolate(id uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for other := range n.nodes {
		n.cuts[link{id, other}], n.cuts[link{other, id}] = true, true
	}
}

// Heal undoes every cut.
func (n *Network) Heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.cuts)
}

func (n *Network) cut(l link) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cuts[l]
}

// Send implements persistence.Transport.
func (e *Endpoint) Send(to uint64, frames [][]byte) {
	n, l := e.network, link{e.id, to}
	if e.bound() == nil {
		return
	}
	lost := n.cut(l) || n.Endpoint(to).bound() == nil
	for _, frame := range frames {
		if lost {
			break
		}
		select {
		case n.queue(l) <- frame:
		default:
			lost = true
		}
	}
	if s := e.bound(); s != nil && lost {
		s.ReportUnreachable(to)
	}
}

func (n *Network) queue(l link) chan []byte {
	n.mu.Lock()
	defer n.mu.Unlock()
	q := n.links[l]
	if q == nil {
		q = make(chan []byte, linkQueue)
		n.links[l] = q
		n.tasks.Go(func() { n.carry(l, q) })
	}
	return q
}

// carry moves the frames of one link.
func (n *Network) carry(l link, q chan []byte) {
	for {
		var frames [][]byte
		select {
		case <-n.stop:
			return
		case frame := <-q:
			frames = append(frames, frame)
		}
		for more := true; more; {
			select {
			case frame := <-q:
				frames = append(frames, frame)
			default:
				more = false
			}
		}
		s := n.Endpoint(l.to).bound()
		if s == nil || n.cut(l) {
			continue
		}
		if err := s.Deliver(frames); err != nil {
			n.tb.Errorf("frames from node %d to %d: %v", l.from, l.to, err)
		}
	}
}

// SendSnapshot implements persistence.Transport.
func (e *Endpoint) SendSnapshot(ctx context.Context, to uint64, header []byte, write func(io.Writer) error) error {
	n, l := e.network, link{e.id, to}
	s := n.Endpoint(to).bound()
	if n.cut(l) || s == nil {
		return errCut
	}
	reader, writer := io.Pipe()
	var sending sync.WaitGroup
	sending.Go(func() { writer.CloseWithError(write(&cutWriter{network: n, link: l, w: writer})) })
	err := s.ReceiveSnapshot(ctx, header, reader)
	reader.CloseWithError(errCut)
	sending.Wait()
	return err
}

// cutWriter fails once its link is cut.
type cutWriter struct {
	network *Network
	link    link
	w       io.Writer
}

func (c *cutWriter) Write(p []byte) (int, error) {
	if c.network.cut(c.link) || c.network.Endpoint(c.link.to).bound() == nil {
		return 0, errCut
	}
	return c.w.Write(p)
}
