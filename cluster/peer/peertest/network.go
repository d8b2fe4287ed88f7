// Package peertest is a network between nodes in one process that can be cut, delayed and broken. Every connection is
// two real TCP connections with a relay between them, so that whoever uses it sees what a kernel would do: writes into a
// cut connection succeed until buffers are full, what was written before a heal arrives after it, and nobody is told.
package peertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// Network joins nodes, which it knows by name. Make it with NewNetwork.
type Network struct {
	wg sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	names   map[string]string // by address
	cuts    map[[2]string]bool
	delay   time.Duration
	changed chan struct{} // closed at each change
	relays  map[*relay]struct{}
}

// relay is one connection.
type relay struct {
	from, to     string
	dialled, far *net.TCPConn // the relay's ends
}

const (
	relayChunk = 32 << 10
	relayQueue = 64 // chunks on their way in one direction
)

// NewNetwork makes a network without cuts. Close it when its users are stopped.
func NewNetwork() *Network {
	return &Network{
		names: make(map[string]string), cuts: make(map[[2]string]bool), changed: make(chan struct{}), relays: make(map[*relay]struct{}),
	}
}

// Close ends all connections and waits for them.
func (n *Network) Close() {
	n.change(func() { n.closed = true })
	n.Break()
	n.wg.Wait()
}

// Register says whose address this is. Addresses that are not registered belong to "".
func (n *Network) Register(name, addr string) { n.change(func() { n.names[addr] = name }) }

// Cut holds everything that one node sends to another, new connections between the two included.
func (n *Network) Cut(from, to string) { n.change(func() { n.cuts[[2]string{from, to}] = true }) }

// Isolate cuts a node off from others, both ways.
func (n *Network) Isolate(name string, others ...string) {
	n.change(func() {
		for _, other := range others {
			n.cuts[[2]string{name, other}], n.cuts[[2]string{other, name}] = true, true
		}
	})
}

// Heal undoes every cut; what was held arrives.
func (n *Network) Heal() { n.change(func() { clear(n.cuts) }) }

// Delay lets everything arrive this much later.
func (n *Network) Delay(d time.Duration) { n.change(func() { n.delay = d }) }

// Break resets all connections.
func (n *Network) Break() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for r := range n.relays {
		for _, conn := range []*net.TCPConn{r.dialled, r.far} {
			_ = conn.SetLinger(0)
			_ = conn.Close()
		}
	}
}

func (n *Network) change(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
	close(n.changed)
	n.changed = make(chan struct{})
}

// Dialer is what a node dials with.
func (n *Network) Dialer(from string) func(ctx context.Context, addr string) (net.Conn, error) {
	return func(ctx context.Context, addr string) (net.Conn, error) {
		n.mu.Lock()
		to := n.names[addr]
		n.mu.Unlock()
		if err := errors.Join(n.pass(ctx, from, to), n.pass(ctx, to, from)); err != nil {
			return nil, fmt.Errorf("dial %s: %w", addr, err)
		}
		var d net.Dialer
		far, err := d.DialContext(ctx, "tcp", addr)
		if err != nil {
			return nil, err
		}
		near, dialled, err := socketPair(ctx)
		if err != nil {
			_ = far.Close()
			return nil, err
		}
		farTCP, ok := far.(*net.TCPConn)
		if !ok {
			return nil, errors.New("not a TCP connection")
		}
		n.start(ctx, &relay{from: from, to: to, dialled: dialled, far: farTCP})
		return near, nil
	}
}

// pass waits until nothing holds what goes this way.
func (n *Network) pass(ctx context.Context, from, to string) error {
	for {
		n.mu.Lock()
		cut, closed, changed := n.cuts[[2]string{from, to}], n.closed, n.changed
		n.mu.Unlock()
		if closed {
			return net.ErrClosed
		}
		if !cut {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

// socketPair is a TCP connection of this process with itself.
func socketPair(ctx context.Context) (near net.Conn, far *net.TCPConn, err error) {
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, nil, err
	}
	defer listener.Close() //nolint:errcheck // it was only for one connection
	var d net.Dialer
	if near, err = d.DialContext(ctx, "tcp", listener.Addr().String()); err != nil {
		return nil, nil, err
	}
	if far, err = listener.AcceptTCP(); err != nil {
		_ = near.Close()
	}
	return near, far, err
}

// start carries for as long as the connection lives, which is longer than the call that dialled it.
func (n *Network) start(ctx context.Context, r *relay) {
	ctx = context.WithoutCancel(ctx)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.relays[r] = struct{}{}
	if n.closed {
		_, _ = r.dialled.Close(), r.far.Close()
	}
	n.wg.Go(func() {
		var both sync.WaitGroup
		both.Go(func() { n.carry(ctx, r.from, r.to, r.dialled, r.far) })
		both.Go(func() { n.carry(ctx, r.to, r.from, r.far, r.dialled) })
		both.Wait()
		_, _ = r.dialled.Close(), r.far.Close()
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.relays, r)
	})
}

// chunk is something on its way, nil bytes for the end.
type chunk struct {
	bytes []byte
	due   time.Time
	err   error
}

// carry moves bytes one way until either side ends.
func (n *Network) carry(ctx context.Context, from, to string, src, dst *net.TCPConn) {
	queue := make(chan chunk, relayQueue)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	n.wg.Go(func() {
		defer close(queue)
		for {
			buf := make([]byte, relayChunk)
			k, err := src.Read(buf)
			n.mu.Lock()
			due := time.Now().Add(n.delay)
			n.mu.Unlock()
			select {
			case queue <- chunk{bytes: buf[:k], due: due, err: err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	})
	for c := range queue {
		timer := time.NewTimer(time.Until(c.due))
		<-timer.C
		if n.pass(ctx, from, to) != nil {
			break
		}
		if _, err := dst.Write(c.bytes); err != nil {
			break
		}
		if errors.Is(c.err, io.EOF) {
			_ = dst.CloseWrite()
			return // the other way may go on
		}
		if c.err != nil {
			_ = dst.SetLinger(0)
			break
		}
	}
	_, _ = src.Close(), dst.Close()
}
