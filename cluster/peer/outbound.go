package peer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// outbound is what is on its way to one node: a bounded queue, and the goroutine that keeps a connection and writes to it.
type outbound struct {
	t     *Transport
	node  uint64
	wake  chan struct{} // something waits
	nudge chan struct{} // the node was heard of

	mu struct {
		sync.Mutex
		pending   []byte // sealed batches
		frames    int    // in pending
		accepting bool   // connected, or about to be
		ended     bool
		used      bool // since the clock was looked at
		dropped   bool // and nobody was told
		state     Peer
	}

	// Of the goroutine.
	lastUsed   time.Time
	told       time.Time // that frames were lost
	logged     time.Time // that it cannot be reached
	failures   int       // attempts in a row
	answered   bool      // a ping of this connection
	keptBuffer []byte    // for the next writes
}

const (
	// keepBuffer is the largest buffer kept for the next batches.
	keepBuffer = 1 << 20
	// logEvery bounds how often the same trouble is logged.
	logEvery = 30 * time.Second
	// tellEvery bounds how often lost frames are told.
	tellEvery = time.Second
	// tellsDown is how many refused attempts in a row are told.
	tellsDown = 3
)

var (
	errIdle  = errors.New("nothing to send")
	errMoved = errors.New("it has a new address")
)

func newOutbound(t *Transport, node uint64) *outbound {
	o := &outbound{t: t, node: node, wake: make(chan struct{}, 1), nudge: make(chan struct{}, 1), lastUsed: time.Now()}
	o.mu.accepting, o.mu.used = true, true
	o.mu.state = Peer{Node: node, Since: time.Now()}
	return o
}

// add queues frames, as many as fit. It returns false when this outbound has ended and another must be made.
func (o *outbound) add(kind Kind, frames [][]byte) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mu.ended {
		return false
	}
	o.mu.used = true
	fit := 0
	if o.mu.accepting {
		fit = o.fitLocked(frames)
	}
	if lost := len(frames) - fit; lost > 0 {
		o.mu.dropped = true
		o.t.metrics.droppedFrames.Add(float64(lost))
	}
	if fit == 0 {
		return true
	}
	idle := len(o.mu.pending) == 0
	o.mu.frames += fit
	for rest := frames[:fit]; len(rest) > 0; {
		o.mu.pending, rest = appendBatch(o.mu.pending, kind, rest)
		o.t.metrics.sentBatches.Inc()
	}
	if idle {
		poke(o.wake)
	}
	return true
}

// fitLocked is how many of frames fit in the queue. One does if the queue is empty, however large.
func (o *outbound) fitLocked(frames [][]byte) int {
	size := len(o.mu.pending)
	for i, f := range frames {
		if len(f) > o.t.cfg.MaxFrameBytes {
			return i
		}
		if size += len(f) + frameCost + headerSize; size > o.t.cfg.QueueBytes && (i > 0 || len(o.mu.pending) > 0) {
			return i
		}
	}
	return len(frames)
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (o *outbound) nudgeNow() { poke(o.nudge) }

func (o *outbound) state() Peer {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.mu.state
}

// run keeps the connection for as long as it is used.
func (o *outbound) run(ctx context.Context) {
	defer o.t.forget(o)
	for ctx.Err() == nil {
		began := time.Now()
		o.accept()
		err := o.connect(ctx)
		if ctx.Err() != nil {
			o.lose(ctx.Err())
			return
		}
		if errors.Is(err, errIdle) || o.unused(time.Now()) {
			if o.end() {
				return
			}
			continue
		}
		o.lose(err)
		o.pause(ctx, began, err)
	}
}

func (o *outbound) over() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.mu.ended
}

func (o *outbound) accept() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mu.accepting = true
}

// connect makes a connection and uses it until it breaks.
func (o *outbound) connect(ctx context.Context) error {
	l, addr, err := o.t.dialNode(ctx, o.node, purposeFrames)
	o.t.metrics.dials.WithLabelValues(outcome(err)).Inc()
	if err != nil {
		o.failures++
		o.setState(Peer{Node: o.node, Address: addr, Err: err.Error()})
		o.logFailure(err)
		if errors.Is(err, syscall.ECONNREFUSED) && o.failures <= tellsDown {
			o.t.cfg.OnDown(o.node)
		}
		return err
	}
	since := time.Now()
	o.setState(Peer{Node: o.node, Address: addr, Connected: true})
	o.t.metrics.connected.Inc()
	o.t.logger.Info("connected to node", slog.Uint64("peer", o.node), slog.String("name", l.peer.GetName()), slog.String("address", addr))
	o.tellDropped(0) // while there was no connection
	o.t.cfg.OnReachable(o.node)
	err = o.serve(ctx, l, addr)
	o.t.metrics.connected.Dec()
	o.setState(Peer{Node: o.node, Address: addr, Err: err.Error()})
	switch {
	case time.Since(since) > o.t.cfg.MaxBackoff:
		o.failures = 0
	case o.answered:
		o.failures = 1 // not at once: two processes with one number would end each other's connections without a pause
	default:
		o.failures++
	}
	if ctx.Err() == nil {
		o.told, o.logged = time.Time{}, time.Time{}
		o.t.logger.Info("connection to node ended", slog.Uint64("peer", o.node), slog.String("address", addr), slog.Any("err", err))
	}
	return err
}

func (o *outbound) setState(p Peer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p.Since = o.mu.state.Since
	if p.Connected != o.mu.state.Connected {
		p.Since = time.Now()
	}
	o.mu.state = p
}

func (o *outbound) logFailure(err error) {
	if now := time.Now(); now.Sub(o.logged) >= logEvery {
		o.logged = now
		o.t.logger.Warn("node is not reached", slog.Uint64("peer", o.node), slog.Any("err", err))
	}
}

// serve writes what is queued until the connection breaks, is not used, or belongs elsewhere.
func (o *outbound) serve(ctx context.Context, l *link, addr string) error {
	stop := context.AfterFunc(ctx, l.close)
	defer stop()
	l.limitSilence(o.t.cfg.Timeout)
	o.answered = false
	heard := make(chan error, 1)
	go func() { heard <- o.hear(l) }()
	err := o.write(l, addr, heard)
	l.close() // ends hear
	if cause := <-heard; err == nil || errors.Is(err, net.ErrClosed) {
		err = cause
	}
	return err
}

// hear reads the answers to pings. It closes the link when they stop, which ends a write that is stuck.
func (o *outbound) hear(l *link) error {
	defer l.close()
	timeout := o.t.cfg.Timeout
	for {
		if err := l.raw.SetReadDeadline(time.Now().Add(timeout)); err != nil {
			return err
		}
		kind, _, err := readFrame(l.r, 0, nil)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Errorf("nothing heard for %v: %w", timeout, err)
		}
		if err != nil {
			return err
		}
		if kind != kindPong {
			return fmt.Errorf("%w: kind %d instead of a pong", errBadFrame, kind)
		}
		o.answered = true
	}
}

func (o *outbound) write(l *link, addr string, heard chan error) error {
	ticker := time.NewTicker(pingEvery(o.t.cfg.Timeout))
	defer ticker.Stop()
	ping := true // the first one says that the connection is there
	for {
		batches := o.take(ping)
		if len(batches) > 0 {
			if _, err := l.conn.Write(batches); err != nil {
				return err
			}
			o.t.metrics.sentBytes.Add(float64(len(batches)))
			o.t.metrics.sentWrites.Inc()
			o.keep(batches)
			o.tellDropped(tellEvery)
		}
		ping = false
		select {
		case err := <-heard:
			heard <- err
			return nil
		case <-o.wake:
		case <-o.nudge:
			if o.moved(addr) {
				return errMoved
			}
		case now := <-ticker.C:
			if o.unused(now) {
				return errIdle
			}
			if o.moved(addr) {
				return errMoved
			}
			ping = true
		}
	}
}

// take empties the queue into what is written next.
func (o *outbound) take(ping bool) []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	batches := o.mu.pending
	o.mu.pending, o.mu.frames = o.keptBuffer, 0
	o.keptBuffer = nil
	if ping {
		batches = appendFrame(batches, kindPing, nil)
	}
	return batches
}

// keep keeps a buffer for the next batches, unless it has grown for once.
func (o *outbound) keep(buffer []byte) {
	if cap(buffer) <= keepBuffer {
		o.keptBuffer = buffer[:0]
	}
}

func (o *outbound) moved(addr string) bool {
	now, known := o.t.cfg.Address(o.node)
	return known && now != addr
}

// unused says whether nobody has sent anything for IdleAfter.
func (o *outbound) unused(now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mu.used {
		o.mu.used = false
		o.lastUsed = now
	}
	return now.Sub(o.lastUsed) >= o.t.cfg.IdleAfter
}

// end ends an outbound that is not used; false if it just was.
func (o *outbound) end() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mu.ended = !o.mu.used && len(o.mu.pending) == 0
	return o.mu.ended
}

// lose drops what waits, and says so.
func (o *outbound) lose(err error) {
	o.mu.Lock()
	if errors.Is(err, context.Canceled) {
		o.mu.ended = true
	}
	if o.mu.frames > 0 {
		o.mu.dropped = true
		o.t.metrics.droppedFrames.Add(float64(o.mu.frames))
	}
	o.mu.pending, o.mu.frames = nil, 0
	o.mu.accepting = false
	ended := o.mu.ended
	o.mu.Unlock()
	if !ended && time.Since(o.told) >= tellEvery {
		o.tell()
	}
}

// tellDropped tells that frames were not queued, unless something was told less than every ago.
func (o *outbound) tellDropped(every time.Duration) {
	o.mu.Lock()
	dropped := o.mu.dropped
	o.mu.Unlock()
	if dropped && time.Since(o.told) >= every {
		o.tell()
	}
}

func (o *outbound) tell() {
	o.told = time.Now()
	o.mu.Lock()
	o.mu.dropped = false
	o.mu.Unlock()
	o.t.cfg.OnUnreachable(o.node)
}

// pause waits until it is time for the next attempt.
func (o *outbound) pause(ctx context.Context, began time.Time, err error) {
	wait := o.backoff(err)
	timer := time.NewTimer(time.Until(began.Add(wait)))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return
	case <-timer.C:
		return
	case <-o.nudge:
	}
	// Not at once even so: two nodes that refuse each other must not keep each other busy.
	timer.Reset(time.Until(began.Add(min(wait, o.t.cfg.MinBackoff/2))))
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// backoff is the time from one attempt to the next.
func (o *outbound) backoff(err error) time.Duration {
	if o.failures == 0 {
		return 0
	}
	wait := o.t.cfg.MinBackoff
	limit := o.t.cfg.MaxBackoff
	if errors.Is(err, syscall.ECONNREFUSED) {
		limit = min(limit, 2*wait)
	}
	for i := 1; i < o.failures && wait < limit; i++ {
		wait *= 2
	}
	return min(wait, limit)
}
