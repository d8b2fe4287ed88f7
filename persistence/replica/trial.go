package replica

import (
	"context"
	"fmt"
	"time"

	"go.etcd.io/raft/v3/raftpb"
)

const (
	// trialLeast and trialFactor say when a voter is too late: it takes that long, and that many times as long as a majority.
	trialLeast  = 25 * time.Millisecond
	trialFactor = 4
	// maxTrials bounds the trials of a group that wait.
	maxTrials = 16
)

// trial is a call that waits until a voter has stored an entry that was appended for it.
type trial struct {
	to    NodeID
	most  time.Duration
	begun time.Duration
	// index is the position of the entry, 0 until it has one; majority is how long a majority took to store it, 0 until one has.
	index    uint64
	majority time.Duration
	reply    chan<- error
}

// TryLeader returns nil if a voter would take over the leadership of a group without delay: it is hardly behind, and stores an entry, which
// is appended for that, within most or about as fast as a majority. Meanwhile the group serves as usual. ErrTransferFailed means that it
// would not.
func (d *Driver) TryLeader(ctx context.Context, group GroupID, to NodeID, most time.Duration) error {
	g := d.table.get(group)
	if g == nil {
		return fmt.Errorf("%w %d", ErrUnknownGroup, group)
	}
	return d.ask(ctx, func(reply chan<- error) {
		if err := d.mayLead(g, to); err != nil || to == g.self {
			reply <- err
			return
		}
		entry := &raftpb.Message{Type: raftpb.MsgProp.Enum(), From: new(uint64(g.self)), Entries: []*raftpb.Entry{{}}}
		if len(g.moves.trials) >= maxTrials || g.node.Step(entry) != nil {
			reply <- ErrBusy
			return
		}
		g.moves.trials = append(g.moves.trials, trial{to: to, most: most, begun: d.loop.now, reply: reply})
		d.touch(g)
	})
}

// placeTrials gives new trials the position of the newest entry: theirs, or one that is stored after it.
func (g *group) placeTrials(entries []*raftpb.Entry) {
	if len(entries) == 0 {
		return
	}
	for i := range g.moves.trials {
		if g.moves.trials[i].index == 0 {
			g.moves.trials[i].index = entries[len(entries)-1].GetIndex()
		}
	}
}

// checkTrials answers the trials that are decided.
func (d *Driver) checkTrials(g *group) {
	waiting := g.moves.trials[:0]
	for _, t := range g.moves.trials {
		took := d.loop.now - t.begun
		if t.majority == 0 && t.index != 0 && g.node.BasicStatus().GetCommit() >= t.index {
			t.majority = max(took, 1)
		}
		limit := max(trialLeast, t.most, trialFactor*t.majority)
		if t.majority == 0 {
			limit = max(limit, d.electionTimeout()) // nobody is known to be faster
		}
		switch {
		case took > limit:
			t.reply <- fmt.Errorf("%w: node %d is slow to store an entry: %v, a majority %v", ErrTransferFailed, t.to, took, t.majority)
		case t.index != 0 && g.match(t.to) >= t.index:
			t.reply <- nil
		default:
			waiting = append(waiting, t)
		}
	}
	clear(g.moves.trials[len(waiting):])
	g.moves.trials = waiting
}

// failTrials ends all trials with an error.
func (g *group) failTrials(err error) {
	for _, t := range g.moves.trials {
		t.reply <- err
	}
	g.moves.trials = nil
}
