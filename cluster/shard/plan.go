package shard

import (
	"cmp"
	"slices"
)

// Plan returns the next steps towards a cluster that looks as the policy says: at most one of each shard, each safe
// whatever becomes of the others, the more urgent first. A cluster that is as it should be needs none. It remembers
// nothing: whoever makes steps observes again and plans anew, and may stop anywhere.
//
// Where it leads to: every shard has the same number of copies, as many as the policy says or as there are nodes for,
// the largest odd number of them with a vote; every node has a copy of the directory; copies and leaders are spread
// evenly, within one; nothing is left on nodes that are to be emptied, and nothing waits for a node that does not come
// back where another can take its place.
//
// How it is safe: a copy gets a vote only once it has caught up; one that is alive is only removed after its successor
// has a vote; no change leaves a shard without a majority of voters that are there and caught up; a leader is never
// removed but hands over first.
func Plan(view View, policy Policy) []Step {
	p := newPlanner(&view, policy)
	if p.copies == 0 {
		return nil // there is no node for anything
	}
	p.assign()
	steps := p.reshape()
	steps = append(steps, p.spreadLeaders(steps)...)
	return append(steps, p.drops(steps)...)
}

// planner is a view with what is looked up often, and what is wanted.
type planner struct {
	policy Policy
	groups []*Group // by shard
	nodes  map[NodeID]*Node
	// order has the nodes by name, so that the same view gives the same plan.
	order       []*Node
	initialised map[copyOf]bool
	replicas    []Replica
	// complete says that every shard has a leader, calm that no node is expected back soon or about to be missed:
	// only then things are moved just to be even.
	complete, calm bool
	// copies is how many of each shard there should be, votes how many of them should vote.
	copies, votes int
	// want is on which nodes a shard should have its copies; load is how many copies a node has that way.
	want map[ID][]NodeID
	load map[NodeID]int
	// leading is how many shards a node leads.
	leading map[NodeID]int
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
	p.complete = len(p.groups) == view.Count+1
	p.copies = min(policy.Replication, keeping)
	// Votes are not taken away because a node is dead: with a vote less it would take one loss less to lose data.
	p.votes = largestOdd(min(policy.Replication, staying))
	return p
}

func largestOdd(n int) int { return max(0, n-(n+1)%2) }

// keeps says that what a node has may stay there: it is there, or expected back.
func (p *planner) keeps(id NodeID) bool {
	n := p.nodes[id]
	return n != nil && !n.Draining && (n.Live || n.Away < p.policy.DeadAfter)
}

// takes says that a node can be given a copy of a shard.
func (p *planner) takes(n *Node, g *Group) bool {
	return n.Live && !n.Draining && !n.Leaving && (n.Free == 0 || n.Free > 2*g.Bytes+p.policy.MinFree)
}

// leads says that a node can be given leaders.
func (p *planner) leads(id NodeID) bool {
	n := p.nodes[id]
	return n != nil && n.Live && !n.Draining && !n.Leaving
}

// alive says that a member is there, as far as its leader can tell.
func (p *planner) alive(g *Group, id NodeID) bool {
	if id == g.Leader {
		return true
	}
	n := p.nodes[id]
	lag, known := g.lag(id)
	return n != nil && n.Live && known && lag.Active
}

// caughtUp says that a member is there and has (about) everything.
func (p *planner) caughtUp(g *Group, id NodeID) bool {
	if id == g.Leader {
		return true
	}
	lag, _ := g.lag(id)
	return p.alive(g, id) && lag.Entries <= p.policy.CaughtUp && p.initialised[copyOf{g.Shard, id}]
}

// safe says that a shard with these voters has a majority of them there and caught up.
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

// group returns a shard as its leader sees it, nil when it has none.
func (p *planner) group(in ID) *Group {
	at, found := slices.BinarySearchFunc(p.groups, in, func(g *Group, in ID) int { return cmp.Compare(g.Shard, in) })
	if !found {
		return nil
	}
	return p.groups[at]
}

// drops returns the deletions of copies that are no members and are not wanted.
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
