package replica

import (
	"log/slog"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
)

// ReportDown reports that the process of a node is certainly gone, for instance because its port refuses connections.
// The groups that it led elect a new leader at once, instead of after an election timeout. A mistake does little harm:
// nodes that still hear from the leader refuse their votes, and the leader's next heartbeat restores it. It never
// blocks. For lost messages use ReportUnreachable.
func (d *Driver) ReportDown(node NodeID) {
	if d.running.Load() {
		d.inbox.call(func() { d.stepDown(node) })
	}
}

func (d *Driver) stepDown(node NodeID) {
	for _, g := range d.loop.order {
		voters := g.shared.members.Load().Voters
		if g.role.leader != node || node == g.self || g.role.state != raft.StateFollower || !slices.Contains(voters, g.self) {
			continue
		}
		if err := g.node.ForgetLeader(); err != nil {
			d.logger.Warn("cannot forget the leader", slog.Uint64("shard", uint64(g.id)), slog.Any("err", err))
			continue
		}
		g.role.campaignAt = d.loop.now + time.Duration(1+2*turn(g, voters, node))*d.cfg.TickInterval
		d.touch(g)
	}
}

// turn is how many voters campaign before this node when the leader is down. They take turns so as not to split the
// vote, and each group begins with a different voter, so that the groups of a dead leader spread.
func turn(g *group, voters []NodeID, down NodeID) int {
	rest := slices.Sorted(slices.Values(voters))
	rest = slices.DeleteFunc(rest, func(v NodeID) bool { return v == down })
	own, first := slices.Index(rest, g.self), int(g.id)%len(rest)
	return (own - first + len(rest)) % len(rest)
}

// standIn campaigns when it is this node's turn and there is still no leader.
func (d *Driver) standIn(g *group) {
	if g.role.campaignAt == 0 || d.loop.now < g.role.campaignAt {
		return
	}
	g.role.campaignAt = 0
	if g.role.leader != 0 || g.role.state != raft.StateFollower {
		return
	}
	if err := g.node.Campaign(); err != nil {
		d.logger.Warn("cannot campaign", slog.Uint64("shard", uint64(g.id)), slog.Any("err", err))
	}
}
