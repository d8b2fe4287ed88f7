package membership

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/prometheus/client_golang/prometheus"

	"parley/proto/nodepb"
)

// Membership is this node's participation in the gossip, from Start to Stop.
type Membership struct {
	config  Config
	log     *slog.Logger
	started int64 // Unix ms
	list    *memberlist.Memberlist
	table   table
	poked   chan struct{} // capacity 1: something changed
	rivals  chan rival    // capacity 1: another process uses this node's name
	// capacity 1: other nodes refuse this process because they still know the node's previous start
	disputed chan struct{}

	leaving atomic.Bool
	silent  atomic.Bool // the name belongs to another process: this one gossips nothing more about it
	alive   atomic.Pointer[[]Member]
	known   atomic.Pointer[[]Member]
	places  atomic.Pointer[map[string]string] // newest gossip address of every known member, by name

	life  context.Context //nolint:containedctx // the lifetime of the gossip, not of a request
	end   context.CancelFunc
	tasks sync.WaitGroup
	once  sync.Once
	err   error // of Stop

	members prometheus.Gauge
	changes prometheus.Counter
}

// Start joins the gossip. Finding no other node is not an error: it keeps looking until Stop. ctx bounds the lookup of this
// node's own addresses.
func Start(ctx context.Context, config Config) (*Membership, error) {
	config.setDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	gossip, err := config.gossip(ctx)
	if err != nil {
		return nil, err
	}
	m := &Membership{
		config:   config,
		log:      config.Logger,
		started:  time.Now().UnixMilli(),
		table:    table{nodes: map[string]memberlist.Node{}},
		poked:    make(chan struct{}, 1),
		rivals:   make(chan rival, 1),
		disputed: make(chan struct{}, 1),
		members: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "parley_membership_members", Help: "Live members of the cluster, this node included.",
		}),
		changes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "parley_membership_changes_total", Help: "Changes of the list of live members.",
		}),
	}
	if size := len(m.NodeMeta(memberlist.MetaMaxSize)); size == 0 || size > memberlist.MetaMaxSize {
		return nil, fmt.Errorf("membership: name and addresses of this node take more than %d bytes", memberlist.MetaMaxSize)
	}
	gossip.Delegate, gossip.Events, gossip.Alive, gossip.Conflict = m, m, m, m
	m.life, m.end = context.WithCancel(context.Background())
	gossip.LogOutput = &logWriter{log: m.log, life: m.life}
	m.alive.Store(&[]Member{config.Self})
	m.known.Store(&[]Member{config.Self})
	m.places.Store(&map[string]string{})
	if m.list, err = memberlist.Create(gossip); err != nil {
		m.end()
		return nil, fmt.Errorf("membership: %w", err)
	}
	if config.Registerer != nil {
		config.Registerer.MustRegister(m.members, m.changes)
	}
	m.tasks.Go(m.watch)
	m.tasks.Go(m.judgeAll)
	m.tasks.Go(m.rejoin)
	return m, nil
}

// Members returns the live members, this node included, sorted by name.
func (m *Membership) Members() []Member { return *m.alive.Load() }

// Known returns the newest data of every member seen since Start, including those that died or left.
func (m *Membership) Known() []Member { return *m.known.Load() }

// Address returns the gossip address that others use for this node.
func (m *Membership) Address() string {
	self := m.table.all()[m.config.Self.Name]
	return self.Address()
}

// SetLeaving announces that this node is about to leave.
func (m *Membership) SetLeaving() {
	if m.leaving.Swap(true) || m.silent.Load() {
		return
	}
	if err := m.list.UpdateNode(leaveTimeout); err != nil {
		m.log.Debug("not all members were told that this node leaves", slog.Any("err", err))
	}
	m.poke()
}

// leaveTimeout bounds the announcement that this node leaves. Members that miss it find out by probing.
const leaveTimeout = 500 * time.Millisecond

// Stop leaves the gossip and waits for its goroutines. It may be called again.
func (m *Membership) Stop(ctx context.Context) error {
	m.once.Do(func() {
		timeout := leaveTimeout
		if deadline, bounded := ctx.Deadline(); bounded {
			timeout = max(min(timeout, time.Until(deadline)), time.Millisecond)
		}
		if !m.silent.Load() {
			if err := m.list.Leave(timeout); err != nil {
				m.log.Debug("not all members were told that this node leaves", slog.Any("err", err))
			}
		}
		m.end()
		m.err = m.list.Shutdown()
		m.tasks.Wait()
	})
	return m.err
}

func (m *Membership) poke() {
	select {
	case m.poked <- struct{}{}:
	default: // a refresh is due already
	}
}

// watch takes a snapshot after each change of the gossip.
func (m *Membership) watch() {
	for {
		m.refresh()
		select {
		case <-m.poked:
		case <-m.life.Done():
			return
		}
	}
}

// refresh takes a snapshot of the gossip.
func (m *Membership) refresh() {
	var alive []Member
	addresses := map[string]string{}
	for _, node := range m.table.all() {
		member, err := decode(&node)
		if err != nil {
			m.log.Warn("member with unreadable data", slog.String("node", node.Name), slog.Any("err", err))
			continue
		}
		alive = append(alive, member)
		addresses[member.Name] = node.Address()
	}
	slices.SortFunc(alive, byName)
	known := merge(*m.known.Load(), alive)
	for _, member := range *m.alive.Load() {
		if addresses[member.Name] == "" {
			m.log.Info("member is gone", slog.String("node", member.Name), slog.String("boot", member.Boot))
		}
	}
	places := maps.Clone(*m.places.Load())
	maps.Copy(places, addresses)
	m.places.Store(&places)
	if slices.Equal(alive, *m.alive.Load()) {
		return
	}
	for _, member := range alive {
		if !slices.Contains(*m.alive.Load(), member) {
			m.log.Info("member", slog.String("node", member.Name), slog.String("boot", member.Boot), slog.Bool("leaving", member.Leaving))
		}
	}
	m.members.Set(float64(len(alive)))
	m.changes.Inc()
	m.known.Store(&known)
	m.alive.Store(&alive)
	m.config.OnChange()
}

func byName(a, b Member) int { return strings.Compare(a.Name, b.Name) }

// merge returns the known members, updated with the live ones.
func merge(known, alive []Member) []Member {
	merged := slices.Clone(alive)
	for _, member := range known {
		if _, found := slices.BinarySearchFunc(alive, member, byName); !found {
			merged = append(merged, member)
		}
	}
	slices.SortFunc(merged, byName)
	return merged
}

func (m *Membership) meta() *nodepb.Member {
	self := m.config.Self
	return &nodepb.Member{
		Cluster: self.Cluster, Node: self.Node, Boot: self.Boot, Started: m.started,
		PeerAddr: self.PeerAddr, ActorAddr: self.ActorAddr, HttpAddr: self.HTTPAddr, OpsAddr: self.OpsAddr,
		Leaving: self.Leaving || m.leaving.Load(), Version: self.Version, Level: self.Level,
	}
}

// logWriter forwards the log of memberlist. Most of it is only useful for debugging the gossip. Errors, which may come with every
// packet, are logged as warnings at a limited rate.
type logWriter struct {
	log  *slog.Logger
	life context.Context //nolint:containedctx // after its end, errors are expected
	last atomic.Int64    // Unix seconds of the last warning
}

const errorPause = 10 // seconds

var _ io.Writer = (*logWriter)(nil)

// Write implements io.Writer.
func (w *logWriter) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	level := slog.LevelDebug
	now, last := time.Now().Unix(), w.last.Load()
	if strings.Contains(text, "[ERR]") && w.life.Err() == nil && now-last >= errorPause && w.last.CompareAndSwap(last, now) {
		level = slog.LevelWarn
	}
	if _, after, found := strings.Cut(text, "memberlist: "); found {
		text = after
	}
	w.log.Log(context.Background(), level, "gossip", slog.String("said", text))
	return len(line), nil
}
