package replica

import (
	"slices"
	"sync/atomic"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
)

// group is this node's replica of one raft group. Its parts are split by the goroutine that owns them: the raft loop unless said otherwise.
type group struct {
	id   GroupID
	keys groupKeys
	self NodeID

	node    *raft.RawNode
	log     *groupLog
	role    role
	conf    confState
	applied position
	// settleAt is the index that was committed when the node started.
	settleAt uint64

	proposals proposalQueue
	reads     readQueue
	moves     moves
	snapshots snapshotState
	// peers are the nodes that have answered this node since it became leader.
	peers []peer

	// dirty is set while the group is on the loop's list for this round.
	dirty bool
	// changed is set when Config.OnChange has to be called.
	changed bool
	// gone is set once the replica has been dropped.
	gone bool

	append appendState // append goroutine
	apply  applyState  // apply goroutine
	shared sharedState // any goroutine
}

// role is the part this node plays in the group, as raft last reported it.
type role struct {
	state  raft.StateType
	leader NodeID
	term   uint64
	// ownFirst is the first entry of this node's own term as leader; 0 while it does not lead.
	ownFirst uint64
	// leaderSeen is when a leader last sent something, by the loop's clock; the start of the process until then. Only members hear from a leader.
	leaderSeen time.Duration
	// campaignAt is when this node will campaign because the leader's process is gone; 0 for never.
	campaignAt time.Duration
}

// confState is the state of the group's membership.
type confState struct {
	// pending counts membership changes handed to the apply goroutine that it has not reported back.
	pending int
	// newest is the index of the newest membership change since the start of the process.
	newest uint64
	// alone is true while this node is the only member: no messages, no ticks, and reads without a round trip.
	alone bool
}

// proposalQueue holds the proposals of a group, by how far they have come.
type proposalQueue struct {
	// incoming have not been passed to raft yet.
	incoming []*proposal
	// stepped have been passed to raft and have no position yet.
	stepped []*proposal
	// waiting have a position in the log and wait until it is committed.
	waiting []*proposal
}

// moves holds the calls that transfer the leadership, or try whether a voter could take it over.
type moves struct {
	transfers []transfer
	trials    []trial
}

// snapshotState tracks the group's snapshots, outgoing and incoming.
type snapshotState struct {
	// sending are the outgoing ones: the log is not cut past them.
	sending []*sending
	// spool is the file of a received snapshot that was passed to raft, which may still refuse it.
	spool string
}

// appendState is what the append goroutine has staged for the group.
type appendState struct {
	last uint64
	hard hardState
	// lazy is true while hard has yet to be written.
	lazy bool
	// installing is true while a snapshot replaces the group's state; what comes meanwhile is parked.
	installing bool
	parked     []appendItem
}

// applyState is the batch that the apply goroutine is working on.
type applyState struct {
	last    uint64
	entries []Entry
	items   []applyItem
}

// sharedState may be read by any goroutine. Admission counts callers in pendingProposals and pendingReads; the rest is written by the loop.
type sharedState struct {
	// initialised is true once the replica has a state: that of a new group, or that of a snapshot.
	initialised atomic.Bool
	// replacing is true while a snapshot replaces the state.
	replacing atomic.Bool
	// member is true while this node is a voter or learner, as far as it knows.
	member atomic.Bool
	// leading is true while this node leads and has applied everything from earlier terms.
	leading   atomic.Bool
	aloneLead atomic.Bool
	// settled is true once everything known to be committed at the start has been applied.
	settled atomic.Bool
	// receiving is true while a snapshot is being received.
	receiving        atomic.Bool
	pendingProposals atomic.Int64
	pendingReads     atomic.Int64
	view             atomic.Pointer[leaderView]
	members          atomic.Pointer[Members]
}

// leaderView is the leader as callers see it.
type leaderView struct {
	node NodeID
	term uint64
}

// Members are the nodes that hold a replica of a group.
type Members struct {
	Voters   []NodeID
	Learners []NodeID
}

func (g *group) setConf(cs *raftpb.ConfState) {
	m := &Members{Voters: nodeIDs(cs.GetVoters()), Learners: nodeIDs(cs.GetLearners())}
	g.shared.members.Store(m)
	g.shared.initialised.Store(len(m.Voters) > 0)
	g.shared.member.Store(g.holds(g.self))
	g.changed = true
	g.conf.alone = len(cs.GetVotersOutgoing()) == 0 && len(m.Learners) == 0 && slices.Equal(m.Voters, []NodeID{g.self})
	g.publish()
}

func nodeIDs(ids []uint64) []NodeID {
	out := make([]NodeID, len(ids))
	for i, id := range ids {
		out[i] = NodeID(id)
	}
	return out
}

// publish updates the leader as callers see it. To them this node is the leader only once leading is set.
func (g *group) publish() {
	leading := g.shared.leading.Load()
	g.shared.aloneLead.Store(leading && g.conf.alone)
	var view *leaderView
	switch {
	case leading:
		view = &leaderView{node: g.self, term: g.role.term}
	case g.role.leader != 0 && g.role.leader != g.self:
		view = &leaderView{node: g.role.leader, term: g.role.term}
	}
	if old := g.shared.view.Load(); (old == nil) != (view == nil) || view != nil && *view != *old {
		g.shared.view.Store(view)
		g.changed = true
	}
	if view != nil && g.applied.index >= g.settleAt {
		g.shared.settled.Store(true)
	}
}

func (g *group) notLeader() error {
	err := &NotLeaderError{Group: g.id}
	if v := g.shared.view.Load(); v != nil && v.node != g.self {
		err.Leader = v.node
	}
	return err
}

// needsTicks is false for a group that leads alone, and for one without a state.
func (g *group) needsTicks() bool {
	return g.shared.initialised.Load() && (!g.conf.alone || g.role.state != raft.StateLeader)
}

// aloneEntries is the length at which the log of a group with one member is cut. It is short enough that most entries
// of all groups are cut while they are still in the write buffer, so they never reach a table and cost no compaction.
const aloneEntries = 256

// aloneBytes is the same as a size: entries with pieces of files would fill the write buffer much sooner.
const aloneBytes = 1 << 20

// cutTo returns the index up to which the log should be cut now, 0 for no cut.
func (d *Driver) cutTo(g *group) uint64 {
	cfg := &d.cfg
	behind := g.applied.index - g.log.start.index
	keep := cfg.KeepEntries
	switch {
	case g.conf.alone:
		// Applied entries are not needed any more. Cut early, most of them die in the memtable and never reach a table.
		if behind < min(aloneEntries, cfg.SnapshotEntries) && g.log.bytes < min(aloneBytes, cfg.SnapshotBytes) {
			return 0
		}
		keep = 0
	case g.log.bytes >= cfg.SnapshotBytes:
		keep = min(keep, behind/4)
	case behind < cfg.SnapshotEntries:
		return 0
	}
	to := g.applied.index - min(keep, behind)
	for _, s := range g.snapshots.sending {
		to = min(to, s.index)
	}
	if g.role.state == raft.StateLeader && g.log.bytes < patience*cfg.SnapshotBytes && behind < patience*cfg.SnapshotEntries {
		to = min(to, d.needed(g))
	}
	if to <= g.log.start.index {
		return 0
	}
	return to
}

// patience is to how many times its bound a log may grow while an active follower still needs the entries, for instance
// right after a snapshot, which would have to be sent again.
const patience = 4

// needed is the lowest index that an active follower has reached, or that the snapshot sent to it ends at, among the
// followers that the log can still serve.
func (d *Driver) needed(g *group) uint64 {
	oldest := g.applied.index
	g.node.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
		at := max(pr.Match, pr.PendingSnapshot)
		if pr.State == tracker.StateProbe {
			at = max(at, pr.Next-1)
		}
		if at >= g.log.start.index && d.active(g, NodeID(id)) {
			oldest = min(oldest, at)
		}
	})
	return oldest
}

// holds reports whether a node is a member.
func (g *group) holds(node NodeID) bool {
	m := g.shared.members.Load()
	return slices.Contains(m.Voters, node) || slices.Contains(m.Learners, node)
}
