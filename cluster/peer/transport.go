package peer

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"parley/proto/nodepb"
)

// Transport joins this node to the others. Its methods may be called from anywhere, also from its callbacks, except Stop.
type Transport struct {
	cfg     Config
	logger  *slog.Logger
	metrics *metrics
	hello   atomic.Pointer[nodepb.Hello] // never changed, only replaced

	handshakes chan struct{} // a place for each connection that has not greeted yet
	streams    chan struct{} // a place for each stream of another node

	run    func(func(context.Context)) // starts a goroutine that Stop ends and waits for
	atStop func(func()) (undo func() bool)
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu struct {
		sync.RWMutex
		started, stopped bool
		out              map[uint64]*outbound
		in               map[uint64]*link // newest connection of each node that sends frames
		refusal          string           // logged last
		refused          time.Time        // when
	}
}

// maxHandshakes bounds the connections that have not greeted yet.
const maxHandshakes = 64

// New makes a transport that does nothing until Start.
func New(cfg Config) (*Transport, error) {
	cfg.setDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("peer: %w", err)
	}
	t := &Transport{
		cfg: cfg, logger: cfg.Logger, metrics: newMetrics(),
		handshakes: make(chan struct{}, maxHandshakes),
		streams:    make(chan struct{}, cfg.MaxStreams),
	}
	if err := t.metrics.register(cfg.Registerer); err != nil {
		return nil, fmt.Errorf("peer: %w", err)
	}
	t.hello.Store(withWire(cfg.Hello))
	t.mu.out, t.mu.in = make(map[uint64]*outbound), make(map[uint64]*link)
	ctx, cancel := context.WithCancel(context.Background())
	t.cancel = cancel
	t.atStop = func(f func()) func() bool { return context.AfterFunc(ctx, f) }
	t.run = func(f func(context.Context)) { t.wg.Go(func() { f(ctx) }) }
	return t, nil
}

// Start begins to accept connections. Call it once.
func (t *Transport) Start() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.started || t.mu.stopped {
		return
	}
	t.mu.started = true
	t.run(t.accept)
}

// Stop closes the listener and all connections, and waits for everything that was started, running callbacks included. What is queued is lost; SendSnapshot
// and what Fetch has returned end with an error.
func (t *Transport) Stop() {
	t.mu.Lock()
	first := !t.mu.stopped
	t.mu.stopped = true
	t.mu.Unlock()
	t.cancel()
	if first {
		_ = t.cfg.Listener.Close()
		t.metrics.unregister(t.cfg.Registerer)
	}
	t.wg.Wait()
}

// SetIdentity replaces what this node says of itself, once it has joined a cluster.
func (t *Transport) SetIdentity(hello *nodepb.Hello) {
	t.hello.Store(withWire(hello))
	t.AddressesChanged()
}

// AddressesChanged makes nodes that could not be reached be tried at once, and connections follow new addresses. Without it, both happen within
// MaxBackoff or a quarter of Timeout.
func (t *Transport) AddressesChanged() {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, o := range t.mu.out {
		o.nudgeNow()
	}
}

// Send queues a batch of frames for a node. It never blocks and does not keep frames. It connects on demand.
func (t *Transport) Send(to uint64, kind Kind, frames [][]byte) {
	if len(frames) == 0 {
		return
	}
	t.mu.RLock()
	o := t.mu.out[to]
	t.mu.RUnlock()
	for o == nil || !o.add(kind, frames) {
		if o = t.connection(to); o == nil {
			t.metrics.droppedFrames.Add(float64(len(frames)))
			return
		}
	}
}

// connection returns the connection to a node, which it starts if there is none, or nil when nothing is sent any more.
func (t *Transport) connection(to uint64) *outbound {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.mu.started || t.mu.stopped {
		return nil
	}
	o := t.mu.out[to]
	if o == nil || o.over() {
		o = newOutbound(t, to)
		t.mu.out[to] = o
		t.run(o.run)
	}
	return o
}

func (t *Transport) stopped() bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.mu.stopped
}

// forget takes an outbound out that has ended.
func (t *Transport) forget(o *outbound) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.out[o.node] == o {
		delete(t.mu.out, o.node)
	}
}

// Peer is the state of the connection to a node that something is sent to.
type Peer struct {
	Node      uint64
	Address   string // dialled last
	Connected bool
	Since     time.Time // of the state
	Err       string    // why it is not connected; may be empty
}

// Peers returns the state of all connections for frames to other nodes, by number.
func (t *Transport) Peers() []Peer {
	t.mu.RLock()
	defer t.mu.RUnlock()
	peers := make([]Peer, 0, len(t.mu.out))
	for _, o := range t.mu.out {
		peers = append(peers, o.state())
	}
	slices.SortFunc(peers, func(a, b Peer) int { return cmp.Compare(a.Node, b.Node) })
	return peers
}
