package balance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/cluster"
	"parley/cluster/shard"
	"parley/proto/nodepb"
)

// fleet is a cluster that obeys calls as nodes do, and reports every second and at each change.
type fleet struct {
	t     *testing.T
	count int

	mu       sync.Mutex
	nodes    map[string]*fakeNode
	groups   []*fakeGroup
	records  map[string]Record
	boards   map[string]*cluster.Board
	calls    []string
	fail     func(call string) error // nil = nothing fails
	random   *rand.Rand
	sequence uint64
}

type fakeNode struct {
	id     uint64
	live   bool
	copies map[int]bool
	cut    []uint64 // nodes that it does not reach
	delay  uint32   // of its log, in milliseconds
}

type fakeGroup struct {
	leader           uint64
	epoch, applied   uint64
	voters, learners []uint64
	fed              map[uint64]time.Time // when a member has everything
	turns            uint32
}

func newFleet(t *testing.T, count int, names ...string) *fleet {
	t.Helper()
	f := &fleet{
		t: t, count: count, nodes: map[string]*fakeNode{}, records: map[string]Record{}, boards: map[string]*cluster.Board{},
		random: rand.New(rand.NewPCG(1, 2)),
	}
	for i, name := range names {
		f.nodes[name] = &fakeNode{id: uint64(i + 1), live: true, copies: map[int]bool{}}
		f.boards[name] = cluster.NewBoard(cluster.BoardConfig{Self: name, Owners: &cluster.Owners{}})
	}
	for in := range count + 1 {
		f.groups = append(f.groups, &fakeGroup{leader: 1, epoch: 1, voters: []uint64{1}, fed: map[uint64]time.Time{}})
		f.nodes[names[0]].copies[in] = true
	}
	return f
}

func (f *fleet) nameLocked(id uint64) string {
	for name, n := range f.nodes {
		if n.id == id {
			return name
		}
	}
	return ""
}

// report posts what every node holds on every board.
func (f *fleet) report() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sequence++
	var live []cluster.Member
	for name, n := range f.nodes {
		if n.live {
			live = append(live, cluster.Member{Name: name, Node: n.id, Boot: fmt.Sprint(n.id)})
		}
	}
	for _, board := range f.boards {
		board.Members(live)
		for name, n := range f.nodes {
			if n.live {
				board.Report(f.reportOf(name, n))
			}
		}
	}
}

func (f *fleet) reportOf(name string, n *fakeNode) *nodepb.Report {
	made := &nodepb.Report{Node: n.id, Name: name, Boot: fmt.Sprint(n.id), Sequence: f.sequence, DiskFree: 1 << 40, Unreached: n.cut, LogDelayMs: n.delay}
	for _, in := range slices.Sorted(maps.Keys(n.copies)) {
		g := f.groups[in]
		r := &nodepb.Replica{Shard: uint32(in), Epoch: g.epoch, Applied: g.applied, Initialised: true}
		if g.leader == n.id {
			r.Leading, r.Voters, r.Learners, r.Turns = true, g.voters, g.learners, g.turns
			for _, id := range slices.Concat(g.voters, g.learners) {
				lag := &nodepb.Lag{Node: id, Active: f.nodes[f.nameLocked(id)] != nil && f.nodes[f.nameLocked(id)].live}
				lag.Active = lag.Active && !slices.Contains(n.cut, id)
				if time.Now().Before(g.fed[id]) {
					lag.Entries = 5000
				}
				r.Lags = append(r.Lags, lag)
			}
		}
		made.Replicas = append(made.Replicas, r)
	}
	return made
}

var errRefused = errors.New("refused")

// Call is the router of every loop.
func (f *fleet) Call(_ context.Context, node string, request proto.Message) (proto.Message, error) {
	time.Sleep(10 * time.Millisecond)
	defer f.report()
	f.mu.Lock()
	defer f.mu.Unlock()
	call := fmt.Sprintf("%s: %v", node, request)
	f.calls = append(f.calls, call)
	at := f.nodes[node]
	if at == nil || !at.live {
		return nil, errRefused
	}
	if f.fail != nil {
		if err := f.fail(call); err != nil {
			return nil, err
		}
	}
	return &nodepb.Done{}, f.obeyLocked(at, request)
}

func (f *fleet) obeyLocked(at *fakeNode, request proto.Message) error {
	switch r := request.(type) {
	case *nodepb.ChangeMembers:
		g := f.groups[r.GetShard()]
		if g.leader != at.id || !slices.Equal(g.voters, r.GetExpectVoters()) || !slices.Equal(g.learners, r.GetExpectLearners()) {
			return errRefused
		}
		g.applied++
		f.changeLocked(g, r)
	case *nodepb.TransferLeader:
		g := f.groups[r.GetShard()]
		if g.leader != at.id || !slices.Contains(g.voters, r.GetTo()) || r.GetAtRest() && g.turns > 0 {
			return errRefused
		}
		g.leader, g.epoch = r.GetTo(), g.epoch+1
	case *nodepb.DropReplica:
		require.NotContains(f.t, f.groups[r.GetShard()].voters, at.id)
		delete(at.copies, int(r.GetShard()))
	}
	return nil
}

func (f *fleet) changeLocked(g *fakeGroup, r *nodepb.ChangeMembers) {
	drop := func(list []uint64) []uint64 {
		return slices.DeleteFunc(slices.Clone(list), func(id uint64) bool { return id == r.GetNode() })
	}
	switch r.GetChange() {
	case nodepb.ChangeMembers_ADD_LEARNER:
		g.learners = append(slices.Clone(g.learners), r.GetNode())
		g.fed[r.GetNode()] = time.Now().Add(300 * time.Millisecond)
		f.nodes[f.nameLocked(r.GetNode())].copies[int(r.GetShard())] = true
	case nodepb.ChangeMembers_PROMOTE:
		require.False(f.t, time.Now().Before(g.fed[r.GetNode()]))
		g.learners, g.voters = drop(g.learners), append(slices.Clone(g.voters), r.GetNode())
	case nodepb.ChangeMembers_REMOVE:
		g.learners, g.voters = drop(g.learners), drop(g.voters)
	default:
		require.Fail(f.t, "what change?", "%v", r)
	}
}

// Records and Register are the directory.
func (f *fleet) Records(context.Context) ([]Record, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Values(f.records)), nil
}

func (f *fleet) Register(_ context.Context, name string, node uint64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	record := f.records[name]
	record.Name, record.Node = name, node
	f.records[name] = record
	return nil
}

func (f *fleet) start(name string) *Loop {
	l, err := New(Config{
		Board: f.boards[name], Nodes: f, Router: f, Shards: f.count, Registerer: prometheus.NewRegistry(),
		Leading: func() bool {
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.nodes[name].live && f.groups[0].leader == f.nodes[name].id
		},
	})
	require.NoError(f.t, err)
	l.Start()
	return l
}

// run lets time pass.
func (f *fleet) run(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		f.report()
		time.Sleep(time.Second)
	}
}

func (f *fleet) owners() (all []uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, g := range f.groups {
		all = append(all, g.leader)
	}
	return all
}

func (f *fleet) requireEven(copies int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	leads := map[uint64]int{}
	for in, g := range f.groups {
		require.Len(f.t, g.voters, copies, "shard %d", in)
		leads[g.leader]++
	}
	counts := slices.Collect(maps.Values(leads))
	require.LessOrEqual(f.t, slices.Max(counts)-slices.Min(counts), 1, "%v", leads)
}

func TestAClusterForms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 16, "n1", "n2", "n3")
		for _, name := range []string{"n1", "n2", "n3"} {
			defer f.start(name).Stop()
		}
		f.run(30 * time.Second)
		f.requireEven(3)
		require.Len(t, f.records, 3)
		calls := len(f.calls)
		f.run(time.Minute)
		require.Len(t, f.calls, calls, "and then all is quiet")
	})
}

// TestPlacementGoesOnElsewhere: the node where it runs dies in the middle, and calls fail at random.
func TestPlacementGoesOnElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 16, "n1", "n2", "n3", "n4")
		f.fail = func(string) error {
			if f.random.IntN(4) == 0 {
				return errRefused
			}
			return nil
		}
		for _, name := range []string{"n1", "n2", "n3", "n4"} {
			defer f.start(name).Stop()
		}
		f.run(3 * time.Minute)
		f.requireEven(3)

		f.mu.Lock()
		lead := f.nameLocked(f.groups[0].leader)
		f.nodes[lead].live = false
		gone := f.nodes[lead].id
		for _, g := range f.groups {
			if g.leader == gone {
				g.leader = g.voters[slices.IndexFunc(g.voters, func(id uint64) bool { return id != gone })]
				g.epoch++
			}
		}
		f.mu.Unlock()
		f.run(4 * time.Minute)
		require.True(t, slices.ContainsFunc(f.groups, func(g *fakeGroup) bool { return slices.Contains(g.voters, gone) }), "it may come back")
		f.run(5 * time.Minute)
		f.requireEven(3)
		for _, g := range f.groups {
			require.NotContains(t, slices.Concat(g.voters, g.learners), gone)
		}

		f.mu.Lock()
		f.nodes[lead].live = true
		f.mu.Unlock()
		f.run(3 * time.Minute)
		f.requireEven(3)

		f.mu.Lock()
		record := f.records["n2"]
		record.Draining = true
		f.records["n2"] = record
		f.mu.Unlock()
		f.run(3 * time.Minute)
		f.requireEven(3)
		require.Empty(t, f.nodes["n2"].copies)
	})
}

// TestBalanceWaitsForTurns: after a pause a node gets back first what is at rest, and the rest when its turns have ended, or after a
// while.
func TestBalanceWaitsForTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 16, "n1", "n2", "n3")
		for _, name := range []string{"n1", "n2", "n3"} {
			defer f.start(name).Stop()
		}
		f.run(30 * time.Second)
		f.requireEven(3)
		f.mu.Lock()
		returned := uint64(1)
		if f.groups[0].leader == returned {
			returned = 2
		}
		others := slices.DeleteFunc([]uint64{1, 2, 3}, func(id uint64) bool { return id == returned })
		quiet := 0
		for i, g := range f.groups[1:] { // others have taken them over while it paused
			if g.leader == returned {
				g.leader, g.epoch = others[i%2], g.epoch+1
			}
			if g.turns = 3; quiet < 2 {
				g.turns, quiet = 0, quiet+1
			}
		}
		f.mu.Unlock()
		led := func(turns bool) (n int) {
			f.mu.Lock()
			defer f.mu.Unlock()
			for _, g := range f.groups[1:] {
				if g.leader == returned && turns == (g.turns > 0) {
					n++
				}
			}
			return n
		}
		f.run(20 * time.Second)
		require.Equal(t, 2, led(false))
		require.Zero(t, led(true), "no turn was cut")
		f.mu.Lock()
		for _, g := range f.groups[1:] {
			if g.leader != returned {
				g.turns = 0 // one has ended
				break
			}
		}
		f.mu.Unlock()
		f.run(5 * time.Second)
		require.Equal(t, 3, led(false))
		require.Zero(t, led(true))
		f.run(20 * time.Second)
		f.requireEven(3)
	})
}

// TestSlowLogsLeadNothing: a node whose log is much slower than those of others leads nothing, and for longer each time: once it leads
// nothing it seems well.
func TestSlowLogsLeadNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 16, "n1", "n2", "n3")
		for _, name := range []string{"n1", "n2", "n3"} {
			defer f.start(name).Stop()
		}
		delay := func(n1, n2, n3 uint32) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.nodes["n1"].delay, f.nodes["n2"].delay, f.nodes["n3"].delay = n1, n2, n3
		}
		leads := func() string {
			f.mu.Lock()
			defer f.mu.Unlock()
			var count [3]int
			for _, g := range f.groups {
				count[g.leader-1]++
			}
			slices.Sort(count[:])
			return fmt.Sprint(count)
		}
		const even, without = "[5 6 6]", "[0 8 9]"
		delay(600, 700, 650)
		f.run(time.Minute)
		require.Equal(t, even, leads(), "all are slow")
		delay(5, 150, 10)
		f.run(time.Minute)
		require.Equal(t, even, leads(), "not by much")
		delay(5, 600, 10)
		f.run(2 * time.Second)
		delay(5, 10, 10)
		f.run(10 * time.Second)
		require.Equal(t, even, leads(), "for a moment")

		delay(5, 600, 10)
		f.run(20 * time.Second)
		require.Equal(t, without, leads())
		require.NotContains(t, f.owners(), uint64(2))
		delay(5, 10, 10)
		f.run(50 * time.Second)
		require.Equal(t, without, leads())
		f.run(40 * time.Second)
		require.Equal(t, even, leads())

		delay(5, 600, 10)
		f.run(20 * time.Second)
		delay(5, 0, 10) // nothing was written
		f.run(110 * time.Second)
		require.Equal(t, without, leads(), "it was slow before")
		f.run(40 * time.Second)
		require.Equal(t, even, leads())
	})
}

// TestWellLogsAreForgotten: the loop remembers logs that are slow or were of late, not every node it ever saw.
func TestWellLogsAreForgotten(t *testing.T) {
	loop := &Loop{config: Config{Settle: 3 * time.Second, Logger: slog.New(slog.DiscardHandler)}, logs: map[shard.NodeID]slowLog{}}
	now := time.Now()
	judge := func(delay time.Duration, nodes ...shard.NodeID) (slow bool) {
		seen := &observation{delays: map[shard.NodeID]time.Duration{1: delay}}
		for _, id := range nodes {
			seen.view.Nodes = append(seen.view.Nodes, shard.Node{ID: id, Live: true})
			seen.delays[max(id, 2)] = time.Millisecond
		}
		loop.judgeLogs(seen, now)
		return seen.view.Nodes[0].Slow
	}
	require.False(t, judge(time.Millisecond, 1, 2, 3))
	require.Empty(t, loop.logs, "all are well")
	for range 5 {
		now = now.Add(time.Second)
		judge(time.Second, 1, 2, 3)
	}
	require.True(t, judge(time.Millisecond, 1, 2, 3))
	require.Len(t, loop.logs, 1)
	now = now.Add(slowHold + slowForgotten/2)
	require.False(t, judge(time.Millisecond, 1, 2, 3))
	require.Equal(t, 1, loop.logs[1].times, "it may be slow again")
	now = now.Add(slowForgotten)
	judge(0, 2, 3) // and it has left the cluster
	require.Empty(t, loop.logs)
}

// TestTheDirectoryIsLedByWhoReachesAll: while the way between two nodes is broken for longer than a moment, and nothing
// else moves for it.
func TestTheDirectoryIsLedByWhoReachesAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 16, "n1", "n2", "n3")
		for _, name := range []string{"n1", "n2", "n3"} {
			defer f.start(name).Stop()
		}
		f.run(30 * time.Second)
		f.requireEven(3)
		cut := func(is bool, pair ...string) {
			f.mu.Lock()
			for i, name := range pair {
				f.nodes[name].cut = nil
				if is {
					f.nodes[name].cut = []uint64{f.nodes[pair[1-i]].id}
				}
			}
			f.mu.Unlock()
			f.report()
		}
		f.mu.Lock()
		leader := f.nameLocked(f.groups[0].leader)
		f.mu.Unlock()
		others := slices.DeleteFunc([]string{"n1", "n2", "n3"}, func(name string) bool { return name == leader })
		calls := len(f.calls)
		cut(true, others...)
		f.run(10 * time.Second)
		cut(false, others...)
		cut(true, leader, others[0])
		time.Sleep(900 * time.Millisecond)
		cut(false, leader, others[0])
		f.run(10 * time.Second)
		require.Len(t, f.calls, calls, "the others' broken way, or one of a moment, is no reason")

		cut(true, leader, others[0])
		f.run(3 * time.Second)
		require.Equal(t, f.nodes[others[1]].id, f.groups[0].leader)
		f.run(2 * time.Minute)
		require.Equal(t, f.nodes[others[1]].id, f.groups[0].leader, "nor is it handed back to be even")
		require.LessOrEqual(t, len(f.calls), calls+2, "%v", f.calls[calls:]) // it, and another shard to be even
		cut(false, leader, others[0])
		f.run(time.Minute)
		f.requireEven(3)
	})
}

// TestNothingIsHandedToADyingNode: a node that was just killed still counts as there, and seems to lead too little.
func TestNothingIsHandedToADyingNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 16, "n1", "n2", "n3")
		for _, name := range []string{"n1", "n2", "n3"} {
			defer f.start(name).Stop()
		}
		f.run(time.Minute)
		f.requireEven(3)
		f.mu.Lock()
		lead := f.groups[0].leader
		dying := lead%3 + 1
		for in, g := range f.groups {
			if g.leader == dying {
				g.leader, g.epoch = dying%3+1, g.epoch+1
				require.NotZero(t, in)
			}
		}
		before := len(f.calls)
		f.mu.Unlock()
		f.run(2500 * time.Millisecond)
		require.Len(t, f.calls, before)
		// It was only slow.
		f.run(time.Minute)
		f.requireEven(3)
	})
}

func TestAShardThatRefusesIsLeftAloneForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1, "n1", "n2")
		f.fail = func(string) error { return errRefused }
		l := f.start("n1")
		defer l.Stop()
		f.run(2 * time.Minute)
		// Pauses of 1, 2, 4 ... 30 s for each of the two.
		require.InDelta(t, 2*8, len(f.calls), 4)
		status := l.Status()
		require.True(t, status.Acting)
		require.Positive(t, status.Pending)
		require.Len(t, status.Nodes, 2)
		last := status.Done[len(status.Done)-1]
		require.ErrorIs(t, last.Err, errRefused)
		require.Contains(t, last.Step, "add_learner n2")

		f.mu.Lock()
		f.fail = nil
		f.mu.Unlock()
		f.run(time.Minute)
		require.Equal(t, []uint64{2}, f.groups[1].learners)
	})
}

func TestConfigIsChecked(t *testing.T) {
	_, err := New(Config{})
	require.ErrorContains(t, err, "required")
	good := Config{
		Board: cluster.NewBoard(cluster.BoardConfig{}), Nodes: &fleet{}, Router: &fleet{}, Leading: func() bool { return false }, Shards: 1,
	}
	bad := good
	bad.Policy = shard.DefaultPolicy()
	bad.Policy.Replication = 2
	_, err = New(bad)
	require.ErrorContains(t, err, "odd")
	bad = good
	bad.Retry = -1
	_, err = New(bad)
	require.ErrorContains(t, err, "negative")
	l, err := New(good)
	require.NoError(t, err)
	l.Stop()
	l.Start()
	l.Stop()
	l.Stop()
}
