package replica_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"parley/persistence/replica"
)

// TestChaosOfMembers is the test above with members that come, go, hand over and lose their disks. Long form:
//
//	PARLEY_CHAOS_DURATION=10m PARLEY_CHAOS_SEED=1 go test -run ChaosOfMembers -timeout 0 ./persistence/replica
func TestChaosOfMembers(t *testing.T) {
	seed := seedOf(t)
	long, err := time.ParseDuration(os.Getenv("PARLEY_CHAOS_DURATION"))
	if err != nil {
		long = 0
	}
	for begin, first := time.Now(), true; first || time.Since(begin) < long; seed++ {
		first = false
		synctest.Test(t, func(t *testing.T) { newMemberChaos(t, seed).run(t, 60) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// memberChaos plays placement loop and fate.
type memberChaos struct {
	*cluster
	rng     *rand.Rand
	writers *writers
	down    map[replica.NodeID]*vfs.MemFS
	// lost are nodes whose disk is gone: they never come back.
	lost map[replica.NodeID]bool
	next replica.NodeID
	// slow is how long a sync takes on each disk, at most.
	slow map[replica.NodeID]*atomic.Int64
	done map[string]int
}

// slowDisk takes a while between two syncs of the write-ahead log. (To sleep in a sync would stop the clock of the bubble: Pebble waits for it with a
// lock held, at times.)
type slowDisk struct {
	vfs.FS
	most *atomic.Int64
}

func (s *slowDisk) syncInterval() time.Duration {
	if most := s.most.Load(); most > 0 {
		return time.Duration(rand.Int64N(most))
	}
	return 0
}

func newMemberChaos(t *testing.T, seed uint64) *memberChaos {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 11))
	slow := make(map[replica.NodeID]*atomic.Int64)
	for id := range replica.NodeID(64) {
		slow[id] = &atomic.Int64{}
	}
	m := &memberChaos{
		cluster: newCluster(t, seed, 1, shortLogs, func(cfg *replica.Config) {
			// Clocks that run at their own pace.
			cfg.TickInterval = time.Duration(40+rng.IntN(25)) * time.Millisecond
			cfg.SnapshotRate = 1 << (18 + rng.IntN(6))
		}),
		rng: rng, down: make(map[replica.NodeID]*vfs.MemFS), lost: make(map[replica.NodeID]bool), slow: slow, next: 6, done: make(map[string]int),
	}
	m.writers = &writers{nodes: make(map[replica.NodeID]*node), stop: make(chan struct{})}
	m.disk = func(id replica.NodeID, mem *vfs.MemFS) vfs.FS {
		return &slowDisk{FS: mem, most: slow[id]}
	}
	for id := range replica.NodeID(4) {
		m.join(id + 2)
	}
	for id, n := range m.stores {
		m.writers.set(id, n)
	}
	return m
}

func (m *memberChaos) run(t *testing.T, rounds int) {
	t.Helper()
	defer m.close()
	for i := range 6 {
		own := rand.New(rand.NewPCG(m.rng.Uint64(), uint64(i)))
		m.writers.wg.Go(func() { m.writers.run(t, i, own) })
	}
	m.grow(3)
	for range rounds {
		m.fault()
		for range 2 + m.rng.IntN(8) {
			m.step()
		}
		time.Sleep(time.Duration(m.rng.IntN(1500)) * time.Millisecond)
		if m.rng.IntN(3) == 0 {
			m.heal()
		}
	}
	close(m.writers.stop)
	m.writers.wg.Wait()
	m.heal()
	m.grow(len(m.stores))
	m.waitReady()
	m.waitEqual(chaosGroups)
	for id, n := range m.stores {
		m.writers.acks.check(t, id, n.machine)
	}
	t.Logf("%d acknowledged, %v", m.writers.acks.total(), m.done)
	require.Zero(t, m.failures.Load())
	require.Greater(t, m.writers.acks.total(), 100)
}

func (m *memberChaos) heal() {
	m.network.Heal()
	m.network.Disturb(0, 0)
	for _, s := range m.slow {
		s.Store(0)
	}
	for id, mem := range m.down {
		m.start(id, mem)
		m.writers.set(id, m.stores[id])
	}
	clear(m.down)
}

func (m *memberChaos) live() []replica.NodeID {
	return slices.Sorted(maps.Keys(m.stores))
}

func (m *memberChaos) any() replica.NodeID {
	live := m.live()
	if len(live) == 0 {
		m.heal()
		live = m.live()
	}
	return live[m.rng.IntN(len(live))]
}

func (m *memberChaos) crashOne(id replica.NodeID) *vfs.MemFS {
	m.writers.set(id, nil)
	return m.crash(id, m.rng)
}

func (m *memberChaos) fault() {
	victim, other := m.any(), m.any()
	kind := ""
	switch m.rng.IntN(9) {
	case 0:
		kind = "isolated"
		m.network.Isolate(victim)
	case 1:
		kind = "cut one way"
		m.network.Cut(victim, other)
	case 2, 3:
		kind = "crashed"
		m.down[victim] = m.crashOne(victim)
	case 4:
		kind = "all crashed"
		for _, id := range m.live() {
			m.down[id] = m.crashOne(id)
		}
		m.heal()
	case 5:
		kind = "disturbed"
		m.network.Disturb(float64(m.rng.IntN(20))/100, time.Duration(m.rng.IntN(100)+1)*time.Millisecond)
	case 6:
		kind = "slow disk"
		m.slow[victim].Store(int64(m.rng.IntN(800)+1) * int64(time.Millisecond))
	case 7:
		if m.loseDisk(victim) {
			kind = "disk lost"
		}
	case 8:
		kind = "healed"
		m.heal()
	}
	m.done[kind]++
}

// loseDisk takes a node away for ever, once every group can bear it: then a new one comes.
func (m *memberChaos) loseDisk(victim replica.NodeID) bool {
	m.heal()
	if len(m.stores) < 5 || m.next > 60 {
		return false
	}
	for g := range replica.GroupID(chaosGroups) {
		// What is behind an applied write is decided: no change is on its way that could take another voter.
		lead := m.leader(g)
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		err := m.propose(ctx, g, "decided", "yes")
		cancel()
		s, ok := m.status(lead, g)
		if err != nil || !ok || !s.Leading || lead == victim || len(s.Members.Voters) < 3 {
			return false
		}
		for _, l := range s.Lags {
			if !l.Active || m.lost[l.Node] {
				return false
			}
		}
	}
	m.crashOne(victim)
	m.lost[victim] = true
	m.join(m.next)
	m.writers.set(m.next, m.stores[m.next])
	m.next++
	return true
}

// lead is the status of a group as a node sees it that leads it now; false when there is none.
func (m *memberChaos) lead(g replica.GroupID) (replica.NodeID, replica.Status, bool) {
	for _, id := range m.live() {
		if node, _, ok := m.stores[id].driver.Leader(g); ok && node == id {
			s, here := m.status(id, g)
			return id, s, here && s.Leading
		}
	}
	return 0, replica.Status{}, false
}

// step makes one random change to one group, as it was seen last.
func (m *memberChaos) step() {
	g := replica.GroupID(m.rng.IntN(chaosGroups))
	id, s, ok := m.lead(g)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	driver, node := m.stores[id].driver, m.any()
	voter, learner := slices.Contains(s.Members.Voters, node), slices.Contains(s.Members.Learners, node)
	change := replica.Change{Node: node, Expect: &s.Members}
	var err error
	kind := ""
	switch {
	case m.rng.IntN(6) == 0:
		kind = "transfer"
		err = driver.TransferLeader(ctx, g, node)
	case !voter && !learner:
		if s2, here := m.status(node, g); here && m.rng.IntN(2) == 0 {
			kind = "drop"
			asOf := s.Applied
			if m.rng.IntN(3) == 0 {
				asOf = min(asOf, s2.Applied)
			}
			err = m.stores[node].driver.Drop(ctx, g, asOf)
			break
		}
		kind, change.Kind = "add", replica.AddLearner
		err = driver.ChangeMembers(ctx, g, change)
	case learner && m.rng.IntN(4) > 0:
		kind, change.Kind = "promote", replica.Promote
		err = driver.ChangeMembers(ctx, g, change)
	case voter && len(s.Members.Voters) <= 3 && slices.ContainsFunc(s.Members.Voters, func(id replica.NodeID) bool { return m.lost[id] }):
		// Those left would be too few to decide anything: the lost one goes first.
	case learner || len(s.Members.Voters) > 3 || m.rng.IntN(8) == 0:
		kind, change.Kind = "remove", replica.Remove
		err = driver.ChangeMembers(ctx, g, change)
	}
	for _, gone := range s.Members.Voters {
		if m.lost[gone] && err == nil {
			change.Kind, change.Node, change.Expect = replica.Remove, gone, nil
			kind, err = "replace", driver.ChangeMembers(ctx, g, change)
		}
	}
	if err == nil && kind != "" {
		m.done[kind]++
	}
}

// grow makes as many live nodes voters of every group as asked, and removes the lost ones.
func (m *memberChaos) grow(voters int) {
	for g := range replica.GroupID(chaosGroups) {
		var last error
		begin := time.Now()
		m.eventually("members", func() bool {
			if time.Since(begin) > 100*time.Second {
				m.tell(g, last)
				begin = time.Now()
			}
			id, s, ok := m.lead(g)
			if !ok {
				return false
			}
			change := replica.Change{Expect: &s.Members}
			for _, node := range slices.Concat(s.Members.Voters, s.Members.Learners) {
				if m.lost[node] {
					change.Kind, change.Node = replica.Remove, node
				}
			}
			for _, node := range m.live() {
				switch {
				case change.Kind != 0 || len(s.Members.Voters) >= voters || slices.Contains(s.Members.Voters, node):
				case slices.Contains(s.Members.Learners, node):
					change.Kind, change.Node = replica.Promote, node
				default:
					change.Kind, change.Node = replica.AddLearner, node
				}
			}
			if change.Kind == 0 {
				return true
			}
			ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
			defer cancel()
			if err := m.stores[id].driver.ChangeMembers(ctx, g, change); err != nil {
				last = fmt.Errorf("%v of node %d by node %d: %w", change.Kind, change.Node, id, err)
			}
			return false
		})
	}
}

// tell says what every node knows of a group that does not get on.
func (m *memberChaos) tell(g replica.GroupID, last error) {
	m.tb.Logf("group %d: lost %v, last refusal %v", g, m.lost, last)
	for _, id := range m.live() {
		s, here := m.status(id, g)
		m.tb.Logf("node %d, %t: %+v", id, here, s)
	}
}
