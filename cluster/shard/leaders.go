package shard

import (
	"cmp"
	"slices"
)

// spreadLeaders returns transfers that spread the leaderships evenly over the nodes whose log is not slow, as far as voters and the bound
// allow. It returns none while
// members change, because each change would alter the result.
func (p *planner) spreadLeaders(taken []Step) []Step {
	if !p.complete || !p.calm || slices.ContainsFunc(taken, func(s Step) bool { return s.Change != Transfer }) {
		return nil
	}
	left := p.policy.MaxTransfers - len(taken)
	moving := make(map[ID]bool)
	for _, s := range taken {
		moving[s.Shard] = true
	}
	var steps []Step
	for left > 0 {
		path := p.relief(moving)
		if path == nil {
			break
		}
		// Each transfer of the chain leaves the spread as it is or improves it; the last one comes first, to make room.
		slices.Reverse(path)
		for _, h := range path[:min(len(path), left)] {
			why := "its node leads more than others"
			if p.slow(h.group.Leader) {
				why = "the log of its node is slow"
			}
			step := p.step(Transfer, h.group, h.to, why)
			step.AtRest = p.policy.AtRest
			steps = append(steps, *step)
			moving[h.group.Shard] = true
			p.handOver(h.group, h.to)
		}
		left -= len(path)
	}
	return steps
}

// Uneven reports whether leaderships could be spread more evenly, by shards whose turns run, too.
func Uneven(view View, policy Policy) bool {
	policy.AtRest = false
	p := newPlanner(&view, policy)
	if p.copies == 0 {
		return false
	}
	p.assign()
	return p.complete && p.calm && p.relief(map[ID]bool{}) != nil
}

type handover struct {
	group *Group
	to    NodeID
}

// relief finds a transfer from a node with a slow log, or a chain of transfers from a node to one that leads at least two fewer; nil if
// there is none. Those that lead most come first.
func (p *planner) relief(moving map[ID]bool) []handover {
	var leaders []NodeID
	for _, n := range p.order {
		if p.leads(n.ID) {
			leaders = append(leaders, n.ID)
		}
	}
	slices.SortStableFunc(leaders, func(a, b NodeID) int {
		return cmp.Or(order(p.slow(b), p.slow(a)), cmp.Compare(p.leading[b], p.leading[a]))
	})
	for _, from := range leaders {
		if path := p.reliefOf(from, moving); path != nil {
			return path
		}
	}
	return nil
}

func (p *planner) reliefOf(most NodeID, moving map[ID]bool) []handover {
	reached := map[NodeID][]handover{most: {}}
	for queue := []NodeID{most}; len(queue) > 0; queue = queue[1:] {
		from := queue[0]
		for _, h := range p.handovers(from, moving) {
			if _, known := reached[h.to]; known {
				continue
			}
			path := append(slices.Clone(reached[from]), h)
			if p.slow(most) || p.leading[most]-p.leading[h.to] >= 2 {
				return path
			}
			reached[h.to] = path
			queue = append(queue, h.to)
		}
	}
	return nil
}

// handovers returns the transfers that a node can make: those to nodes that lead least first, of shards with few running turns first,
// and the directory last, because the placement loop moves with it.
func (p *planner) handovers(from NodeID, moving map[ID]bool) []handover {
	var all []handover
	for i := range p.groups {
		g := p.groups[(i+1)%len(p.groups)]
		if g.Leader != from || moving[g.Shard] || p.policy.Busy[g.Shard] || p.policy.AtRest && g.Turns > 0 {
			continue
		}
		for _, id := range g.Voters {
			if id != from && p.leads(id) && !p.slow(id) && p.caughtUp(g, id) && slices.Contains(p.want[g.Shard], id) &&
				(g.Shard != Directory || p.unreached(id) <= p.unreached(from)) {
				all = append(all, handover{g, id})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b handover) int {
		return cmp.Or(cmp.Compare(p.leading[a.to], p.leading[b.to]), cmp.Compare(a.group.Turns, b.group.Turns))
	})
	return all
}

// Outreached reports whether another voter of the directory can lead it and reaches more live nodes than the leader does. Every
// node reads its own replica of the directory, which receives updates from the leader only: a node that a broken network separates
// from the leader would get none. Other shards only need a majority, since requests are routed to the leader.
func Outreached(view View, policy Policy) bool {
	p := newPlanner(&view, policy)
	g := p.group(Directory)
	if g == nil {
		return false
	}
	_, found := p.farther(g)
	return found
}

// farther returns the voter that reaches the most live nodes, if it reaches more than the leader does. It is one that the leader
// reaches: leadership is handed over directly, and what the leader does not reach may have just died, with a last report that
// names nobody.
func (p *planner) farther(g *Group) (best NodeID, found bool) {
	fewest := p.unreached(g.Leader)
	for _, n := range p.order {
		if leader := p.nodes[g.Leader]; leader != nil && slices.Contains(leader.Unreached, n.ID) {
			continue
		}
		if missed := p.unreached(n.ID); missed < fewest && slices.Contains(g.Voters, n.ID) && p.leads(n.ID) && p.caughtUp(g, n.ID) {
			best, found, fewest = n.ID, true, missed
		}
	}
	return best, found
}

// unreached returns the number of live nodes that a node does not reach.
func (p *planner) unreached(id NodeID) int {
	n, missed := p.nodes[id], 0
	if n == nil {
		return 0
	}
	for _, other := range n.Unreached {
		if o := p.nodes[other]; o != nil && o.Live {
			missed++
		}
	}
	return missed
}
