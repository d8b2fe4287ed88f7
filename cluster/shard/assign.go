package shard

import (
	"cmp"
	"slices"
)

// assign decides on which nodes the copies of every shard should be, moving as few as possible.
func (p *planner) assign() {
	for _, g := range p.groups {
		for _, id := range p.placed(g) {
			p.put(g, id)
		}
	}
	for _, g := range p.groups {
		p.fill(g)
		p.trim(g)
	}
	if p.complete && p.calm {
		for p.even() {
		}
	}
}

// placed are the members that count as copies. The directory has a copy on every node: only its voters are placed.
func (p *planner) placed(g *Group) []NodeID {
	members := slices.Clone(g.Voters)
	if g.Shard != Directory {
		members = append(members, g.Learners...)
	}
	return slices.DeleteFunc(members, func(id NodeID) bool { return !p.keeps(id) })
}

func (p *planner) put(g *Group, id NodeID) {
	p.want[g.Shard] = append(p.want[g.Shard], id)
	p.load[id]++
}

func (p *planner) take(g *Group, id NodeID) {
	p.want[g.Shard] = slices.DeleteFunc(p.want[g.Shard], func(other NodeID) bool { return other == id })
	p.load[id]--
}

// wants reports whether a node should have a copy of a shard, voting or not.
func (p *planner) wants(g *Group, id NodeID) bool {
	return slices.Contains(p.want[g.Shard], id) || g.Shard == Directory && p.keeps(id)
}

// fill assigns missing copies to the nodes that have the fewest.
func (p *planner) fill(g *Group) {
	for len(p.want[g.Shard]) < p.copies {
		var best *Node
		for _, n := range p.order {
			fits := p.takes(n, g) || g.member(n.ID) && p.keeps(n.ID)
			if !fits || slices.Contains(p.want[g.Shard], n.ID) {
				continue
			}
			if best == nil || p.load[n.ID] < p.load[best.ID] {
				best = n
			}
		}
		if best == nil {
			return
		}
		p.put(g, best.ID)
	}
}

// trim removes surplus copies from the nodes that have the most. During a move there is one copy too many: its source has more
// copies than its destination.
func (p *planner) trim(g *Group) {
	for len(p.want[g.Shard]) > p.copies {
		worst := slices.MaxFunc(p.want[g.Shard], func(a, b NodeID) int {
			return cmp.Or(
				cmp.Compare(p.load[a], p.load[b]),
				order(slices.Contains(g.Learners, a), slices.Contains(g.Learners, b)),
				order(b == g.Leader, a == g.Leader),
				cmp.Compare(a, b),
			)
		})
		p.take(g, worst)
	}
}

// even moves one copy from the node with the most to the one with the fewest. It returns false if they differ by at most one.
func (p *planner) even() bool {
	var most, least *Node
	for _, n := range p.order {
		if !n.Live || !p.keeps(n.ID) {
			continue
		}
		if most == nil || p.load[n.ID] > p.load[most.ID] {
			most = n
		}
		if least == nil || p.load[n.ID] < p.load[least.ID] {
			least = n
		}
	}
	if most == nil || p.load[most.ID]-p.load[least.ID] <= 1 {
		return false
	}
	var best *Group
	for _, g := range p.groups {
		wanted := p.want[g.Shard]
		if !slices.Contains(wanted, most.ID) || slices.Contains(wanted, least.ID) || !p.takes(least, g) {
			continue
		}
		if best == nil || p.betterMove(g, best, most.ID, least.ID) {
			best = g
		}
	}
	if best == nil {
		return false
	}
	p.take(best, most.ID)
	p.put(best, least.ID)
	return true
}

// betterMove prefers a move to a node that already is a member, then one that does not move the leader.
func (p *planner) betterMove(g, than *Group, from, to NodeID) bool {
	return cmp.Or(
		order(g.member(to), than.member(to)),
		order(than.Leader == from, g.Leader == from),
	) > 0
}

// order compares booleans: false before true.
func order(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
