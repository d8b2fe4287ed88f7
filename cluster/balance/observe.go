package balance

import (
	"time"

	"parley/cluster"
	"parley/cluster/shard"
	"parley/proto/nodepb"
)

// observation is the state of the cluster according to records and reports.
type observation struct {
	view  shard.View
	names map[shard.NodeID]string
	// heard is when the leader of a shard last reported.
	heard map[shard.ID]time.Time
	// delays is how long the logs of live nodes took of late, where they say.
	delays map[shard.NodeID]time.Duration
}

// observe joins the records, which say which nodes belong to the cluster, with the board, which says which are live. A live node
// without a record, or with another data directory than the recorded one, does not count yet: it is registered first.
func observe(records []Record, board *cluster.View, shards int, silence time.Duration) *observation {
	o := &observation{
		view:  shard.View{Count: shards},
		names: make(map[shard.NodeID]string), heard: make(map[shard.ID]time.Time), delays: make(map[shard.NodeID]time.Duration),
	}
	seen := make(map[string]*cluster.NodeView, len(board.Nodes))
	for i := range board.Nodes {
		seen[board.Nodes[i].Name] = &board.Nodes[i]
	}
	leaders := make(map[shard.ID]shard.Group)
	for _, record := range records {
		id := shard.NodeID(record.Node)
		n := shard.Node{ID: id, Name: record.Name, Draining: record.Draining}
		o.names[id] = record.Name
		at := seen[record.Name]
		n.Live = live(at, board.At, silence) && at.Node == record.Node
		if n.Live {
			n.Leaving, n.Free, n.Unreached = at.Leaving, at.Report.GetDiskFree(), ids(at.Report.GetUnreached())
			if delay := at.Report.GetLogDelayMs(); delay > 0 {
				o.delays[id] = time.Duration(delay) * time.Millisecond
			}
			o.report(at, id, leaders)
		} else {
			n.Away = away(at, board)
		}
		o.view.Nodes = append(o.view.Nodes, n)
	}
	for _, g := range leaders {
		o.view.Groups = append(o.view.Groups, g)
	}
	return o
}

// live reports whether gossip lists a node and its reports arrive.
func live(n *cluster.NodeView, now time.Time, silence time.Duration) bool {
	return n != nil && !n.Gone && n.Report != nil && now.Sub(n.Heard) <= silence
}

// away returns how long a node has not been live, counted from the creation of the board at the earliest.
func away(n *cluster.NodeView, board *cluster.View) time.Duration {
	last := board.Since
	if n != nil {
		if n.Heard.After(last) {
			last = n.Heard
		}
		if n.Gone && n.GoneSince.After(last) {
			last = n.GoneSince
		}
	}
	return board.At.Sub(last)
}

// report adds a node's report.
func (o *observation) report(n *cluster.NodeView, id shard.NodeID, leaders map[shard.ID]shard.Group) {
	for _, r := range n.Report.GetReplicas() {
		in := shard.ID(r.GetShard())
		if int(in) > o.view.Count {
			continue
		}
		o.view.Replicas = append(o.view.Replicas, shard.Replica{
			Shard: in, Node: id, Epoch: shard.Epoch(r.GetEpoch()), Initialised: r.GetInitialised(),
		})
		if known, found := leaders[in]; r.GetLeading() && (!found || known.Epoch < shard.Epoch(r.GetEpoch())) {
			leaders[in] = group(r, id)
			o.heard[in] = n.Heard
		}
	}
}

func group(r *nodepb.Replica, leader shard.NodeID) shard.Group {
	g := shard.Group{
		Shard: shard.ID(r.GetShard()), Leader: leader, Epoch: shard.Epoch(r.GetEpoch()),
		Applied: r.GetApplied(), Bytes: r.GetBytes(), Turns: int(r.GetTurns()), Voters: ids(r.GetVoters()), Learners: ids(r.GetLearners()),
	}
	for _, lag := range r.GetLags() {
		g.Lags = append(g.Lags, shard.Lag{Node: shard.NodeID(lag.GetNode()), Entries: lag.GetEntries(), Active: lag.GetActive()})
	}
	return g
}

func ids(nodes []uint64) []shard.NodeID {
	made := make([]shard.NodeID, len(nodes))
	for i, n := range nodes {
		made[i] = shard.NodeID(n)
	}
	return made
}
