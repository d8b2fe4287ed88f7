package shard

import (
	"slices"
	"time"
)

// NodeID names the data of a node: one that lost its disk comes back with its old name and a new id.
type NodeID uint64

// View is a cluster as it was observed: what Plan decides on.
type View struct {
	// Count is the number of conversation shards; there is the directory besides.
	Count int
	// Nodes are all that belong to the cluster, also those that are away. A member of a shard that is not among them
	// lost its data and never comes back.
	Nodes []Node
	// Groups are what the leaders say. A shard that has none is left alone.
	Groups []Group
	// Replicas are what the live nodes say that they hold.
	Replicas []Replica
}

// Node is one node.
type Node struct {
	ID   NodeID
	Name string
	// Live says that it is there and reports; Away is for how long it is not.
	Live bool
	Away time.Duration
	// Leaving says that it is about to stop, and that it is expected back.
	Leaving bool
	// Draining says that its leaders and replicas are to go for good.
	Draining bool
	// Free is the room on its disk in bytes; 0 = not known.
	Free uint64
	// Unreached are nodes that it has no connection to.
	Unreached []NodeID
}

// Group is a shard as its leader sees it. Members are in no order.
type Group struct {
	Shard   ID
	Leader  NodeID
	Epoch   Epoch
	Applied uint64 // position in the log
	Bytes   uint64 // about the size of the state
	Voters  []NodeID
	// Learners get the log and have no vote.
	Learners []NodeID
	Lags     []Lag
}

// Lag is how far a member is behind its leader.
type Lag struct {
	Node    NodeID
	Entries uint64
	Active  bool // heard of within an election timeout
}

// Replica is one copy of a shard.
type Replica struct {
	Shard       ID
	Node        NodeID
	Epoch       Epoch // newest that it knows
	Initialised bool  // false = waits for its first snapshot
}

// Change is what a step does.
type Change uint8

// The steps that there are.
const (
	// AddLearner makes a node a member that gets the log and has no vote.
	AddLearner Change = iota + 1
	// Promote gives a learner a vote.
	Promote
	// Remove takes a member out. Its data stays where it is.
	Remove
	// Transfer hands the leadership to a voter.
	Transfer
	// Drop deletes the data of a node that is no member.
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
	// Node is who is added, promoted, removed, given the leadership, or drops its data.
	Node NodeID
	// Leader is the node that leads the shard: it makes the change, but for Drop, which Node makes itself.
	Leader NodeID
	// Voters and Learners are the members that the step is meant for. The leader refuses it when there are others.
	Voters, Learners []NodeID
	// AsOf is the leader's position in the log, of a Drop: who applied more than that is a member again.
	AsOf uint64
	// Why is for people.
	Why string
}

// Policy says how a cluster should look. The zero value is unusable; see DefaultPolicy.
type Policy struct {
	// Replication is how many copies of each shard there should be, an odd number.
	Replication int
	// DeadAfter is how long a node may be away before its copies are made anew where there is a node without.
	DeadAfter time.Duration
	// RestartGrace is how long a node that went away is expected back soon: meanwhile nothing is moved only to be even.
	RestartGrace time.Duration
	// MaxFeeding bounds how many new copies in the cluster are being filled at the same time. Copies of up to 16 MiB count
	// as an eighth.
	MaxFeeding int
	// MaxChanges bounds the changes of members and the deletions in one plan, and MaxTransfers the changes of leaders: each makes one
	// shard pause for a moment.
	MaxChanges, MaxTransfers int
	// CaughtUp is how many entries of the log a copy may be behind and still count as complete.
	CaughtUp uint64
	// MinFree is how many bytes must be free on a disk beside twice the copy for a node to be given one.
	MinFree uint64
	// Unsettled says that leaders changed by themselves a moment ago: some node may be about to be found dead. Nothing is
	// moved only to be even then.
	Unsettled bool
	// Outreached says that what Outreached says has been so for a while.
	Outreached bool
	// Busy are shards to be left alone this time.
	Busy map[ID]bool
}

// DefaultPolicy returns what is right for most.
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
