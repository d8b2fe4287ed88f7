package actors

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"parley/actors/core/failure"
	"parley/proto/failurepb"
)

// System hosts the entities of the shards that this node owns. Make it with New, end it with Stop.
type System struct {
	lifetime

	config  Config
	kinds   map[string]*Kind // by id prefix
	dues    []Due            // of the kinds that have one
	streams *LiveStreams
	log     *slog.Logger
	metrics *metrics
	engine  *actor.ActorSystem
	root    *actor.RootContext
	asks    sync.Pool
	workers *workers
	slots   chan struct{} // recoveries under way
	beat    time.Duration // interval between the hosts' sweeps

	idleTicks uint64 // after so many sweeps without a command an entity is retired

	hosts atomic.Pointer[[]*host] // by shard, nil = never owned here
	mu    struct {
		sync.Mutex
		closed bool // no shard is owned any more, nor will be
	}
}

// lifetime is how far a system is on its way down, and what ends with it.
type lifetime struct {
	stopping atomic.Bool
	stopped  chan struct{}
	life     context.Context //nolint:containedctx // the system's own: it ends calls to the journal, not a request's
	end      context.CancelFunc
	work     context.Context //nolint:containedctx // of the background tasks, which end first
	endWork  context.CancelFunc
	tasks    sync.WaitGroup
}

// New returns a system that owns nothing yet.
func New(config Config) (*System, error) {
	config.setDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	if config.LiveStreams == nil {
		config.LiveStreams = NewLiveStreams(LiveStreamsConfig{Registerer: config.Registerer})
	}
	s := &System{
		lifetime: lifetime{stopped: make(chan struct{})},

		config:  config,
		kinds:   make(map[string]*Kind, len(config.Kinds)),
		streams: config.LiveStreams,
		log:     config.Logger,
		metrics: newMetrics(config.Registerer),
		asks:    sync.Pool{New: newAsk},
		slots:   make(chan struct{}, config.RecoverConcurrency),
		beat:    min(max(config.IdleAfter/20, 50*time.Millisecond), time.Second),
		workers: &workers{},
	}
	s.idleTicks = uint64(config.IdleAfter / s.beat)
	for i := range config.Kinds {
		kind := &s.config.Kinds[i]
		if s.kinds[kind.Machine.Kind()] != nil {
			return nil, fmt.Errorf("actors: two kinds named %q", kind.Machine.Kind())
		}
		s.kinds[kind.Machine.Kind()] = kind
		if kind.Due.List != "" {
			s.dues = append(s.dues, kind.Due)
		}
	}
	s.engine = actor.NewActorSystem(
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return quiet(config.Logger) }),
		actor.WithDeadLetterRequestLogging(false),
	)
	shrink(s.engine.ProcessRegistry)
	s.root = s.engine.Root
	s.hosts.Store(&[]*host{})
	s.observe(config.Registerer)
	s.life, s.end = context.WithCancel(context.Background())
	s.work, s.endWork = context.WithCancel(s.life)
	s.streams.lease = config.StreamLease
	s.streams.governed.Store(true)
	s.tasks.Go(s.sweep)
	s.tasks.Go(s.renewLeases)
	return s, nil
}

// Own starts an ownership term: this node owns the shard under the epoch, serves its commands and recovers turns that a
// former owner left open. A repeated or outdated epoch is ignored. Own does not wait for the recovery.
func (s *System) Own(shard uint32, epoch uint64) {
	h := s.hostOf(shard)
	s.mu.Lock()
	before := h.term.Load()
	if s.mu.closed || epoch == 0 || epoch <= epochOf(before) || epoch < h.newest.Load() {
		s.mu.Unlock()
		return
	}
	h.newest.Store(epoch)
	t := newTerm(s.life, epoch, h.past)
	h.past = append(slices.Clone(h.past[max(0, len(h.past)+1-maxPast):]), epoch)
	s.setTermLocked(h, t)
	s.tasks.Go(func() { s.recover(h, t) })
	if len(s.dues) > 0 {
		s.tasks.Go(func() { s.watchDue(h, t) })
	}
	if config := s.config.Outbox; config.Client != nil {
		s.tasks.Go(func() { newOutboxWorker(s, h, t).keep() })
	}
	s.mu.Unlock()
	if before != nil {
		s.released(shard, before)
	}
	s.log.Debug("shard owned", slog.Uint64("shard", uint64(shard)), slog.Uint64("epoch", epoch))
}

// Disown ends the ownership term of a shard. New commands, held commands, follows and callers that wait for a turn fail
// with NotOwnerError at once; turns stop without a report and publish nothing more; followers are closed and entities
// retired. Disown does not wait for the last of them.
func (s *System) Disown(shard uint32) {
	h := s.hostIf(shard)
	if h == nil {
		return
	}
	s.disown(h, h.term.Load())
}

// disown ends a term, unless it has ended.
func (s *System) disown(h *host, t *term) {
	s.mu.Lock()
	if t == nil || h.term.Load() != t {
		s.mu.Unlock()
		return
	}
	s.setTermLocked(h, nil)
	s.mu.Unlock()
	s.released(h.shard, t)
	s.log.Info("shard released", slog.Uint64("shard", uint64(h.shard)), slog.Uint64("epoch", t.epoch))
}

// setTermLocked changes the term and notifies the host, in the same order in which other goroutines see the changes.
func (s *System) setTermLocked(h *host, t *term) {
	before := h.term.Swap(t)
	if before != nil {
		before.over.Store(true)
		s.metrics.owned.Dec()
	}
	if t != nil {
		s.metrics.owned.Inc()
	}
	s.streams.govern(h.shard, t)
	s.root.Send(h.pid, &ownership{term: t})
	if before != nil {
		before.end() // appends under way are not waited for: their callers go to the next owner
	}
}

// released stops what ran under a term that has ended, and closes the shard's live streams.
func (s *System) released(shard uint32, t *term) {
	for _, kind := range s.kinds {
		if kind.OnRelease != nil {
			kind.OnRelease(shard, t.epoch)
		}
	}
	s.streams.closeShard(shard, t.epoch, &NotOwnerError{Shard: shard, Epoch: t.epoch})
}

// Ask sends a command to an entity and returns the reply, waiting for it until ctx ends. A refusal is a
// *machine.Failure; NotOwnerError says that the command belongs elsewhere, UnknownOutcomeError that it may have been
// applied or not, and so does ctx when it ends first.
func (s *System) Ask(ctx context.Context, shard uint32, id string, command proto.Message) (proto.Message, error) {
	if s.stopping.Load() && !s.whileStopping(id) {
		return nil, s.stoppingAnswer(shard)
	}
	return s.ask(ctx, shard, outside(id, command))
}

func errStopping() error { return unavailable(failure.NodeStopping) }

func (s *System) whileStopping(id string) bool {
	prefix, _, _ := strings.Cut(id, "_")
	kind := s.kinds[prefix]
	return kind != nil && kind.WhileStopping
}

// stoppingAnswer is the error for calls that arrive while the system stops. Those for shards that are owned elsewhere get
// NotOwnerError, so that they are sent there.
func (s *System) stoppingAnswer(shard uint32) error {
	h := s.hostIf(shard)
	switch {
	case h == nil:
		return &NotOwnerError{Shard: shard}
	case h.term.Load() == nil:
		return h.refusal()
	}
	return errStopping()
}

func (s *System) ask(ctx context.Context, shard uint32, q question) (proto.Message, error) {
	prefix, _, _ := strings.Cut(q.id, "_")
	kind := s.kinds[prefix]
	if kind == nil {
		return nil, failure.New(failurepb.Code_NOT_FOUND, failure.EntityNotFound)
	}
	h := s.hostIf(shard)
	if h == nil {
		return nil, &NotOwnerError{Shard: shard}
	}
	if h.term.Load() == nil {
		return nil, h.refusal()
	}
	if h.inFlight.Add(1) > int64(s.config.MaxInFlight) {
		h.inFlight.Add(-1)
		return nil, unavailable(failure.TooManyCommands)
	}
	a := s.newAsk(kind, q)
	s.root.Send(h.pid, a)
	select {
	case got := <-a.reply:
		s.releaseAsk(a)
		return got.reply, got.err
	case <-ctx.Done():
		a.gone.Store(true)
		s.root.Send(h.pid, &forget{id: q.id})
		return nil, fmt.Errorf("wait for the reply: %w", ctx.Err())
	}
}

// Stop ends the system: no new commands; the kinds are drained (running turns get until ctx ends, then are left to
// recovery); every entity is retired; followers are told. When ctx ends, appends under way are cut off. It returns when
// nothing of it runs any more. Safe to call twice.
func (s *System) Stop(ctx context.Context) {
	if !s.stopping.CompareAndSwap(false, true) {
		<-s.stopped
		return
	}
	for _, kind := range s.config.Kinds { // in their order: tasks wait for turns
		if kind.Drain != nil {
			kind.Drain(ctx)
		}
	}
	s.recordHandOvers(ctx)
	s.endWork()
	s.mu.Lock()
	s.mu.closed = true
	s.mu.Unlock()
	s.tasks.Wait()
	cutOff := context.AfterFunc(ctx, s.end) // until then, what is being appended may finish
	s.retireAll()
	cutOff()
	s.end()
	s.streams.close(errStopping())
	s.engine.Shutdown()
	s.workers.stop()
	close(s.stopped)
}

// retireAll gives up every shard for good and waits until the last entity is gone.
func (s *System) retireAll() {
	var retired sync.WaitGroup
	s.mu.Lock()
	for _, h := range *s.hosts.Load() {
		if h == nil {
			continue
		}
		retired.Add(1)
		if t := h.term.Swap(nil); t != nil {
			h.stopped.Store(true)
			t.over.Store(true) // but not ended: what is being appended may finish
		}
		s.root.Send(h.pid, &ownership{done: retired.Done})
	}
	s.metrics.owned.Set(0)
	s.mu.Unlock()
	retired.Wait()
}

// hostIf returns the host of a shard, or nil when the shard was never owned here.
func (s *System) hostIf(shard uint32) *host {
	hosts := *s.hosts.Load()
	if int64(shard) >= int64(len(hosts)) {
		return nil
	}
	return hosts[shard]
}

// hostOf returns the host of a shard and starts it when there is none. Hosts are permanent: an actor that others can
// address must not stop, because what is in its mailbox then would vanish without an answer.
func (s *System) hostOf(shard uint32) *host {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.hostIf(shard); h != nil {
		return h
	}
	h := newHost(s, shard)
	hosts := append([]*host(nil), *s.hosts.Load()...)
	for int64(len(hosts)) <= int64(shard) {
		hosts = append(hosts, nil)
	}
	hosts[shard] = h
	s.hosts.Store(&hosts)
	return h
}

// sweep sends each host a tick at regular intervals.
func (s *System) sweep() {
	ticker := time.NewTicker(s.beat)
	defer ticker.Stop()
	for {
		select {
		case <-s.work.Done():
			return
		case <-ticker.C:
		}
		var present []*host
		for _, h := range *s.hosts.Load() {
			if h != nil {
				present = append(present, h)
			}
		}
		for _, h := range present {
			s.root.Send(h.pid, &tick{window: max(housekeeping/len(present), leastHousekeeping)})
		}
	}
}
