package replica

import (
	"log/slog"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/tracker"
)

const (
	// stuckCommit is how long a commit of the log may take before this node transfers its leaderships away: it does not
	// apply its proposals before they are on its own disk, whatever the others have.
	stuckCommit = 2 * time.Second
	// handOverEvery is the time between two attempts.
	handOverEvery = time.Second
)

// leaveStuckDisk hands leaderships over while the disk of this node takes no writes. It goes on as a follower.
func (d *Driver) leaveStuckDisk() {
	since := time.Duration(d.committing.Load())
	if since == 0 || d.loop.now-since < stuckCommit || d.loop.now < d.loop.nextHandOver {
		return
	}
	d.loop.nextHandOver = d.loop.now + handOverEvery
	for _, g := range d.loop.order {
		if g.role.state != raft.StateLeader {
			continue
		}
		if to := d.heir(g); to != 0 {
			d.logger.Warn("the disk is stuck, handing leadership over", slog.Uint64("shard", uint64(g.id)), slog.Uint64("to", uint64(to)),
				slog.Duration("elapsed", d.loop.now-since))
			g.node.TransferLeader(uint64(to))
			d.touch(g)
		}
	}
}

// heir is the active voter that is least behind, 0 if there is none.
func (d *Driver) heir(g *group) NodeID {
	var to NodeID
	var best uint64
	g.node.WithProgress(func(id uint64, kind raft.ProgressType, pr tracker.Progress) {
		if node := NodeID(id); kind == raft.ProgressTypePeer && node != g.self && pr.Match > best && d.active(g, node) {
			to, best = node, pr.Match
		}
	})
	return to
}
