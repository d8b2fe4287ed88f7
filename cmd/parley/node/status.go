package node

import (
	"context"
	"fmt"
	"slices"
	"time"

	"parley/actors/core/failure"
	"parley/actors/core/feature"
	"parley/cluster"
	"parley/cluster/membership"
	"parley/cluster/shard"
	"parley/httpedge/web"
	"parley/proto/failurepb"
	"parley/proto/nodepb"
)

// Status is the cluster as one node sees it: `parley status` prints it, GET /v1/status of the operations listener returns it.
type Status struct {
	Cluster     string        `json:"cluster"`
	Node        string        `json:"node"`
	Replication int           `json:"replication"`
	Placer      string        `json:"placer"` // node whose placement loop runs: the owner of shard 0
	Ready       string        `json:"ready"`  // "yes", or why not
	Level       uint32        `json:"feature_level"`
	Nodes       []Member      `json:"nodes"`
	Shards      []ShardStatus `json:"shards"`
	Steps       []StepStatus  `json:"steps"` // newest last; only on the placer
}

// Member is one node.
type Member struct {
	Name     string  `json:"name"`
	ID       string  `json:"id"`    // hexadecimal: larger than JSON numbers are exact
	State    string  `json:"state"` // joining, active, draining, drained, leaving, down
	Since    string  `json:"since,omitempty"`
	HTTP     string  `json:"http,omitempty"`
	Ops      string  `json:"ops,omitempty"`
	Leads    int     `json:"leads"`
	Replicas int     `json:"replicas"`
	DiskFree uint64  `json:"disk_free_bytes"`
	Heard    float64 `json:"heard_seconds_ago"`
	Level    uint32  `json:"feature_level"` // newest that its release has
}

// ShardStatus is one shard.
type ShardStatus struct {
	Shard    uint32          `json:"shard"`
	Owner    string          `json:"owner"` // empty = none known
	Epoch    uint64          `json:"epoch"`
	Voters   []string        `json:"voters"`
	Learners []string        `json:"learners"`
	Bytes    uint64          `json:"bytes"`
	Lags     []ReplicaStatus `json:"lags,omitempty"`
}

// ReplicaStatus is how far a member is behind its shard's owner.
type ReplicaStatus struct {
	Node    string `json:"node"`
	Entries uint64 `json:"entries"`
	Active  bool   `json:"active"`
}

// StepStatus is one step of the placement loop.
type StepStatus struct {
	At    time.Time `json:"at"`
	Step  string    `json:"step"`
	Error string    `json:"error,omitempty"`
}

// statusNow returns this node's Status.
func (n *Node) statusNow(context.Context) (any, error) {
	if n.storeIfOpen() == nil {
		return nil, failure.New(failurepb.Code_UNAVAILABLE, failure.NodeStarting)
	}
	s := &Status{
		Cluster: n.store.Identity().ClusterID, Node: n.config.Node.Name, Replication: 1, Ready: "yes",
		Level: uint32(n.features.Level()),
		Nodes: []Member{}, Shards: []ShardStatus{}, Steps: []StepStatus{},
	}
	if err := n.unready(); err != nil {
		s.Ready = err.Error()
	}
	if owner, known := n.owners.Owner(shard.Directory); known {
		s.Placer = owner.Node
	}
	if n.links == nil {
		n.statusAlone(s)
		return s, nil
	}
	s.Replication = n.config.Cluster.Replication
	board := n.links.board.Snapshot()
	n.statusNodes(s, &board)
	n.statusShards(s, &board)
	n.statusSteps(s)
	return s, nil
}

func (n *Node) statusAlone(s *Status) {
	shards := n.shards.Count() + 1
	s.Nodes = append(s.Nodes, Member{
		Name: n.config.Node.Name, ID: fmt.Sprintf("%016x", n.store.Identity().NodeID), State: "active",
		HTTP: n.Addr().String(), Ops: n.OpsAddr().String(), Leads: shards, Replicas: shards, DiskFree: n.store.FreeBytes(),
		Level: uint32(feature.Newest),
	})
	for in := range shards {
		owner, _ := n.owners.Owner(shard.ID(in))
		s.Shards = append(s.Shards, ShardStatus{
			Shard: uint32(in), Owner: owner.Node, Epoch: uint64(owner.Epoch), Voters: []string{n.config.Node.Name}, Learners: []string{},
		})
	}
}

func (n *Node) statusNodes(s *Status, board *cluster.View) {
	addresses := make(map[string]membership.Member)
	for _, m := range n.links.membersKnown() {
		addresses[m.Name] = m
	}
	for i := range board.Nodes {
		v := &board.Nodes[i]
		made := Member{
			Name: v.Name, ID: fmt.Sprintf("%016x", v.Node), State: n.nodeState(v), HTTP: addresses[v.Name].HTTPAddr,
			Ops: addresses[v.Name].OpsAddr, Leads: v.Leads, Replicas: v.Replicas, DiskFree: v.Report.GetDiskFree(),
			Level: addresses[v.Name].Level,
		}
		if v.Gone {
			made.Since = v.GoneSince.UTC().Format(time.RFC3339)
		}
		if !v.Heard.IsZero() {
			made.Heard = board.At.Sub(v.Heard).Seconds()
		}
		s.Nodes = append(s.Nodes, made)
	}
}

// HasJoined reports whether the node has begun without data, in a cluster that gives it copies of shards.
func (n *Node) HasJoined() bool { return n.links != nil && n.links.origin.join }

// Copies counts the copies of shards in which the node has a vote, and its equal share of all that the nodes which are there can hold; 0
// while it has heard of no other node. A node that is alone has none.
func (n *Node) Copies() (held, share int) {
	if n.links == nil {
		return 0, 0
	}
	live, voting := 0, make(map[uint32]bool)
	board := n.links.board.Snapshot()
	for i := range board.Nodes {
		v := &board.Nodes[i]
		if v.Gone || v.Report == nil {
			continue
		}
		live++
		for _, r := range v.Report.GetReplicas() {
			if slices.Contains(r.GetVoters(), n.links.origin.node) { // a leader knows them
				voting[r.GetShard()] = true
			}
		}
	}
	held = len(voting)
	if live < 2 {
		return held, 0
	}
	copies := min(n.config.Cluster.Replication, live-(live+1)%2) // an odd number, see cluster.replication
	return held, (n.shards.Count() + 1) * copies / live
}

// nodeState is the value of Member.State.
func (n *Node) nodeState(v *cluster.NodeView) string {
	record, version, err := n.nodeRecord(v.Name)
	switch {
	case v.Gone:
		return "down"
	case err == nil && record.State == stateDraining && v.Replicas == 0:
		return "drained"
	case err == nil && record.State == stateDraining:
		return stateDraining
	case v.Leaving:
		return "leaving"
	case version == 0:
		return "joining"
	}
	return stateActive
}

func (n *Node) statusShards(s *Status, board *cluster.View) {
	name := func(node uint64) string {
		if found, known := board.Name(node); known {
			return found
		}
		return fmt.Sprintf("%016x", node)
	}
	leaders := make(map[uint32]*nodepb.Replica)
	for i := range board.Nodes {
		for _, r := range board.Nodes[i].Report.GetReplicas() {
			if held := leaders[r.GetShard()]; r.GetLeading() && !board.Nodes[i].Gone && (held == nil || held.GetEpoch() < r.GetEpoch()) {
				leaders[r.GetShard()] = r
			}
		}
	}
	for in := range uint32(n.shards.Count()) + 1 {
		owner, _ := n.owners.Owner(shard.ID(in))
		made := ShardStatus{Shard: in, Owner: owner.Node, Epoch: uint64(owner.Epoch), Voters: []string{}, Learners: []string{}}
		if r := leaders[in]; r != nil {
			made.Bytes = r.GetBytes()
			for _, node := range r.GetVoters() {
				made.Voters = append(made.Voters, name(node))
			}
			for _, node := range r.GetLearners() {
				made.Learners = append(made.Learners, name(node))
			}
			for _, lag := range r.GetLags() {
				made.Lags = append(made.Lags, ReplicaStatus{Node: name(lag.GetNode()), Entries: lag.GetEntries(), Active: lag.GetActive()})
			}
			slices.Sort(made.Voters)
			slices.Sort(made.Learners)
		}
		s.Shards = append(s.Shards, made)
	}
}

// view is the cluster as the page shows it.
func (n *Node) view(_ context.Context, conversation string) web.View {
	v := web.View{Node: n.config.Node.Name}
	if in, valid := n.shards.Of(conversation); valid {
		if owner, known := n.owners.Owner(in); known {
			v.Owner, v.Epoch = owner.Node, uint64(owner.Epoch)
		}
	}
	if n.links == nil {
		return v
	}
	addresses := make(map[string]string)
	for _, m := range n.links.membersKnown() {
		addresses[m.Name] = m.HTTPAddr
	}
	states := map[string]web.NodeState{
		"down": web.NodeDown, stateDraining: web.NodeDraining, "drained": web.NodeDraining, "leaving": web.NodeLeaving,
	}
	board := n.links.board.Snapshot()
	for i := range board.Nodes {
		node := &board.Nodes[i]
		state, special := states[n.nodeState(node)]
		if !special {
			state = web.NodeUp
		}
		made := web.NodeView{Name: node.Name, State: state, Leads: node.Leads, Replicas: node.Replicas}
		if at := addresses[node.Name]; at != "" {
			made.URL = "http://" + at
		}
		v.Nodes = append(v.Nodes, made)
	}
	return v
}

// statusSteps adds the last steps of this node's placement loop.
func (n *Node) statusSteps(s *Status) {
	loop := n.links.loop.Load()
	if loop == nil {
		return
	}
	for _, done := range loop.Status().Done {
		made := StepStatus{At: done.At, Step: done.Step}
		if done.Err != nil {
			made.Error = done.Err.Error()
		}
		s.Steps = append(s.Steps, made)
	}
}
