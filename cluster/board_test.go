package cluster

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"parley/cluster/shard"
	"parley/proto/nodepb"
)

func leading(in uint32, epoch uint64) *nodepb.Replica {
	return &nodepb.Replica{Shard: in, Leading: true, Epoch: epoch, Initialised: true, Voters: []uint64{1}}
}

func holding(in uint32, epoch uint64) *nodepb.Replica {
	return &nodepb.Replica{Shard: in, Epoch: epoch, Initialised: true}
}

func report(name, boot string, sequence uint64, replicas ...*nodepb.Replica) *nodepb.Report {
	return &nodepb.Report{Name: name, Boot: boot, Node: uint64(name[1]), Sequence: sequence, Replicas: replicas}
}

func member(name, boot string) Member { return Member{Name: name, Node: uint64(name[1]), Boot: boot} }

func (o *Owners) text(in shard.ID) string {
	owner, _ := o.Owner(in)
	return fmt.Sprintf("%s@%d", owner.Node, owner.Epoch)
}

func TestBoardTellsOwners(t *testing.T) {
	owners, changes := &Owners{}, 0
	b := NewBoard(BoardConfig{Self: "n1", Owners: owners, OnChange: func() { changes++ }})
	b.Report(report("n2", "a", 1, leading(1, 5)))
	require.Equal(t, "@0", owners.text(1), "nobody knows n2 yet")
	b.Members([]Member{member("n1", "x"), member("n2", "a"), member("n3", "b")})
	require.Equal(t, "n2@5", owners.text(1))

	// What the report says counts, in the order in which it was made.
	b.Report(report("n2", "a", 3, leading(1, 5), leading(2, 4)))
	b.Report(report("n2", "a", 2, leading(1, 5)))
	require.Equal(t, "n2@4", owners.text(2))
	before := changes
	b.Report(report("n2", "a", 4, leading(1, 5), leading(2, 4)))
	require.Equal(t, before, changes, "nothing changed")
	b.Report(report("n3", "b", 1, leading(1, 6)))
	require.Equal(t, "n3@6", owners.text(1))
	b.Report(report("n2", "a", 5, leading(1, 5), holding(2, 4)))
	require.Equal(t, "n3@6", owners.text(1), "a leader that was deposed and does not know")
	require.Equal(t, "@4", owners.text(2))
	b.Report(report("n2", "a", 6, leading(1, 5), leading(2, 7)))
	b.Report(report("n2", "a", 7))
	require.Equal(t, "@7", owners.text(2), "it holds it no more")

	// This node knows better what it owns itself.
	owners.Set(Owner{Node: "n1", Shard: 3, Epoch: 9})
	b.Report(report("n1", "x", 1, holding(3, 9)))
	require.Equal(t, "n1@9", owners.text(3))
	require.Equal(t, 1, b.Snapshot().Nodes[0].Replicas)
}

func TestBoardForgetsWhoIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owners := &Owners{}
		b := NewBoard(BoardConfig{Self: "n1", Owners: owners})
		all := []Member{member("n1", "x"), member("n2", "a")}
		b.Members(all)
		b.Report(report("n2", "a", 1, leading(1, 5)))
		owners.Set(Owner{Node: "n1", Shard: 2, Epoch: 3})
		time.Sleep(time.Second)
		b.Members(nil)
		require.Equal(t, "@5", owners.text(1))
		require.Equal(t, "n1@3", owners.text(2), "this node is never gone")
		b.Report(report("n2", "a", 2, leading(1, 5)))
		require.Equal(t, "@5", owners.text(1), "reached by some way, but not by requests")
		time.Sleep(time.Second)
		view := b.Snapshot()
		n2 := view.Nodes[1]
		require.True(t, n2.Gone)
		require.Equal(t, time.Second, view.At.Sub(n2.GoneSince))
		require.Zero(t, n2.Leads)
		name, known := view.Name(uint64('2'))
		require.True(t, known)
		require.Equal(t, "n2", name)
		_, known = view.Name(77)
		require.False(t, known)

		b.Members(all)
		require.Equal(t, "n2@5", owners.text(1), "it was only out of sight")

		// Started anew, it owns nothing; and what its former start still says is not heard.
		b.Members([]Member{member("n1", "x"), member("n2", "b")})
		require.Equal(t, "@5", owners.text(1))
		require.Nil(t, b.Snapshot().Nodes[1].Report)
		b.Report(report("n2", "b", 1, holding(1, 5)))
		b.Report(report("n2", "a", 9, leading(1, 5)))
		require.Equal(t, "@5", owners.text(1))
		require.Equal(t, "b", b.Snapshot().Nodes[1].Report.GetBoot())
		b.Report(report("n2", "b", 2, leading(1, 6)))
		require.Equal(t, "n2@6", owners.text(1))
	})
}

// TestBoardBelievesOnlyTheMember: a second process under a node's name changes nothing, whatever it reports and whenever
// it comes, until gossip says that it is the node.
func TestBoardBelievesOnlyTheMember(t *testing.T) {
	owners, changes := &Owners{}, 0
	b := NewBoard(BoardConfig{Self: "n1", Owners: owners, OnChange: func() { changes++ }})
	self := member("n1", "x")
	b.Members([]Member{self, member("n2", "a")})
	b.Report(report("n1", "x", 1))
	b.Report(report("n2", "a", 1, leading(1, 5)))

	before, seen := changes, b.Snapshot()
	b.Report(report("n2", "z", 1, leading(1, 9), leading(2, 9)))
	b.Report(report("n1", "z", 1, leading(3, 9)))
	b.Report(report("n7", "z", 1, leading(4, 9)))
	require.Equal(t, before, changes)
	require.Equal(t, seen.Nodes, b.Snapshot().Nodes)
	b.Report(report("n2", "a", 2, leading(1, 5), leading(2, 6)))
	b.Report(report("n1", "x", 2, holding(3, 1)))
	require.Equal(t, []string{"n2@5", "n2@6", "@0", "@0"}, []string{owners.text(1), owners.text(2), owners.text(3), owners.text(4)})
	require.Equal(t, 1, b.Snapshot().Nodes[0].Replicas)
	require.Equal(t, 2, b.Snapshot().Nodes[1].Leads)

	// It has taken over the name: what it said counts at once, what the one before it says does not any more.
	b.Members([]Member{self, member("n2", "z")})
	require.Equal(t, "n2@9", owners.text(1))
	b.Report(report("n2", "a", 3, leading(1, 10)))
	require.Equal(t, "n2@9", owners.text(1))
	require.Equal(t, "z", b.Snapshot().Nodes[1].Report.GetBoot())

	// It ends, and the one before it is the node again.
	b.Members([]Member{self})
	b.Members([]Member{self, member("n2", "a")})
	require.Equal(t, "n2@10", owners.text(1))
	b.Report(report("n2", "a", 4, leading(1, 11)))
	require.Equal(t, "n2@11", owners.text(1))
}

// TestWhoMissesAReport: those that are there and do not reach its author.
func TestWhoMissesAReport(t *testing.T) {
	changes := 0
	b := NewBoard(BoardConfig{Self: "n1", Owners: &Owners{}, OnChange: func() { changes++ }})
	all := []Member{member("n1", "x"), member("n2", "a"), member("n3", "b"), member("n4", "c")}
	b.Members(all)
	of := report("n2", "a", 1)
	b.Report(of)
	require.Empty(t, b.Missing(of))
	cut := report("n3", "b", 1)
	cut.Unreached = []uint64{uint64('2')}
	b.Report(cut)
	own := report("n1", "x", 1)
	own.Unreached = []uint64{uint64('2')}
	b.Report(own)
	require.Equal(t, []uint64{uint64('3')}, b.Missing(of), "it need not be passed on to oneself")
	require.Empty(t, b.Missing(report("n2", "z", 1)), "a stranger's is not passed on")
	before := changes
	b.Report(report("n3", "b", 2))
	require.Equal(t, before+1, changes, "that matters to placement")
	require.Empty(t, b.Missing(of))
	cut.Sequence = 3
	b.Report(cut)
	b.Members(all[:2])
	require.Empty(t, b.Missing(of), "it is gone")
}

func TestBoardIsBounded(t *testing.T) {
	owners := &Owners{}
	b := NewBoard(BoardConfig{Self: "n1", Owners: owners})
	var all []Member
	for i := range 2 * maxNames {
		b.Report(report(fmt.Sprint("n", i), "a", 1))
		all = append(all, member(fmt.Sprint("n", i), "b"))
	}
	require.Len(t, b.early, maxNames)
	require.Empty(t, b.Snapshot().Nodes)
	b.Members(all)
	require.Len(t, b.Snapshot().Nodes, maxNames)
	b.Report(report("n1", "a", 5))
	b.Report(report("n2", "b", 2, leading(shard.MaxCount+1, 1)))
	require.Equal(t, "@0", owners.text(shard.MaxCount+1))
}
