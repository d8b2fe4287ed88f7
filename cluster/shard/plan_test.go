package shard_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"parley/cluster/shard"
)

// model is a cluster that obeys steps, as far as they may be obeyed.
type model struct {
	t      require.TestingT
	policy shard.Policy
	count  int
	nodes  map[string]*modelNode
	groups []*modelGroup
	lastID shard.NodeID
	steps  int
}

type modelNode struct {
	shard.Node
	copies map[shard.ID]bool // shards that it has data of
}

type modelGroup struct {
	id               shard.ID
	leader           shard.NodeID // 0 = none
	epoch            shard.Epoch
	voters, learners []shard.NodeID
	lag              map[shard.NodeID]uint64 // of members; what is not here has everything
}

func newModel(t require.TestingT, count int, policy shard.Policy) *model {
	m := &model{t: t, policy: policy, count: count, nodes: map[string]*modelNode{}}
	first := m.join("n1")
	for in := range shard.ID(count + 1) {
		m.groups = append(m.groups, &modelGroup{
			id: in, leader: first.ID, epoch: 1, voters: []shard.NodeID{first.ID}, lag: map[shard.NodeID]uint64{},
		})
		first.copies[in] = true
	}
	return m
}

func (m *model) join(name string) *modelNode {
	m.lastID++
	n := &modelNode{Node: shard.Node{ID: m.lastID, Name: name, Live: true}, copies: map[shard.ID]bool{}}
	m.nodes[name] = n
	return n
}

func (m *model) names() []string { return slices.Sorted(maps.Keys(m.nodes)) }

func (m *model) node(id shard.NodeID) *modelNode {
	for _, n := range m.nodes {
		if n.ID == id {
			return n
		}
	}
	return nil
}

func (m *model) live(id shard.NodeID) bool {
	n := m.node(id)
	return n != nil && n.Live
}

func (g *modelGroup) members() []shard.NodeID { return slices.Concat(g.voters, g.learners) }

// good says that a member is there and has everything that was ever acknowledged.
func (m *model) good(g *modelGroup, id shard.NodeID) bool {
	return m.live(id) && g.lag[id] <= m.policy.CaughtUp
}

func (m *model) majority(g *modelGroup, voters []shard.NodeID) bool {
	n := 0
	for _, id := range voters {
		if m.good(g, id) {
			n++
		}
	}
	return n > len(voters)/2
}

// settle elects leaders where they are gone, feeds those that are behind, and gives members their data.
func (m *model) settle() {
	for _, g := range m.groups {
		if !m.live(g.leader) || !slices.Contains(g.voters, g.leader) || !m.majority(g, g.voters) {
			g.leader = 0
		}
		if g.leader == 0 && m.majority(g, g.voters) {
			g.leader = g.voters[slices.IndexFunc(g.voters, func(id shard.NodeID) bool { return m.good(g, id) })]
			g.epoch++
		}
		if g.leader == 0 {
			continue
		}
		for _, id := range g.members() {
			if !m.live(id) {
				continue
			}
			m.node(id).copies[g.id] = true
			if g.lag[id] > 0 {
				g.lag[id] -= min(g.lag[id], 5000)
			}
		}
	}
}

func (m *model) view() shard.View {
	v := shard.View{Count: m.count}
	for _, name := range m.names() {
		n := m.nodes[name]
		v.Nodes = append(v.Nodes, n.Node)
		for in := range n.copies {
			if n.Live {
				v.Replicas = append(v.Replicas, shard.Replica{Shard: in, Node: n.ID, Initialised: true})
			}
		}
	}
	for _, g := range m.groups {
		if g.leader == 0 {
			continue
		}
		seen := shard.Group{
			Shard: g.id, Leader: g.leader, Epoch: g.epoch, Voters: g.voters, Learners: g.learners,
			Bytes: uint64(g.id%2) << 30, // every other shard is a large one
		}
		for _, id := range g.members() {
			if id != g.leader {
				seen.Lags = append(seen.Lags, shard.Lag{Node: id, Entries: g.lag[id], Active: m.live(id)})
			}
		}
		v.Groups = append(v.Groups, seen)
	}
	return v
}

func without(list []shard.NodeID, id shard.NodeID) []shard.NodeID {
	return slices.DeleteFunc(slices.Clone(list), func(other shard.NodeID) bool { return other == id })
}

// obey makes a step and fails the test when it is not safe.
func (m *model) obey(s shard.Step) {
	m.steps++
	g := m.groups[s.Shard]
	require.Equal(m.t, g.leader, s.Leader, "%+v", s)
	require.Equal(m.t, g.voters, s.Voters, "%+v", s)
	require.Equal(m.t, g.learners, s.Learners, "%+v", s)
	member := slices.Contains(g.members(), s.Node)
	switch s.Change {
	case shard.AddLearner:
		require.False(m.t, member, "%+v", s)
		require.True(m.t, m.live(s.Node), "%+v", s)
		g.learners = append(slices.Clone(g.learners), s.Node)
		if !m.node(s.Node).copies[g.id] {
			g.lag[s.Node] = 12_000
		}
	case shard.Promote:
		require.Contains(m.t, g.learners, s.Node, "%+v", s)
		require.True(m.t, m.good(g, s.Node), "%+v", s)
		g.learners, g.voters = without(g.learners, s.Node), append(slices.Clone(g.voters), s.Node)
		require.True(m.t, m.majority(g, g.voters), "%+v", s)
	case shard.Remove:
		require.True(m.t, member, "%+v", s)
		require.NotEqual(m.t, g.leader, s.Node, "%+v", s)
		g.learners, g.voters = without(g.learners, s.Node), without(g.voters, s.Node)
		require.True(m.t, m.majority(g, g.voters), "%+v", s)
	case shard.Transfer:
		require.Contains(m.t, g.voters, s.Node, "%+v", s)
		require.True(m.t, m.good(g, s.Node), "%+v", s)
		g.leader, g.epoch = s.Node, g.epoch+1
	case shard.Drop:
		require.False(m.t, member, "%+v", s)
		require.True(m.t, m.node(s.Node).copies[g.id], "%+v", s)
		delete(m.node(s.Node).copies, g.id)
	}
}

// round plans and makes the steps, or only the first few of them: placement may stop anywhere.
func (m *model) round(most int) int {
	steps := shard.Plan(m.view(), m.policy)
	seen := map[shard.ID]bool{}
	for _, s := range steps {
		require.False(m.t, seen[s.Shard], "two steps of one shard: %+v", steps)
		seen[s.Shard] = true
	}
	for _, s := range steps[:min(most, len(steps))] {
		m.obey(s)
		if s.Change == shard.AddLearner {
			require.LessOrEqual(m.t, m.feeding(), 8*m.policy.MaxFeeding, "too many copies at a time: %+v", steps)
		}
	}
	m.settle()
	return len(steps)
}

// feeding counts the copies that are being filled, small ones as one, large ones as eight.
func (m *model) feeding() int {
	n := 0
	for _, g := range m.groups {
		for _, id := range g.learners {
			if m.live(id) && g.lag[id] > m.policy.CaughtUp && g.leader != 0 {
				n += 1 + 7*int(g.id%2)
			}
		}
	}
	return n
}

// converge plans until there is nothing left to do.
func (m *model) converge() {
	idle := 0
	for range 200 + 40*(m.count+1) {
		if m.round(1_000) > 0 {
			idle = 0
			continue
		}
		if idle++; idle == 5 { // the last copies may still be fed
			return
		}
	}
	require.Fail(m.t, "does not converge", "%+v", shard.Plan(m.view(), m.policy))
}

// requireShape checks what the policy promises. away are nodes that do not come back.
func (m *model) requireShape() {
	var usable, staying []shard.NodeID
	for _, name := range m.names() {
		n := m.nodes[name]
		if !n.Draining {
			staying = append(staying, n.ID)
			if n.Live {
				usable = append(usable, n.ID)
			}
		}
	}
	odd := func(n int) int { return n - (n+1)%2 }
	copies := min(m.policy.Replication, len(usable))
	votes := odd(min(m.policy.Replication, len(staying)))
	load, leaders := map[shard.NodeID]int{}, map[shard.NodeID]int{}
	for _, g := range m.groups {
		require.NotZero(m.t, g.leader)
		leaders[g.leader]++
		there := 0
		for _, id := range g.members() {
			if slices.Contains(usable, id) {
				there++
				require.LessOrEqual(m.t, g.lag[id], m.policy.CaughtUp)
			}
			require.Contains(m.t, staying, id, "shard %d has a copy on a drained or lost node", g.id)
		}
		if g.id == shard.Directory {
			require.Equal(m.t, len(usable), there, "the directory is everywhere")
		} else {
			require.Equal(m.t, copies, there, "shard %d: %v %v", g.id, g.voters, g.learners)
			for _, id := range g.members() {
				load[id]++
			}
		}
		require.Equal(m.t, 1, len(g.voters)%2, "shard %d votes evenly: %v", g.id, g.voters)
		if len(usable) >= votes {
			require.Len(m.t, g.voters, votes)
		}
	}
	for _, n := range m.nodes {
		for in := range n.copies {
			require.False(m.t, n.Live && !slices.Contains(m.groups[in].members(), n.ID), "%s keeps shard %d", n.Name, in)
		}
	}
	spread := func(what string, counts map[shard.NodeID]int) {
		var all []int
		for _, id := range usable {
			all = append(all, counts[id])
		}
		require.LessOrEqual(m.t, slices.Max(all)-slices.Min(all), 2, "%s: %v", what, counts)
		if what == "leaders" {
			require.LessOrEqual(m.t, slices.Max(all)-slices.Min(all), 1, "%s: %v", what, counts)
		}
	}
	spread("copies", load)
	if copies%2 == 1 && len(usable) >= votes {
		spread("leaders", leaders)
	}
}

func (m *model) quiet() {
	for _, n := range m.nodes {
		n.Leaving = false
		if !n.Live {
			n.Away = time.Hour
		}
	}
}

func TestGrowingAndShrinking(t *testing.T) {
	for _, replication := range []int{1, 3, 5, 7} {
		for _, count := range []int{1, 4, 16, 64} {
			if count == 64 && replication != 3 {
				continue // slow, and the history test has it
			}
			t.Run(fmt.Sprintf("replication_%d_shards_%d", replication, count), func(t *testing.T) {
				policy := shard.DefaultPolicy()
				policy.Replication = replication
				m := newModel(t, count, policy)
				m.converge()
				require.Zero(t, m.steps, "alone, there is nothing to do")
				for n := 2; n <= 7; n++ {
					m.join(fmt.Sprint("n", n))
					m.converge()
					m.requireShape()
				}
				for n := 7; n >= 2; n-- {
					m.nodes[fmt.Sprint("n", n)].Draining = true
					m.converge()
					m.requireShape()
				}
			})
		}
	}
}

// TestMovesNoMoreThanItMust: a fourth node gets its share and nothing else moves; then nothing moves at all.
func TestMovesNoMoreThanItMust(t *testing.T) {
	m := newModel(t, 16, shard.DefaultPolicy())
	m.join("n2")
	m.join("n3")
	m.converge()
	m.steps = 0
	n4 := m.join("n4")
	m.converge()
	m.requireShape()
	require.InDelta(t, 12.5, len(n4.copies), 0.5, "its 11 or 12 of 16 shards, and the directory")
	// A move is four steps; the directory one, or four when its vote moves; leaders move besides.
	require.LessOrEqual(t, m.steps, 13*4+8)
	m.steps = 0
	m.converge()
	require.Zero(t, m.steps)
}

func TestARestartMovesNothing(t *testing.T) {
	m := newModel(t, 16, shard.DefaultPolicy())
	m.join("n2")
	m.join("n3")
	m.converge()
	n2 := m.nodes["n2"]
	n2.Leaving = true
	require.Empty(t, shard.Plan(m.view(), m.policy))
	n2.Leaving, n2.Live = false, false
	m.settle()
	require.Empty(t, shard.Plan(m.view(), m.policy))
	n2.Away = time.Minute
	for _, s := range shard.Plan(m.view(), m.policy) {
		require.Equal(t, shard.Transfer, s.Change, "two nodes lead evenly now: %+v", s)
	}
	n2.Live, n2.Away = true, 0
	m.converge()
	m.requireShape()
}

func TestTheDeadAreReplaced(t *testing.T) {
	m := newModel(t, 16, shard.DefaultPolicy())
	for n := 2; n <= 4; n++ {
		m.join(fmt.Sprint("n", n))
	}
	m.converge()
	n2 := m.nodes["n2"]
	n2.Live = false
	n2.Away = 4 * time.Minute
	m.converge()
	for _, g := range m.groups {
		require.Len(t, g.voters, 3)
	}
	require.NotEmpty(t, n2.copies)
	n2.Away = 6 * time.Minute
	m.converge()
	for _, g := range m.groups {
		require.Len(t, g.voters, 3)
		require.NotContains(t, g.members(), n2.ID, "shard %d", g.id)
	}
	n2.Live, n2.Away = true, 0
	m.converge()
	m.requireShape()

	// With nobody to take its place a dead node keeps its votes.
	for _, name := range []string{"n3", "n4"} {
		m.nodes[name].Draining = true
		m.converge()
	}
	m.requireShape()
}

func TestALostDiskIsReplacedAtOnce(t *testing.T) {
	m := newModel(t, 16, shard.DefaultPolicy())
	m.join("n2")
	m.join("n3")
	m.converge()
	m.join("n2")
	m.settle()
	m.converge()
	m.requireShape()
}

// TestAnEvenNumberOfVotesIsOnlyPassedThrough: two votes survive no more losses than one and need both.
func TestAnEvenNumberOfVotesIsOnlyPassedThrough(t *testing.T) {
	m := newModel(t, 4, shard.DefaultPolicy())
	m.join("n2")
	m.converge()
	n3 := m.join("n3")
	m.round(1_000)
	for _, g := range m.groups {
		g.lag[n3.ID] = 1 << 40 // it does not catch up
	}
	m.converge()
	for _, g := range m.groups {
		require.Len(t, g.voters, 1)
	}
	for _, g := range m.groups {
		g.lag[n3.ID] = 0
	}
	m.converge()
	m.requireShape()
}

// TestACompleteCopyIsNotRemovedWhileOthersAreBehind, though its node is drained.
func TestACompleteCopyIsNotRemovedWhileOthersAreBehind(t *testing.T) {
	view := shard.View{Count: 1, Groups: []shard.Group{{
		Shard: 1, Leader: 1, Epoch: 1, Voters: []shard.NodeID{1, 2, 3, 4},
		Lags: []shard.Lag{{Node: 2, Entries: 5000, Active: true}, {Node: 3, Entries: 5000, Active: true}, {Node: 4, Active: true}},
	}}}
	for id := shard.NodeID(1); id <= 4; id++ {
		view.Nodes = append(view.Nodes, shard.Node{ID: id, Name: fmt.Sprint("n", id), Live: true, Draining: id == 4})
		view.Replicas = append(view.Replicas, shard.Replica{Shard: 1, Node: id, Epoch: 1, Initialised: true})
	}
	require.Empty(t, shard.Plan(view, shard.DefaultPolicy()))
	view.Groups[0].Lags[0].Entries = 0
	steps := shard.Plan(view, shard.DefaultPolicy())
	require.Len(t, steps, 1)
	require.Equal(t, shard.Remove, steps[0].Change)
	require.Equal(t, shard.NodeID(4), steps[0].Node)
}

func TestAFullDiskTakesNothing(t *testing.T) {
	m := newModel(t, 4, shard.DefaultPolicy())
	m.join("n2").Free = 1 << 20
	m.converge()
	require.Zero(t, m.steps)
	m.nodes["n2"].Free = 1 << 40
	m.converge()
	m.requireShape()
}

func TestBusyShardsAreLeftAlone(t *testing.T) {
	m := newModel(t, 4, shard.DefaultPolicy())
	m.join("n2")
	m.policy.Busy = map[shard.ID]bool{0: true, 1: true, 2: true, 3: true}
	steps := shard.Plan(m.view(), m.policy)
	require.Len(t, steps, 1)
	require.Equal(t, shard.ID(4), steps[0].Shard)
	require.Equal(t, "add_learner", steps[0].Change.String())
	require.Equal(t, "a copy is missing", steps[0].Why)
}

// TestNothingIsMovedOnHalfAView: what is not known is not taken for empty.
func TestNothingIsMovedOnHalfAView(t *testing.T) {
	m := newModel(t, 16, shard.DefaultPolicy())
	for n := 2; n <= 4; n++ {
		m.join(fmt.Sprint("n", n))
	}
	m.converge()
	view := m.view()
	view.Groups = view.Groups[:9]
	require.Empty(t, shard.Plan(view, m.policy))
	view.Groups, view.Replicas = nil, nil
	require.Empty(t, shard.Plan(view, m.policy))
	require.Empty(t, shard.Plan(shard.View{Count: 16}, m.policy))
}

// TestAnyHistory: whatever happens to nodes in whatever order, no step is unsafe, and when things calm down the cluster
// looks as it should.
func TestAnyHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		policy := shard.DefaultPolicy()
		policy.Replication = rapid.SampledFrom([]int{1, 3, 3, 5, 7}).Draw(t, "replication")
		count := rapid.SampledFrom([]int{1, 3, 8, 16, 64}).Draw(t, "shards")
		m := newModel(t, count, policy)
		nodes := rapid.IntRange(1, 7).Draw(t, "nodes")
		for n := 2; n <= nodes; n++ {
			m.join(fmt.Sprint("n", n))
		}
		if rapid.Bool().Draw(t, "formed") {
			m.converge()
			m.requireShape()
		}
		name := rapid.Custom(func(t *rapid.T) *modelNode { return m.nodes[rapid.SampledFrom(m.names()).Draw(t, "name")] })
		for range rapid.IntRange(0, 30).Draw(t, "events") {
			m.event(t, name.Draw(t, "node"))
			m.round(rapid.IntRange(0, 5).Draw(t, "made"))
		}
		m.revive(t)
		m.quiet()
		m.converge()
		m.requireShape()
	})
}

func (m *model) event(t *rapid.T, n *modelNode) {
	switch rapid.SampledFrom([]string{"kill", "start", "leave", "wait", "drain", "undrain", "lose", "join", "nothing"}).Draw(t, "event") {
	case "kill":
		n.Live, n.Away, n.Leaving = false, 0, false
	case "start":
		n.Live, n.Away, n.Leaving = true, 0, false
	case "leave":
		n.Leaving = n.Live
	case "wait":
		for _, n := range m.nodes {
			if !n.Live {
				n.Away += 3 * time.Minute
			}
		}
	case "drain":
		n.Draining = m.staying() > 1 || n.Draining
	case "undrain":
		n.Draining = false
	case "lose":
		m.lose(n)
	case "join":
		if len(m.nodes) < 7 {
			m.join(fmt.Sprint("n", len(m.nodes)+1))
		}
	}
	m.settle()
}

func (m *model) staying() int {
	n := 0
	for _, node := range m.nodes {
		if !node.Draining {
			n++
		}
	}
	return n
}

// lose takes the disk of a node, unless that is more than any placement could stand.
func (m *model) lose(n *modelNode) {
	for _, g := range m.groups {
		rest, good := without(g.voters, n.ID), 0
		for _, id := range rest {
			if node := m.node(id); node != nil && g.lag[id] <= m.policy.CaughtUp {
				good++
			}
		}
		if slices.Contains(g.voters, n.ID) && good <= len(g.voters)/2 {
			return
		}
	}
	draining := n.Draining
	m.join(n.Name).Draining = draining
}

// revive starts all nodes, or leaves some that are not needed away for good.
func (m *model) revive(t *rapid.T) {
	for _, name := range m.names() {
		n := m.nodes[name]
		if n.Live || rapid.Bool().Draw(t, "comes back") {
			n.Live, n.Away = true, 0
		}
	}
	for _, g := range m.groups {
		for _, id := range g.voters {
			if n := m.node(id); n != nil && !m.majority(g, g.voters) {
				n.Live, n.Away = true, 0
			}
		}
	}
	alive := 0
	for _, n := range m.nodes {
		if n.Live && !n.Draining {
			alive++
		}
	}
	if alive == 0 {
		for _, n := range m.nodes {
			n.Live, n.Away = true, 0
		}
	}
	m.settle()
}

// BenchmarkPlan: what a look at a large cluster costs when there is nothing to do, and when a node was added.
func BenchmarkPlan(b *testing.B) {
	for _, count := range []int{16, 1024} {
		policy := shard.DefaultPolicy()
		policy.MaxChanges, policy.MaxTransfers, policy.MaxFeeding = count, count, count
		m := newModel(b, count, policy)
		for n := 2; n <= 7; n++ {
			m.join(fmt.Sprint("n", n))
		}
		m.converge()
		for _, added := range []string{"", "n8"} {
			if added != "" {
				m.join(added)
			}
			view := m.view()
			b.Run(fmt.Sprintf("shards_%d_added_%t", count, added != ""), func(b *testing.B) {
				for b.Loop() {
					_ = shard.Plan(view, policy)
				}
			})
		}
	}
}

// TestEachLeaderIsHandedOverOnce on the way from one node that leads everything.
func TestEachLeaderIsHandedOverOnce(t *testing.T) {
	m := newModel(t, 16, shard.DefaultPolicy())
	m.join("n2")
	m.join("n3")
	m.policy.MaxTransfers = 0
	m.converge()
	m.policy.MaxTransfers = 2
	m.steps = 0
	m.converge()
	m.requireShape()
	require.Equal(t, 11, m.steps)
}

// TestTheDirectoryGoesToNobodyBeyondTheLeadersReach: a node that was just killed counts as live for a moment, has everything, and
// named nobody in its last report.
func TestTheDirectoryGoesToNobodyBeyondTheLeadersReach(t *testing.T) {
	policy := shard.DefaultPolicy()
	m := newModel(t, 1, policy)
	dead, third := m.join("n2"), m.join("n3")
	m.groups[0].voters = []shard.NodeID{1, dead.ID, third.ID}
	dead.copies[0], third.copies[0] = true, true
	m.nodes["n1"].Unreached = []shard.NodeID{dead.ID}
	require.True(t, shard.Outreached(m.view(), policy), "the third still reaches all")
	third.Unreached = []shard.NodeID{dead.ID}
	require.False(t, shard.Outreached(m.view(), policy))
}

func TestASlowNodeLeadsWhereNoOtherCan(t *testing.T) {
	m := newModel(t, 8, shard.DefaultPolicy())
	m.join("n2")
	m.join("n3")
	m.nodes["n2"].Slow = true
	m.converge()
	m.requireNoLeader("n2")
	m.nodes["n1"].Draining, m.nodes["n3"].Draining = true, true
	m.converge()
	m.requireShape()
}

func (m *model) requireNoLeader(name string) {
	for _, g := range m.groups {
		require.NotEqual(m.t, m.nodes[name].ID, g.leader, "shard %d", g.id)
	}
}
