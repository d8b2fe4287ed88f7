package shard

import (
	"slices"
	"time"
)

// NodeID identifies the data directory of a node: a node that lost its disk comes back with its old name and a new id.
type NodeID uint64

// View is an observed state of the cluster, the input of Plan.
type View struct {
	// Count is the number of conversation shards, without the directory.
	Count int
	// Nodes are all nodes that belong to the cluster, live or not. A member of a shard that is not among them lost its data
	// and never comes back.
	Nodes []Node
	// Groups are the shards as reported by their leaders. A shard without a leader gets no steps.
	Groups []Group
	// Replicas are the replicas that the live nodes report.
	Replicas []Replica
}

// Node is one node.
type Node struct {
	ID   NodeID
	Name string
	// Live means that the node is up and reports; Away is how long it has not been.
	Live bool
	Away time.Duration
	// Leaving means that it is about to stop and is expected back.
	Leaving bool
	// Draining means that its leaderships and replicas are to be moved away for good.
	Draining bool
	// Free is the free space on its disk in bytes; 0 = not known.
	Free uint64
	// Slow means that its log is much slower than those of others: what it leads is slow, what it follows is not.
	Slow bool
	// Unreached are the nodes that it has no connection to.
	Unreached []NodeID
}

// Group is a shard as its leader reports it. Members are in no particular order.
type Group struct {
	Shard   ID
	Leader  NodeID
	Epoch   Epoch
	Applied uint64 // position in the log
	Bytes   uint64 // approximate size of the state
	Voters  []NodeID
	// Learners receive the log but do not vote.
	Learners []NodeID
	Lags     []Lag
	Turns    int // that run
}

// Lag is how far a member is behind its leader.
type Lag struct {
	Node    NodeID
	Entries uint64
	Active  bool // heard of within an election timeout
}

// Replica is one replica of a shard.
type Replica struct {
	Shard       ID
	Node        NodeID
	Epoch       Epoch // the newest that it knows
	Initialised bool  // false = waits for its first snapshot
}

// Change is the kind of a step.
type Change uint8

// The kinds of steps.
const (
	// AddLearner makes a node a member that receives the log but does not vote.
	AddLearner Change = iota + 1
	// Promote gives a learner a vote.
	Promote
	// Remove removes a member. Its data stays on the node.
	Remove
	// Transfer transfers the leadership to a voter.
	Transfer
	// Drop deletes the data of a node that is not a member.
	Drop
)

func (c Change) String() string {
	switch c {
	case AddLearner:
		return "add_learner"
	case Promote:
		return "promote"
	case Remove:
		return "remove"
	case Transfer:
		return "transfer"
	case Drop:
		return "drop"
	}
	return "unknown"
}

// Step is one safe change of one shard.
type Step struct {
	Change Change
	Shard  ID
	// Node is the node that is added, promoted or removed, gets the leadership, or drops its data.
	Node NodeID
	// Leader is the node that leads the shard. It carries out the change, except Drop, which Node carries out itself.
	Leader NodeID
	// Voters and Learners are the members that the step was planned for. The leader refuses the step if the shard has others.
	Voters, Learners []NodeID
	// AsOf, for Drop, is the leader's log position. A replica that has applied more is a member again.
	AsOf uint64
	// AtRest, for Transfer, has the leader refuse it while turns of the shard run.
	AtRest bool
	// Why is the reason, for operators.
	Why string
}

// Policy describes the wanted placement. The zero value is invalid; see DefaultPolicy.
type Policy struct {
	// Replication is the wanted number of replicas of each shard, an odd number.
	Replication int
	// DeadAfter is how long a node may be away before its replicas are replaced, if there is a node to take them.
	DeadAfter time.Duration
	// RestartGrace is how long a node that went away is expected to return soon. Nothing is moved for balance meanwhile.
	RestartGrace time.Duration
	// MaxFeeding bounds the number of new replicas that are being filled at the same time. Replicas of up to 16 MiB count as
	// an eighth.
	MaxFeeding int
	// MaxChanges bounds the membership changes and deletions in one plan, MaxTransfers the leadership transfers. Each transfer
	// pauses a shard briefly.
	MaxChanges, MaxTransfers int
	// CaughtUp is how many log entries a replica may lag and still count as caught up.
	CaughtUp uint64
	// MinFree is how many bytes a disk must have free, besides twice the size of a replica, to get that replica.
	MinFree uint64
	// Unsettled means that leaders changed recently without a planned transfer, so a node may have died unnoticed. Nothing is
	// moved for balance then.
	Unsettled bool
	// AtRest means that leaders are spread only by shards without running turns: what a turn has not finished is done, and paid,
	// again after a transfer.
	AtRest bool
	// Outreached means that the function Outreached has returned true for a while.
	Outreached bool
	// Busy are shards that get no step in this plan.
	Busy map[ID]bool
}

// DefaultPolicy returns the policy for ordinary clusters.
func DefaultPolicy() Policy {
	return Policy{
		Replication: 3, DeadAfter: 5 * time.Minute, RestartGrace: 30 * time.Second,
		MaxFeeding: 2, MaxChanges: 8, MaxTransfers: 2, CaughtUp: 1000, MinFree: 256 << 20,
	}
}

func (g *Group) member(node NodeID) bool {
	return slices.Contains(g.Voters, node) || slices.Contains(g.Learners, node)
}

func (g *Group) lag(node NodeID) (Lag, bool) {
	for _, lag := range g.Lags {
		if lag.Node == node {
			return lag, true
		}
	}
	return Lag{}, false
}
