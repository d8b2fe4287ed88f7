package placement

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"parley/cluster"
	"parley/proto/nodepb"
)

// System is this node's part of the actor cluster, and a cluster.Remote. Use New, Start and Stop.
type System struct {
	config  Config
	log     *slog.Logger
	host    string // name and boot: the identity of this start
	engine  *engine
	metrics *metrics
	slots   chan struct{} // calls that are served
	epoch   time.Time     // where the clock of the beats begins

	ids         atomic.Uint64 // calls and follows
	generations atomic.Uint64 // connections of all links
	links       atomic.Pointer[linkTable]
	routes      sync.Map // virtual address -> *session: connections that may be dialled

	topology sync.Mutex // one change of members at a time
	mu       struct {
		sync.Mutex
		started, stopped bool
	}
	life  context.Context //nolint:containedctx // the life of what the system does for others and on its own, not a request's
	end   context.CancelFunc
	tasks sync.WaitGroup
}

var _ cluster.Remote = (*System)(nil)

// linkTable holds the links to the present members.
type linkTable struct {
	byName map[string]*link
	byHost map[string]*link
}

// New returns a system that does not listen yet.
func New(config Config) (*System, error) {
	config.setDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	s := &System{
		config:  config,
		log:     config.Logger,
		host:    hostOf(config.Name, config.Boot),
		metrics: newMetrics(config.Registerer),
		slots:   make(chan struct{}, config.Serving),
		epoch:   time.Now(),
	}
	s.links.Store(&linkTable{})
	s.life, s.end = context.WithCancel(context.Background())
	var err error
	if s.engine, err = newEngine(s); err != nil {
		return nil, err
	}
	return s, nil
}

func hostOf(name, boot string) string { return name + "-" + boot }

// reconcile is the interval at which the members are read again without a change notification.
const reconcile = time.Second

// Start listens and begins to connect to the members.
func (s *System) Start(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.started || s.mu.stopped {
		return errors.New("placement: started before")
	}
	if err := s.engine.start(); err != nil {
		return err
	}
	s.mu.started = true
	s.tasks.Go(func() {
		ticker := time.NewTicker(reconcile)
		defer ticker.Stop()
		for {
			s.MembersChanged()
			select {
			case <-ticker.C:
			case <-s.life.Done():
				return
			}
		}
	})
	return nil
}

// Stop ends the system. Calls that it serves have until ctx ends to finish, new ones are refused; then those that this
// node waits for are Lost.
func (s *System) Stop(ctx context.Context) error {
	s.mu.Lock()
	begun := s.mu.started && !s.mu.stopped
	s.mu.stopped = true
	s.mu.Unlock()
	if !begun {
		return nil
	}
	for range cap(s.slots) { // whoever is served holds one, and nobody new gets one
		select {
		case s.slots <- struct{}{}:
			continue
		case <-ctx.Done():
		}
		break
	}
	s.end()
	s.topology.Lock()
	for _, l := range s.links.Load().byHost {
		l.close("this node stops")
	}
	s.links.Store(&linkTable{})
	s.topology.Unlock()
	s.tasks.Wait()
	s.engine.stop()
	return nil
}

// MembersChanged reads the members again and updates the links.
func (s *System) MembersChanged() {
	s.topology.Lock()
	defer s.topology.Unlock()
	if s.life.Err() != nil {
		return
	}
	members := s.config.Members()
	old := s.links.Load()
	next := &linkTable{byName: map[string]*link{}, byHost: map[string]*link{}}
	for _, member := range members {
		if member.Name == s.config.Name {
			continue
		}
		l := old.byHost[hostOf(member.Name, member.Boot)]
		if l == nil {
			l = newLink(s, member)
		}
		l.moveTo(member.Address)
		next.byName[member.Name], next.byHost[l.host] = l, l
	}
	s.links.Store(next)
	for _, host := range slices.Sorted(maps.Keys(old.byHost)) {
		if next.byHost[host] == nil {
			old.byHost[host].close("it is not a member any more")
		}
	}
	s.engine.provider.update(members)
}

// clock returns the nanoseconds since the start, on a monotonic clock. It is never 0.
func (s *System) clock() int64 { return int64(time.Since(s.epoch)) + 1 }

// spawn runs a task that Stop waits for; false after Stop.
func (s *System) spawn(task func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.stopped || s.life.Err() != nil {
		return false
	}
	s.tasks.Go(task)
	return true
}

// receive handles an envelope of another node. where is the gate that it came through, nil = the process
// of the node. It does not block, because the connection waits for it.
func (s *System) receive(envelope *nodepb.Envelope, where *gate) {
	l := s.links.Load().byHost[envelope.GetFrom()]
	if l == nil || !l.accept(envelope.GetGeneration()) {
		s.metrics.dropped.Inc()
		return
	}
	switch body := envelope.GetBody().(type) {
	case *nodepb.Envelope_Beat:
		l.beaten(body.Beat)
	case *nodepb.Envelope_Answer:
		l.answered(body.Answer)
	case *nodepb.Envelope_Batch:
		l.receiveNews(body.Batch)
	case *nodepb.Envelope_Ack:
		l.pump.acked(body.Ack.GetReceived())
	case *nodepb.Envelope_Call:
		l.serve(body.Call, where)
	case *nodepb.Envelope_Follow:
		l.publish(body.Follow)
	case *nodepb.Envelope_Abandon:
		l.abandoned(body.Abandon.GetId())
	default:
		s.metrics.dropped.Inc() // of a newer release; a caller runs into its own deadline
	}
}
