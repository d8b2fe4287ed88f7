package replica

import (
	"slices"
	"sync/atomic"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
)

// group is this node's replica of one raft group. The blocks say which goroutine owns what.
type group struct {
	id   GroupID
	keys groupKeys
	self NodeID

	// Raft loop. heard is when a leader last sent something, by Driver.now, or when this node started: whoever hears from a leader is a member.
	node    *raft.RawNode
	log     *groupLog
	state   raft.StateType
	lead    NodeID
	term    uint64
	applied position
	heard   time.Duration
	// campaignAt is when this node stands for a leader that is down; 0 when it does not.
	campaignAt time.Duration
	// settleAt is what was committed when the node started.
	settleAt uint64
	// ownFirst is the first entry of this node's own term as leader; 0 when it does not lead.
	ownFirst uint64
	// confs counts membership changes that were handed to the apply goroutine and not reported back.
	confs int
	// confIndex is where the newest membership change is, of those since the start of the process.
	confIndex uint64
	// alone is true while this node is the only member: no messages, no ticks, reads without asking anybody.
	alone     bool
	dirty     bool
	incoming  []*proposal
	stepped   []*proposal
	waiting   []*proposal
	asking    []*read
	reads     []readBatch
	readSeq   uint64
	transfers []transfer
	// sending are the snapshots on their way: the log is not cut behind them.
	sending []*sending
	// spool is the snapshot file that was stepped and that raft may yet refuse.
	spool string
	// peers are the nodes that answered this leader.
	peers []peer
	// changed is set when Config.OnChange has something to tell.
	changed bool
	// gone is true once the replica is dropped.
	gone bool

	// Append goroutine.
	stagedLast uint64
	stagedHard hardState
	lazyHard   bool
	installing bool
	parked     []appendItem

	// Apply goroutine.
	appliedLast uint64
	batch       []Entry
	batchItems  []applyItem

	// Anybody. initialised: there is a state, of a snapshot or of a new group. replacing: a snapshot is taking its place. member: this node is a voter or
	// learner, as far as it has heard.
	initialised atomic.Bool
	replacing   atomic.Bool
	member      atomic.Bool

	leading   atomic.Bool
	aloneLead atomic.Bool
	settled   atomic.Bool
	receiving atomic.Bool
	pending   atomic.Int64
	asked     atomic.Int64
	view      atomic.Pointer[leaderView]
	members   atomic.Pointer[Members]
}

// leaderView is what callers are told about the leader.
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
	g.members.Store(m)
	g.initialised.Store(len(m.Voters) > 0)
	g.member.Store(g.holds(g.self))
	g.changed = true
	g.alone = len(cs.GetVotersOutgoing()) == 0 && len(m.Learners) == 0 && slices.Equal(m.Voters, []NodeID{g.self})
	g.publish()
}

func nodeIDs(ids []uint64) []NodeID {
	out := make([]NodeID, len(ids))
	for i, id := range ids {
		out[i] = NodeID(id)
	}
	return out
}

// publish tells callers what the loop knows. This node is the leader for them only once leading is set.
func (g *group) publish() {
	leading := g.leading.Load()
	g.aloneLead.Store(leading && g.alone)
	var view *leaderView
	switch {
	case leading:
		view = &leaderView{node: g.self, term: g.term}
	case g.lead != 0 && g.lead != g.self:
		view = &leaderView{node: g.lead, term: g.term}
	}
	if old := g.view.Load(); (old == nil) != (view == nil) || view != nil && *view != *old {
		g.view.Store(view)
		g.changed = true
	}
	if view != nil && g.applied.index >= g.settleAt {
		g.settled.Store(true)
	}
}

func (g *group) notLeader() error {
	err := &NotLeaderError{Group: g.id}
	if v := g.view.Load(); v != nil && v.node != g.self {
		err.Leader = v.node
	}
	return err
}

// needsTicks is false for a group that has nobody to hear from and nothing to wait for, or nothing to elect a leader for.
func (g *group) needsTicks() bool {
	return g.initialised.Load() && (!g.alone || g.state != raft.StateLeader)
}

// aloneEntries is the length at which the log of a group with one member is cut. Short enough that over all groups most
// of the log is cut while it still lies in the write buffer: then it never reaches a table, and costs no compaction.
const aloneEntries = 256

// aloneBytes is the size at which it is, for the same reason: entries that carry files would fill the buffer long before.
const aloneBytes = 1 << 20

// cutTo is how far the log may be cut now; 0 when it need not be.
func (d *Driver) cutTo(g *group) uint64 {
	cfg := &d.cfg
	behind := g.applied.index - g.log.start.index
	keep := cfg.KeepEntries
	switch {
	case g.alone:
		// Nobody will ask for what is applied. Cut early, most entries die in the memtable and are never written to a table.
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
	for _, s := range g.sending {
		to = min(to, s.index)
	}
	if g.state == raft.StateLeader && g.log.bytes < patience*cfg.SnapshotBytes && behind < patience*cfg.SnapshotEntries {
		to = min(to, d.needed(g))
	}
	if to <= g.log.start.index {
		return 0
	}
	return to
}

// patience is how many times its bound a log may grow while a follower that answers still needs what would be cut: right behind a
// snapshot, for instance, which it would have to get again.
const patience = 4

// needed is the oldest position from which a follower that answers can be served by the log: where it is, or where the snapshot ends that it got.
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

// holds is true for the members.
func (g *group) holds(node NodeID) bool {
	m := g.members.Load()
	return slices.Contains(m.Voters, node) || slices.Contains(m.Learners, node)
}
