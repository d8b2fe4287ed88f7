package sse

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley/actors/core/expected"
	"parley/actors/core/failure"
	"parley/proto/failurepb"
)

var errStopped = errors.New("hub is stopped")

// Hub follows conversations and fans them out to streams.
type Hub struct {
	cfg      Config
	upstream Upstream
	log      *slog.Logger
	metrics  *metrics
	wire     *wire
	catchup  *catchup

	ctx    context.Context //nolint:containedctx // life of the subscriptions, which outlive every request
	cancel context.CancelFunc

	mu        sync.Mutex
	topics    map[string]*topic
	streams   int // admitted: leases and open streams
	finishing bool
	lingering []lingerer
	started   bool
	stopping  bool

	janitor chan struct{} // wakes the cleaner, at most one signal

	finite atomic.Int64 // open streams that end with a turn

	group taskGroup // goroutines of the hub, and streams being opened

	stopOnce sync.Once
	stopped  chan struct{}
}

// lingerer is a topic without followers, and since when.
type lingerer struct {
	topic *topic
	since time.Time
}

// maxLingering bounds the topics without followers.
const maxLingering = 10_000

// New returns a hub. log and registerer may be nil.
func New(cfg Config, upstream Upstream, log *slog.Logger, registerer prometheus.Registerer) (*Hub, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("sse config: %w", err)
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	m := newMetrics(registerer)
	h := &Hub{
		cfg: cfg, upstream: upstream, log: log, metrics: m,
		wire:    newWire(cfg, log, m),
		catchup: newCatchup(),
		topics:  make(map[string]*topic),
		janitor: make(chan struct{}, 1),
		stopped: make(chan struct{}),
	}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	if registerer != nil {
		registerer.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "parley_sse_lingering_topics", Help: "Times that conversations were left by their last stream and are still followed.",
		}, h.countLingering))
	}
	return h, nil
}

// Start starts the write loops and workers.
func (h *Hub) Start() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.started || h.stopping {
		return errors.New("hub was started or stopped before")
	}
	if err := h.wire.start(); err != nil {
		return err
	}
	h.started = true
	for range h.cfg.CatchupWorkers {
		h.group.spawn(func() { h.catchup.run(h.ctx) })
	}
	h.group.spawn(h.clean)
	return nil
}

func (h *Hub) countLingering() float64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return float64(len(h.lingering))
}

// finishLook is how often Finish checks whether it is done.
const finishLook = 10 * time.Millisecond

// Finish refuses new streams and waits until those that end with a turn have ended, or ctx ends. Streams that follow a
// log go on until Stop.
func (h *Hub) Finish(ctx context.Context) {
	h.mu.Lock()
	h.finishing = true
	h.mu.Unlock()
	look := time.NewTicker(finishLook)
	defer look.Stop()
	for h.finite.Load() > 0 {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
	}
}

// Stop sends every stream its final frame, in batches, waits until they are written or ctx ends, closes what is left,
// and ends everything the hub runs. It may be called twice and before Start.
func (h *Hub) Stop(ctx context.Context) error {
	h.stopOnce.Do(func() {
		defer close(h.stopped)
		h.stop(ctx)
	})
	select {
	case <-h.stopped:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop hub: %w", ctx.Err())
	}
}

func (h *Hub) stop(ctx context.Context) {
	h.mu.Lock()
	h.stopping = true
	started := h.started
	topics := make([]*topic, 0, len(h.topics))
	for _, t := range h.topics {
		topics = append(topics, t)
	}
	h.mu.Unlock()
	if !started {
		h.cancel()
		return
	}
	h.sayGoodbye(ctx, topics)
	h.await(ctx)

	h.group.close()
	h.cancel()
	h.catchup.stop()
	for _, t := range topics {
		h.forget(t)
		t.unsubscribe()
	}
	h.group.wait()
	h.wire.killAll(endStop)
	h.await(context.WithoutCancel(ctx))
	h.wire.stop()
}

// sayGoodbye ends the streams in batches, so that their clients do not all reconnect in the same instant.
func (h *Hub) sayGoodbye(ctx context.Context, topics []*topic) {
	inSlice := 0
	for _, t := range topics {
		for _, f := range t.retire() {
			t.mu.Lock()
			f.end(Stopping)
			t.mu.Unlock()
			if inSlice++; inSlice < h.cfg.StopSlice {
				continue
			}
			inSlice = 0
			select {
			case <-time.After(h.cfg.StopPause):
			case <-ctx.Done():
				return
			}
		}
	}
}

// await waits until no stream is open.
func (h *Hub) await(ctx context.Context) {
	for h.wire.open.Load() > 0 {
		select {
		case <-h.wire.closed:
		case <-ctx.Done():
			return
		}
	}
}

// Lease is the right to open one stream on a followed conversation.
type Lease struct {
	topic *topic
	once  sync.Once
}

// Acquire admits one stream and ensures that the conversation is followed. It refuses before anything is sent:
// UNAVAILABLE for too many streams or no owner, NOT_FOUND for a missing conversation. The lease must be opened or
// released.
//
// Acquire the lease before a message is sent; then its first events are still in the ring when the stream opens. Pass
// expected.Context if it is that message which creates the conversation.
func (h *Hub) Acquire(ctx context.Context, conversationID string) (*Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, h.cfg.AcquireTimeout)
	defer cancel()
	for {
		t, err := h.join(conversationID, expected.In(ctx))
		if err != nil {
			return nil, err
		}
		t.mu.Lock()
		ready := t.ready
		t.mu.Unlock()
		select {
		case <-ready:
		case <-ctx.Done():
			h.leave(t)
			return nil, failure.New(failurepb.Code_UNAVAILABLE, failure.CannotFollow)
		}
		t.mu.Lock()
		state, err, why := t.state, t.err, t.endReason
		t.mu.Unlock()
		if state != closed {
			return &Lease{topic: t}, nil
		}
		h.leave(t)
		if why == Stopping {
			return nil, failure.New(failurepb.Code_UNAVAILABLE, failure.ServerStopping)
		}
		if err != nil {
			return nil, err
		}
	}
}

// join takes a place in a topic, which it creates if necessary. The conversation of a topic that is unmade need not exist yet.
func (h *Hub) join(id string, unmade bool) (*topic, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopping || h.finishing || !h.started {
		return nil, failure.New(failurepb.Code_UNAVAILABLE, failure.ServerStopping)
	}
	if h.streams >= h.cfg.MaxStreams {
		h.metrics.refused.Inc()
		return nil, failure.New(failurepb.Code_UNAVAILABLE, failure.TooManyStreams)
	}
	t := h.topics[id]
	if t == nil {
		t = newTopic(h, id)
		t.expected = unmade
		if !h.group.spawn(t.open) {
			return nil, failure.New(failurepb.Code_UNAVAILABLE, failure.ServerStopping)
		}
		h.topics[id] = t
		h.metrics.topics.Inc()
	}
	h.streams++
	t.mu.Lock()
	t.refs++
	t.mu.Unlock()
	return t, nil
}

// leave gives a place back. A topic without followers lingers.
func (h *Hub) leave(t *topic) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.streams--
	t.mu.Lock()
	t.refs--
	idle := t.refs == 0
	t.idleSince = time.Now()
	since := t.idleSince
	t.mu.Unlock()
	if !idle || h.topics[t.id] != t {
		return
	}
	h.lingering = append(h.lingering, lingerer{t, since})
	select {
	case h.janitor <- struct{}{}:
	default:
	}
}

// Release gives the lease back unused. It may be called twice and after Open.
func (l *Lease) Release() { l.once.Do(func() { l.topic.hub.leave(l.topic) }) }

// Open turns a connection into a stream. It returns at once. Whatever happens, the connection is closed and the
// handover's Release is called in the end.
func (l *Lease) Open(handover Handover, options Options) {
	h := l.topic.hub
	release := handover.Release
	if release == nil {
		release = func() {}
	}
	if !options.Shared {
		h.finite.Add(1)
		let := release
		release = func() {
			h.finite.Add(-1)
			let()
		}
	}
	handover.Release = release
	if handover.Conn == nil {
		l.Release()
		release()
		return
	}
	used := true
	l.once.Do(func() { used = false })
	if used || !h.group.enter() {
		_ = handover.Conn.Close()
		if !used {
			h.leave(l.topic)
		}
		release()
		return
	}
	defer h.group.leave()
	f := &follower{
		topic: l.topic, view: options.View, shared: options.Shared, cursor: options.After, greeted: options.InOrder,
	}
	if err := h.wire.adopt(handover, f, options); err != nil {
		h.log.Debug("stream could not be opened", slog.String("conversation", l.topic.id), slog.Any("err", err))
		h.leave(l.topic)
		release()
		return
	}
	l.topic.attach(f)
	h.wire.begin(f.conn)
}

// sleep is false if the hub ended meanwhile.
func (h *Hub) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-h.ctx.Done():
		return false
	}
}

// forget removes a topic from the table; later callers get a new one.
func (h *Hub) forget(t *topic) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forgetLocked(t)
}

func (h *Hub) forgetLocked(t *topic) {
	if h.topics[t.id] == t {
		delete(h.topics, t.id)
		h.metrics.topics.Dec()
	}
}

// closeIdle closes a topic without followers.
func (h *Hub) closeIdle(t *topic) bool {
	return h.closeIdleSince(t, time.Time{})
}

// closeIdleSince closes a topic that has been without followers since then (zero: that has none now).
func (h *Hub) closeIdleSince(t *topic, since time.Time) bool {
	h.mu.Lock()
	t.mu.Lock()
	idle := t.refs == 0 && (since.IsZero() || t.idleSince.Equal(since))
	var s *subscription
	if idle {
		h.forgetLocked(t)
		s, t.sub = t.sub, nil
		t.close(nil, Lost)
	}
	t.mu.Unlock()
	h.mu.Unlock()
	if s != nil {
		s.cancel()
	}
	return idle
}

// clean closes topics that have lingered long enough.
func (h *Hub) clean() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		next, pause := h.nextLingerer()
		if next.topic != nil {
			h.closeIdleSince(next.topic, next.since)
			continue
		}
		timer.Reset(pause)
		select {
		case <-h.janitor:
		case <-timer.C:
		case <-h.ctx.Done():
			return
		}
	}
}

// nextLingerer returns the topic whose time has run out, or how long to wait for one.
func (h *Hub) nextLingerer() (lingerer, time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.lingering) == 0 {
		h.lingering = nil
		return lingerer{}, time.Hour
	}
	first := h.lingering[0]
	wait := h.cfg.Linger - time.Since(first.since)
	if wait > 0 && len(h.lingering) <= maxLingering {
		return lingerer{}, wait
	}
	h.lingering[0] = lingerer{}
	h.lingering = h.lingering[1:]
	return first, 0
}
