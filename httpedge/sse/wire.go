package sse

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// errUnsupported means that the loops cannot serve a connection; it gets goroutines of its own.
var errUnsupported = errors.New("connection has no plain socket")

// wire owns everything that moves bytes: loops, poller, the ping wheel, and the goroutines of connections that need
// their own.
type wire struct {
	cfg     Config
	log     *slog.Logger
	metrics *metrics
	loops   []*loop
	poll    *poller // nil where there is none
	wheel   *wheel
	next    atomic.Uint32 // round robin over loops
	open    atomic.Int64
	closed  chan struct{} // a signal, at most one: a connection was closed

	group sync.WaitGroup // loops, poller, wheel
	own   sync.WaitGroup // goroutines of connections
}

func newWire(cfg Config, log *slog.Logger, m *metrics) *wire {
	w := &wire{cfg: cfg, log: log, metrics: m, closed: make(chan struct{}, 1)}
	n := cfg.Loops
	if n == 0 {
		n = runtime.GOMAXPROCS(0)
	}
	for range n {
		w.loops = append(w.loops, newLoop(w))
	}
	w.wheel = newWheel(cfg.PingEvery)
	return w
}

func (w *wire) start() error {
	poll, err := newPoller()
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("start poller: %w", err)
	}
	w.poll = poll
	for _, l := range w.loops {
		w.group.Go(l.run)
	}
	if poll != nil {
		w.group.Go(poll.run)
	}
	w.group.Go(w.wheel.run)
	return nil
}

// stop ends the goroutines. All connections must be closed or killed.
func (w *wire) stop() {
	w.own.Wait()
	w.wheel.stop()
	for _, l := range w.loops {
		l.stop()
	}
	if w.poll != nil {
		w.poll.stop()
	}
	w.group.Wait()
}

// adopt turns a connection into a follower's stream. Nothing is written before begin, so that head, opening and the
// follower's first frames go out in one write. On an error the connection is closed.
func (w *wire) adopt(h Handover, f *follower, options Options) error {
	c := &conn{wire: w, owner: f, release: h.Release, reuse: h.Reuse, lean: options.Lean, still: h.Still, plain: h.Plain}
	f.conn = c
	opening := options.Opening
	if h.Plain {
		opening = Unchunked(opening)
	}
	c.queue.push(append(responseHead(h.Head, h.Plain), opening...))
	c.writer.scheduled = true
	w.open.Add(1)
	w.metrics.streams.Inc()
	err := w.adoptSocket(c, h.Conn)
	if errors.Is(err, errUnsupported) {
		w.adoptOwn(c, h.Conn)
		err = nil
	}
	if err != nil {
		w.open.Add(-1)
		w.metrics.streams.Dec()
		_ = h.Conn.Close()
		return fmt.Errorf("adopt connection: %w", err)
	}
	w.wheel.add(c)
	return nil
}

// begin starts writing.
func (w *wire) begin(c *conn) {
	if c.loop != nil {
		c.loop.schedule(c, urgent)
		return
	}
	c.kick <- struct{}{}
}

// killAll cuts off every connection.
func (w *wire) killAll(why ending) {
	for _, c := range w.wheel.all() {
		c.kill(why)
	}
}

func (w *wire) adoptSocket(c *conn, raw net.Conn) error {
	tcp, ok := raw.(*net.TCPConn)
	if !ok || w.poll == nil {
		return errUnsupported
	}
	if err := tcp.SetWriteBuffer(w.cfg.SendBuffer); err != nil {
		return fmt.Errorf("set send buffer: %w", err)
	}
	c.loop = w.loops[int(w.next.Add(1))%len(w.loops)]
	return w.poll.add(c, tcp, w.cfg.StallTimeout)
}

// adoptOwn gives the connection a writer and a reader; the reader only notices that the client has left.
func (w *wire) adoptOwn(c *conn, raw net.Conn) {
	c.raw = raw
	if inner, ok := raw.(interface{ NetConn() net.Conn }); ok { // *tls.Conn
		if tcp, ok := inner.NetConn().(*net.TCPConn); ok {
			_ = tcp.SetWriteBuffer(w.cfg.SendBuffer)
		}
	}
	c.kick = make(chan struct{}, 1)
	w.own.Go(func() {
		scratch := make([]byte, 4<<10)
		for range c.kick {
			n, bytes := w.flush(c, scratch)
			w.metrics.writes.Add(float64(n))
			w.metrics.bytes.Add(float64(bytes))
		}
	})
	w.own.Go(func() {
		buf := make([]byte, 256)
		for {
			if _, err := raw.Read(buf); err != nil {
				c.kill(endClient)
				return
			}
		}
	})
}

// flush writes until the queue is empty or the socket is full. Only the connection's writer calls it.
func (w *wire) flush(c *conn, scratch []byte) (writes, bytes int) {
	for {
		data, v := c.take(scratch)
		for v == more {
			n, err := w.write(c, data)
			if n > 0 {
				writes++
				bytes += n
			}
			var drained bool
			v, drained = c.wrote(n, err)
			if drained {
				c.owner.drained()
			}
			if v == more {
				break
			}
		}
		switch v {
		case idle:
			return writes, bytes
		case closeNow:
			w.close(c)
			return writes, bytes
		case more:
		}
	}
}

func (w *wire) write(c *conn, data []byte) (int, error) {
	if c.loop != nil {
		return writeSocket(int(c.fd), data)
	}
	if err := c.raw.SetWriteDeadline(time.Now().Add(w.cfg.StallTimeout)); err != nil {
		return 0, err
	}
	n, err := c.raw.Write(data)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.kill(endStalled)
	}
	return n, err
}

// close closes the connection, frees its place and notifies the owner. Only the connection's writer calls it, once.
func (w *wire) close(c *conn) {
	w.wheel.remove(c)
	reuse := w.closeSocket(c)
	w.metrics.streams.Dec()
	w.metrics.ended[c.why].Inc()
	c.owner.ended(c.why)
	if c.release != nil {
		c.release()
	}
	if reuse {
		c.reuse(c.raw)
	}
	w.open.Add(-1)
	select {
	case w.closed <- struct{}{}:
	default:
	}
}

// closeSocket closes the socket. reuse is true if the connection, c.raw, was left open to serve HTTP again.
func (w *wire) closeSocket(c *conn) (reuse bool) {
	if c.loop == nil {
		close(c.kick)
		_ = c.raw.Close()
		return false
	}
	if c.clean && c.reuse != nil && w.poll.forget(c) {
		return c.raw != nil
	}
	w.poll.close(c)
	return false
}
