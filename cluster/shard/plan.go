package shard

import (
	"cmp"
	"slices"
)

// Plan returns the next steps towards the placement that the policy describes: at most one per shard, each safe regardless of the
// others, the most urgent first, and none if the placement is as wanted. Plan keeps no state: after some or all of the steps the
// caller observes again and calls it anew.
//
// The goal: every shard has the same number of replicas, as many as the policy says or as there are nodes, and the largest odd
// number of them vote. Every node has a replica of the directory. Replicas and leaders are spread evenly, within one, the latter
// over the nodes whose log is not slow. Draining nodes hold nothing, and a node that does not come back is replaced if another one can take its place.
//
// The safety rules: a replica gets a vote only once it has caught up. A live replica is removed only after its successor votes. No
// change leaves a shard without a majority of voters that are live and caught up. A leader is never removed; it transfers the
// leadership first.
func Plan(view View, policy Policy) []Step {
	p := newPlanner(&view, policy)
	if p.copies == 0 {
		return nil // no node can take anything
	}
	p.assign()
	steps := p.reshape()
	steps = append(steps, p.spreadLeaders(steps)...)
	return append(steps, p.drops(steps)...)
}

// planner is a view with its indexes and the wanted placement.
type planner struct {
	policy Policy
	groups []*Group // by shard
	nodes  map[NodeID]*Node
	// order has the nodes by name, so that equal views give equal plans.
	order       []*Node
	initialised map[copyOf]bool
	replicas    []Replica
	// complete means that every shard has a leader, calm that no node is expected back soon and none may have died unnoticed.
	// Only then is anything moved for balance.
	complete, calm bool
	// copies is the wanted number of replicas of each shard, votes the wanted number of voters among them.
	copies, votes int
	// want has the nodes on which a shard should have its replicas; load is the number of replicas of each node by want.
	want map[ID][]NodeID
	load map[NodeID]int
	// leading is how many shards a node leads.
	leading map[NodeID]int
	// quick means that a node without a slow log can lead.
	quick bool
}

type copyOf struct {
	shard ID
	node  NodeID
}

func newPlanner(view *View, policy Policy) *planner {
	p := &planner{
		policy: policy, nodes: make(map[NodeID]*Node), initialised: make(map[copyOf]bool), replicas: view.Replicas,
		want: make(map[ID][]NodeID), load: make(map[NodeID]int), leading: make(map[NodeID]int), calm: !policy.Unsettled,
	}
	staying, keeping := 0, 0
	for i := range view.Nodes {
		n := &view.Nodes[i]
		p.nodes[n.ID] = n
		p.order = append(p.order, n)
		if !n.Draining {
			staying++
			restarting := n.Leaving || !n.Live && n.Away < policy.RestartGrace
			p.calm = p.calm && !restarting
		}
		if p.keeps(n.ID) {
			keeping++
		}
	}
	slices.SortFunc(p.order, func(a, b *Node) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	for _, r := range view.Replicas {
		p.initialised[copyOf{r.Shard, r.Node}] = r.Initialised
	}
	for i := range view.Groups {
		g := &view.Groups[i]
		if p.nodes[g.Leader] != nil && slices.Contains(g.Voters, g.Leader) {
			p.groups = append(p.groups, g)
			p.leading[g.Leader]++
		}
	}
	slices.SortFunc(p.groups, func(a, b *Group) int { return cmp.Compare(a.Shard, b.Shard) })
	p.quick = slices.ContainsFunc(p.order, func(n *Node) bool { return p.leads(n.ID) && !n.Slow })
	p.complete = len(p.groups) == view.Count+1
	p.copies = min(policy.Replication, keeping)
	// Votes are not removed because a node is dead: with one voter fewer, one loss fewer would lose data.
	p.votes = largestOdd(min(policy.Replication, staying))
	return p
}

func largestOdd(n int) int { return max(0, n-(n+1)%2) }

// keeps reports whether a node may keep its replicas: it is live or expected back.
func (p *planner) keeps(id NodeID) bool {
	n := p.nodes[id]
	return n != nil && !n.Draining && (n.Live || n.Away < p.policy.DeadAfter)
}

// takes reports whether a node can get a replica of a shard.
func (p *planner) takes(n *Node, g *Group) bool {
	return n.Live && !n.Draining && !n.Leaving && (n.Free == 0 || n.Free > 2*g.Bytes+p.policy.MinFree)
}

// leads reports whether a node can get leaderships.
func (p *planner) leads(id NodeID) bool {
	n := p.nodes[id]
	return n != nil && n.Live && !n.Draining && !n.Leaving
}

// slow reports whether a node should lead nothing that others can lead.
func (p *planner) slow(id NodeID) bool { return p.quick && p.nodes[id].Slow }

// alive reports whether a member is live, also by its leader's report.
func (p *planner) alive(g *Group, id NodeID) bool {
	if id == g.Leader {
		return true
	}
	n := p.nodes[id]
	lag, known := g.lag(id)
	return n != nil && n.Live && known && lag.Active
}

// caughtUp reports whether a member is live and has nearly all of the log.
func (p *planner) caughtUp(g *Group, id NodeID) bool {
	if id == g.Leader {
		return true
	}
	lag, _ := g.lag(id)
	return p.alive(g, id) && lag.Entries <= p.policy.CaughtUp && p.initialised[copyOf{g.Shard, id}]
}

// safe reports whether a majority of the given voters of a shard is live and caught up.
func (p *planner) safe(g *Group, voters []NodeID) bool {
	n := 0
	for _, id := range voters {
		if p.caughtUp(g, id) {
			n++
		}
	}
	return n > len(voters)/2
}

func (p *planner) step(change Change, g *Group, node NodeID, why string) *Step {
	return &Step{Change: change, Shard: g.Shard, Node: node, Leader: g.Leader, Voters: g.Voters, Learners: g.Learners, Why: why}
}

// group returns a shard as its leader reports it, nil if it has no leader.
func (p *planner) group(in ID) *Group {
	at, found := slices.BinarySearchFunc(p.groups, in, func(g *Group, in ID) int { return cmp.Compare(g.Shard, in) })
	if !found {
		return nil
	}
	return p.groups[at]
}

// drops returns the deletions of replicas that are neither members nor wanted.
func (p *planner) drops(taken []Step) []Step {
	var steps []Step
	for _, r := range p.replicas {
		g, n := p.group(r.Shard), p.nodes[r.Node]
		if g == nil || n == nil || !n.Live || g.member(r.Node) || p.wants(g, r.Node) || r.Epoch > g.Epoch {
			continue
		}
		same := func(s Step) bool { return s.Shard == g.Shard }
		if p.policy.Busy[g.Shard] || slices.ContainsFunc(taken, same) || slices.ContainsFunc(steps, same) {
			continue
		}
		step := p.step(Drop, g, r.Node, "it is no member any more")
		step.AsOf = g.Applied
		if steps = append(steps, *step); len(steps) == p.policy.MaxChanges {
			break
		}
	}
	return steps
}
