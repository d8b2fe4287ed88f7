package replica

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
	"google.golang.org/protobuf/proto"
)

// maxLag is how many entries a member may be behind to be relied on for a majority: a learner that is promoted, or the
// remaining voters when one is removed.
const maxLag = 1_000

// ChangeKind is a kind of membership change. A new voter is added in two steps: AddLearner, then Promote once it has
// caught up.
type ChangeKind int

// Kinds of membership changes.
const (
	AddLearner ChangeKind = iota + 1
	Promote
	Remove
)

// Change is one step of a membership change.
type Change struct {
	Kind ChangeKind
	Node NodeID
	// Expect, when not nil, is what the members must be; otherwise the change is refused with ErrConflict.
	Expect *Members
}

// Members returns the members of a group as far as this node knows; false when it holds no replica, or one without a
// state.
func (d *Driver) Members(group GroupID) (Members, bool) {
	g := d.table.get(group)
	if g == nil || !g.shared.initialised.Load() {
		return Members{}, false
	}
	m := g.shared.members.Load()
	return m.clone(), true
}

func (m *Members) clone() Members {
	return Members{Voters: slices.Clone(m.Voters), Learners: slices.Clone(m.Learners)}
}

// ChangeMembers makes one change to the members of a group and returns once it is in effect here. One change at a time:
// ErrBusy asks to retry later, also while a learner that is to be promoted is silent or still behind. ErrConflict and
// ErrUnsafe refuse the change. The other errors are those of Propose.
func (d *Driver) ChangeMembers(ctx context.Context, group GroupID, change Change) error {
	kind, ok := map[ChangeKind]raftpb.ConfChangeType{
		AddLearner: raftpb.ConfChangeAddLearnerNode,
		Promote:    raftpb.ConfChangeAddNode,
		Remove:     raftpb.ConfChangeRemoveNode,
	}[change.Kind]
	if !ok || change.Node == 0 {
		return fmt.Errorf("unknown membership change %d of node %d", change.Kind, change.Node)
	}
	if d.cfg.Transport == nil {
		return errors.New("membership changes need a transport")
	}
	data, err := proto.Marshal(&raftpb.ConfChangeV2{
		Changes: []*raftpb.ConfChangeSingle{{Type: kind.Enum(), NodeId: new(uint64(change.Node))}},
	})
	if err != nil {
		return fmt.Errorf("encode membership change: %w", err)
	}
	g, err := d.admit(ctx, group, len(data))
	if err != nil {
		return err
	}
	p := d.pool.get()
	p.group, p.data, p.kind = g, data, raftpb.EntryConfChangeV2
	p.check = func() error { return d.checkChange(g, change) }
	_, err = d.await(ctx, p)
	return err
}

// checkChange validates a change in the raft loop: raft would panic on one that empties a group, and stall on a voter
// that is far behind.
func (d *Driver) checkChange(g *group, change Change) error {
	m := g.shared.members.Load()
	voter, learner := slices.Contains(m.Voters, change.Node), slices.Contains(m.Learners, change.Node)
	switch {
	case g.conf.pending > 0, slices.ContainsFunc(g.proposals.stepped, func(p *proposal) bool { return p.kind != raftpb.EntryNormal }):
		return ErrBusy
	case change.Expect != nil && !m.equal(*change.Expect):
		return fmt.Errorf("%w: group %d has voters %v, learners %v", ErrConflict, g.id, m.Voters, m.Learners)
	case change.Kind == AddLearner && voter:
		return fmt.Errorf("node %d is a voter of group %d already", change.Node, g.id)
	case change.Kind == Promote && !learner && !voter:
		return fmt.Errorf("node %d is not a learner of group %d", change.Node, g.id)
	case change.Kind == Promote && learner && (!d.active(g, change.Node) || !g.caughtUp(change.Node)):
		return fmt.Errorf("%w: node %d has not caught up", ErrBusy, change.Node)
	case change.Kind == Remove && change.Node == g.self:
		return fmt.Errorf("node %d leads group %d: transfer the leadership before removing it", g.self, g.id)
	case change.Kind == Remove && voter && !d.safeWithout(g, m.Voters, change.Node):
		return fmt.Errorf("%w: group %d without node %d", ErrUnsafe, g.id, change.Node)
	}
	return nil
}

// safeWithout reports whether the other voters that are active and not far behind form a majority by themselves.
func (d *Driver) safeWithout(g *group, voters []NodeID, node NodeID) bool {
	live, all := 0, 0
	for _, v := range voters {
		if v == node {
			continue
		}
		all++
		if v == g.self || d.active(g, v) && g.lag(v) <= maxLag {
			live++
		}
	}
	return live > all/2
}

// equal compares the members as sets.
func (m *Members) equal(other Members) bool {
	same := func(a, b []NodeID) bool {
		return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
	}
	return same(m.Voters, other.Voters) && same(m.Learners, other.Learners)
}

// caughtUp reports whether a learner is hardly behind, and has the change that made it a learner on disk, so that a
// late Drop meant for an earlier replica of this node is refused.
func (g *group) caughtUp(learner NodeID) bool {
	lag := g.lag(learner)
	return lag <= maxLag && g.log.last.index-lag >= g.conf.newest
}

// lag is how many entries a node is known to be behind. For a node that has nothing on disk yet, not even a snapshot,
// it is unbounded, however short the log: relying on such a node could leave the group without a majority after a
// crash.
func (g *group) lag(node NodeID) uint64 {
	match := g.match(node)
	if match == 0 {
		return math.MaxUint64
	}
	return g.behind(match)
}

// match is the position up to which a node is known to have stored the log, 0 if nothing is known.
func (g *group) match(node NodeID) (index uint64) {
	g.node.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
		if NodeID(id) == node {
			index = pr.Match
		}
	})
	return index
}
