package persistence_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/persistence"
)

// Writers write while nodes restart, are cut off, one way or both, and replicas and leaders move among four nodes: nothing
// acknowledged is lost, replicas are equal, and every directory says the same. PARLEY_CHAOS_SEED and PARLEY_CHAOS_DURATION
// make it another run, and a long one.
func TestFleetChaos(t *testing.T) {
	seed, duration := rand.Uint64(), 3*time.Second
	if s := os.Getenv("PARLEY_CHAOS_SEED"); s != "" {
		var err error
		seed, err = strconv.ParseUint(s, 10, 64)
		require.NoError(t, err)
	}
	if s := os.Getenv("PARLEY_CHAOS_DURATION"); s != "" {
		var err error
		duration, err = time.ParseDuration(s)
		require.NoError(t, err)
	}
	t.Logf("seed %d, duration %v", seed, duration)
	c := &chaos{fleet: newFleet(t, 1, 2, 3, 4), rng: rand.New(rand.NewPCG(seed, 0)), done: map[string]int{}}
	c.grow(2, 3)
	c.change(0, persistence.AddLearner, 4)

	c.end = time.Now().Add(duration)
	book := newLedger()
	var writing sync.WaitGroup
	failed := make([]error, 4)
	for w := range 3 {
		writing.Go(func() { failed[w] = c.write(uint32(w+1), book) })
	}
	writing.Go(func() { failed[3] = c.putRecords() })
	for !c.over() {
		c.fault()
	}
	c.network.Heal()
	for id := range c.nodes {
		if c.store(id) == nil {
			c.up(id, c.nodes[id].fs)
		}
	}
	writing.Wait()
	require.NoError(t, errors.Join(failed...))
	t.Logf("%v", c.done)
	c.verify(book)
}

// chaos is a fleet in trouble.
type chaos struct {
	*fleet
	end    time.Time
	rng    *rand.Rand
	done   map[string]int
	record int
}

func (c *chaos) over() bool { return time.Now().After(c.end) }

// write appends to conversations of a shard, one after another.
func (c *chaos) write(group uint32, book *ledger) error {
	for n := 0; ; n++ {
		id := fmt.Sprintf("c%d", n)
		for seq := range uint64(20) {
			if c.over() {
				return nil
			}
			if err := c.try(group, func(s *persistence.Store) error { return c.tryAppend(s, group, id, seq) }); err != nil {
				return err
			}
			book.ack(fmt.Sprint(group, "/", id), seq)
		}
	}
}

func (c *chaos) putRecords() error {
	for ; !c.over(); c.record++ {
		err := c.try(0, func(s *persistence.Store) error {
			r, _ := s.Directory().Get("test", "k")
			_, err := s.Directory().Put(ctx, "test", "k", r.Version, fmt.Append(nil, c.record))
			return err
		})
		if err != nil {
			return err
		}
		<-time.After(5 * time.Millisecond)
	}
	return nil
}

func (c *chaos) pause(most time.Duration) {
	<-time.After(time.Duration(c.rng.Int64N(int64(most))))
}

// fault does one thing that hurts, or one step of a move.
func (c *chaos) fault() {
	node := c.rng.Uint64N(4) + 1
	what := "step"
	switch c.rng.IntN(10) {
	case 0:
		what = "restart"
		fs := c.nodes[node].fs
		c.down(node)
		c.pause(200 * time.Millisecond)
		c.up(node, fs)
	case 1:
		what = "isolate"
		c.network.Isolate(node)
		c.pause(400 * time.Millisecond)
		c.network.Heal()
	case 2:
		what = "one way"
		c.network.Cut(node, node%4+1)
		c.pause(400 * time.Millisecond)
		c.network.Heal()
	case 3:
		what = "transfer"
		c.transfer(c.rng.Uint32N(4), node)
	default:
		c.step(c.rng.Uint32N(4), node)
	}
	c.done[what]++
	c.pause(40 * time.Millisecond)
}

func (c *chaos) transfer(group uint32, to uint64) {
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	if s, err := c.leader(group); err == nil {
		_ = s.TransferLeader(short, group, to) // refused where it cannot be
	}
}

// step brings a group nearer to having three of the four nodes, never the same for long.
func (c *chaos) step(group uint32, node uint64) {
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	s, err := c.leader(group)
	if err != nil {
		return
	}
	r, err := status(s, group)
	if err != nil {
		return
	}
	m := r.Members
	change := persistence.Change{Node: node, Expect: &m}
	switch member := slices.Contains(m.Voters, node); {
	case slices.Contains(m.Learners, node):
		change.Kind = persistence.Promote
	case !member && len(m.Voters) <= 3:
		// Its old replica goes first, as the placement loop has it.
		if other := c.store(node); other != nil && other.DropReplica(short, group, r.Applied) == nil {
			change.Kind = persistence.AddLearner
		}
	case member && len(m.Voters) > 3:
		change.Kind = persistence.Remove
	}
	if change.Kind != 0 && s.ChangeMembers(short, group, change) == nil {
		c.done[fmt.Sprint("change ", change.Kind)]++
	}
}

// verify looks at what is left when all is well again.
func (c *chaos) verify(book *ledger) {
	t := c.t
	for name, seq := range book.copy() {
		var group uint32
		var id string
		_, err := fmt.Sscanf(name, "%d/%s", &group, &id)
		require.NoError(t, err)
		c.at(group, func(s *persistence.Store) error {
			head, found, err := s.Head(ctx, group, id)
			if err != nil {
				return err
			}
			require.True(t, found, "%s was acknowledged up to %d", name, seq)
			require.GreaterOrEqual(t, head.Seq, seq, name)
			n := uint64(0)
			return s.Events(ctx, group, id, persistence.FromStart, func(seq uint64, value []byte) bool {
				require.Equal(t, n, seq)
				require.Equal(t, crashEvent(id, seq), string(value))
				n++
				return true
			})
		})
	}
	for group := range uint32(4) {
		c.equal(group)
	}
	leader, err := c.leader(0)
	require.NoError(t, err)
	members, err := c.members(leader, 0)
	require.NoError(t, err)
	for _, id := range append(members.Voters, members.Learners...) {
		c.sees(id, "k", fmt.Sprint(c.record-1))
	}
}

// equal waits until the replicas of a group's members have the leader's rows.
func (f *fleet) equal(group uint32) {
	f.t.Helper()
	f.at(group, func(leader *persistence.Store) error {
		members, err := f.members(leader, group)
		if err != nil {
			return err
		}
		want, err := f.sum(leader, group)
		if err != nil {
			return err
		}
		for _, id := range append(members.Voters, members.Learners...) {
			got, err := f.sum(f.store(id), group)
			if err != nil {
				return err
			}
			if got != want {
				return fmt.Errorf("replica of %d on node %d differs from the leader's", group, id)
			}
		}
		return nil
	})
}
