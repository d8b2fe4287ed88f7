package replicatest

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"parley/persistence/replica"
)

// linkQueue is how many messages may be on their way from one node to another.
const linkQueue = 4096

// latency of every link: no message arrives at the instant it is sent.
const latency = 200 * time.Microsecond

var errCut = errors.New("link is cut")

// Network joins drivers in one process. Every message goes through its wire form. Close it after the drivers are stopped.
type Network struct {
	tb    testing.TB
	mu    sync.Mutex
	rng   *rand.Rand
	nodes map[replica.NodeID]*Endpoint
	links map[link]chan []byte
	cuts  map[link]bool
	loss  float64
	delay time.Duration
	stop  chan struct{}
	wg    sync.WaitGroup
}

type link struct{ from, to replica.NodeID }

// Endpoint is a node's place in the network: its replica.Transport.
type Endpoint struct {
	network *Network
	id      replica.NodeID

	mu     sync.Mutex
	driver *replica.Driver
}

var _ replica.Transport = (*Endpoint)(nil)

// NewNetwork makes a network that loses and delays by this seed. A message that does not survive its wire form fails the test.
func NewNetwork(tb testing.TB, seed uint64) *Network {
	tb.Helper()
	return &Network{
		tb:    tb,
		rng:   rand.New(rand.NewPCG(seed, seed)),
		nodes: make(map[replica.NodeID]*Endpoint),
		links: make(map[link]chan []byte),
		cuts:  make(map[link]bool),
		stop:  make(chan struct{}),
	}
}

// Close ends all links and waits for them.
func (n *Network) Close() {
	close(n.stop)
	n.wg.Wait()
}

// Endpoint is the place of a node; always the same for the same id.
func (n *Network) Endpoint(id replica.NodeID) *Endpoint {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.nodes[id] == nil {
		n.nodes[id] = &Endpoint{network: n, id: id}
	}
	return n.nodes[id]
}

// Bind connects the endpoint to a driver, nil to none: a node that is down.
func (e *Endpoint) Bind(d *replica.Driver) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.driver = d
}

func (e *Endpoint) bound() *replica.Driver {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.driver
}

// Cut stops messages from one node to another; Heal lets all through again.
func (n *Network) Cut(from, to replica.NodeID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cuts[link{from, to}] = true
}

// Isolate cuts a node off in both directions.
func (n *Network) Isolate(id replica.NodeID) {
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

// Disturb loses a share of the messages and delays the others by up to delay. Delayed messages of one link may overtake each other.
func (n *Network) Disturb(loss float64, delay time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.loss, n.delay = loss, delay
}

// lost rolls the dice for one message.
func (n *Network) lost(l link) (lost, cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cuts[l] || n.rng.Float64() < n.loss, n.cuts[l]
}

func (n *Network) pause() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.delay == 0 {
		return latency
	}
	return latency + time.Duration(n.rng.Int64N(int64(n.delay)))
}

func (n *Network) shuffle(msgs [][]byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.delay > 0 {
		n.rng.Shuffle(len(msgs), func(i, j int) { msgs[i], msgs[j] = msgs[j], msgs[i] })
	}
}

// Send implements replica.Transport.
func (e *Endpoint) Send(to replica.NodeID, msgs []replica.Message) {
	n := e.network
	l := link{e.id, to}
	unreachable := e.bound() == nil
	for _, m := range msgs {
		lost, cut := n.lost(l)
		unreachable = unreachable || cut
		if lost || e.bound() == nil {
			continue
		}
		wire, err := m.AppendTo(nil)
		if err != nil {
			n.tb.Errorf("message to node %d: %v", to, err)
			continue
		}
		select {
		case n.queue(l) <- wire:
		default:
			unreachable = true
		}
	}
	if d := e.bound(); d != nil && unreachable {
		d.ReportUnreachable(to)
	}
}

func (n *Network) queue(l link) chan []byte {
	n.mu.Lock()
	defer n.mu.Unlock()
	q := n.links[l]
	if q == nil {
		q = make(chan []byte, linkQueue)
		n.links[l] = q
		n.wg.Go(func() { n.carry(l, q) })
	}
	return q
}

// carry moves the messages of one link.
func (n *Network) carry(l link, q chan []byte) {
	for {
		var batch [][]byte
		select {
		case <-n.stop:
			return
		case wire := <-q:
			batch = append(batch, wire)
		}
		timer := time.NewTimer(n.pause())
		select {
		case <-n.stop:
			timer.Stop()
			return
		case <-timer.C:
		}
		for more := true; more; {
			select {
			case wire := <-q:
				batch = append(batch, wire)
			default:
				more = false
			}
		}
		n.shuffle(batch)
		n.deliver(l, batch)
	}
}

func (n *Network) deliver(l link, batch [][]byte) {
	d := n.Endpoint(l.to).bound()
	if _, cut := n.lost(l); cut || d == nil {
		return
	}
	msgs := make([]replica.Message, 0, len(batch))
	for _, wire := range batch {
		m, err := replica.ParseMessage(wire)
		if err != nil {
			n.tb.Errorf("message from node %d: %v", l.from, err)
			continue
		}
		msgs = append(msgs, m)
	}
	d.Deliver(msgs...)
}

// SendSnapshot implements replica.Transport.
func (e *Endpoint) SendSnapshot(ctx context.Context, to replica.NodeID, header replica.Message, write func(io.Writer) error) error {
	n := e.network
	l := link{e.id, to}
	d := n.Endpoint(to).bound()
	if lost, _ := n.lost(l); lost || d == nil || e.bound() == nil {
		return errCut
	}
	wire, err := header.AppendTo(nil)
	if err != nil {
		return err
	}
	parsed, err := replica.ParseMessage(wire)
	if err != nil {
		return err
	}
	reader, writer := io.Pipe()
	var wg sync.WaitGroup
	wg.Go(func() { writer.CloseWithError(write(&cutWriter{endpoint: e, link: l, w: writer})) })
	err = d.ReceiveSnapshot(ctx, parsed, reader)
	reader.CloseWithError(errCut)
	wg.Wait()
	return err
}

// cutWriter fails once its link is cut.
type cutWriter struct {
	endpoint *Endpoint
	link     link
	w        io.Writer
}

func (c *cutWriter) Write(p []byte) (int, error) {
	if _, cut := c.endpoint.network.lost(c.link); cut || c.endpoint.bound() == nil {
		return 0, errCut
	}
	return c.w.Write(p)
}
