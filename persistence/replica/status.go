package replica

import (
	"cmp"
	"context"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/tracker"
)

// Status is this node's knowledge of one group, at one moment of the raft loop.
type Status struct {
	Group GroupID
	// Leading is true while this node serves as the leader. Leader is the leader as far as this node knows, 0 = not
	// known.
	Leading bool
	Leader  NodeID
	Term    uint64
	// Applied is the index of the newest entry in the state, First and Last are the ends of the log: it is empty when First is above Last.
	Applied, First, Last uint64
	// LogBytes is the approximate size of the log.
	LogBytes uint64
	// Initialised is false for a replica that has no state yet and waits for a snapshot.
	Initialised bool
	// Members are the members as far as this node knows; none before Initialised.
	Members Members
	// Lags are the other members as seen by their leader, by node; empty elsewhere.
	Lags []Lag
}

// Lag is how far a member is behind its leader.
type Lag struct {
	Node NodeID
	// Entries counts the entries of the leader's log that the member is not known to have on disk.
	Entries uint64
	// Active is true when the member answered within the election timeout.
	Active bool
}

// peer is a node that has answered this leader.
type peer struct {
	node NodeID
	seen time.Duration
}

// Status returns the groups of this node by number. It goes through the raft loop, so it is not for every request.
func (d *Driver) Status(ctx context.Context) ([]Status, error) {
	var all []Status
	err := d.ask(ctx, func(reply chan<- error) {
		all = make([]Status, 0, len(d.loop.order))
		for g := range d.table.all() {
			all = append(all, d.status(g))
		}
		reply <- nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

func (d *Driver) status(g *group) Status {
	m := g.shared.members.Load()
	s := Status{
		Group: g.id, Leading: g.shared.leading.Load(), Term: g.role.term, Applied: g.applied.index,
		First: g.log.start.index + 1, Last: g.log.last.index, LogBytes: g.log.bytes, Initialised: g.shared.initialised.Load(),
		Members: m.clone(),
	}
	if v := g.shared.view.Load(); v != nil {
		s.Leader = v.node
	}
	if !s.Leading {
		return s
	}
	g.node.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
		if node := NodeID(id); node != g.self {
			s.Lags = append(s.Lags, Lag{Node: node, Entries: g.behind(pr.Match), Active: d.active(g, node)})
		}
	})
	slices.SortFunc(s.Lags, func(a, b Lag) int { return cmp.Compare(a.Node, b.Node) })
	return s
}

// behind returns how many entries are above match.
func (g *group) behind(match uint64) uint64 { return g.log.last.index - min(match, g.log.last.index) }

// notePeer records that a node answered this leader.
func (g *group) notePeer(node NodeID, now time.Duration) {
	for i := range g.peers {
		if g.peers[i].node == node {
			g.peers[i].seen = now
			return
		}
	}
	g.peers = append(g.peers, peer{node: node, seen: now})
}

// active is true for this node itself and for nodes that answered it within an election timeout.
func (d *Driver) active(g *group, node NodeID) bool {
	if node == g.self {
		return true
	}
	i := slices.IndexFunc(g.peers, func(p peer) bool { return p.node == node })
	return i >= 0 && d.loop.now-g.peers[i].seen < d.electionTimeout()
}
