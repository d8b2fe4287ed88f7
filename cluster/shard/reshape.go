package shard

import (
	"cmp"
	"slices"
)

// reshape returns the steps that move members towards the wanted placement, at most one per shard.
func (p *planner) reshape() []Step {
	var changes, transfers, additions []Step
	feeding := 0
	for _, g := range p.groups {
		feeding += p.feeding(g) * feedCost(g)
		if p.policy.Busy[g.Shard] {
			continue
		}
		step := p.change(g)
		switch {
		case step == nil:
			if step = p.addition(g); step != nil {
				additions = append(additions, *step)
			}
		case step.Change == Transfer:
			if len(transfers) < p.policy.MaxTransfers {
				transfers = append(transfers, *step)
				p.handOver(g, step.Node)
			}
		default:
			changes = append(changes, *step)
		}
	}
	// A new node cannot serve without the directory, so that comes first; then the shards with the fewest voters.
	slices.SortStableFunc(additions, func(a, b Step) int {
		return cmp.Or(order(a.Shard != Directory, b.Shard != Directory), cmp.Compare(len(a.Voters), len(b.Voters)))
	})
	for _, step := range additions {
		cost := feedCost(p.group(step.Shard))
		if feeding += cost; feeding > largeCost*p.policy.MaxFeeding {
			break
		}
		changes = append(changes, step)
	}
	return append(transfers, changes[:min(len(changes), p.policy.MaxChanges)]...)
}

// The cost of filling a new replica: many small ones may be filled at the same time, but few large ones.
const (
	smallCopy = 16 << 20
	smallCost = 1
	largeCost = 8
)

func feedCost(g *Group) int {
	if g.Bytes <= smallCopy {
		return smallCost
	}
	return largeCost
}

// feeding returns the number of learners that are being filled.
func (p *planner) feeding(g *Group) int {
	n := 0
	for _, id := range g.Learners {
		if p.alive(g, id) && !p.caughtUp(g, id) {
			n++
		}
	}
	return n
}

// voters returns the nodes that should vote, preferring present voters that should have a replica.
func (p *planner) voters(g *Group) []NodeID {
	candidates := slices.Clone(p.want[g.Shard])
	slices.SortStableFunc(candidates, func(a, b NodeID) int {
		return cmp.Or(
			order(slices.Contains(g.Voters, b), slices.Contains(g.Voters, a)),
			order(b == g.Leader, a == g.Leader),
			order(p.caughtUp(g, b), p.caughtUp(g, a)),
			cmp.Compare(p.load[a], p.load[b]),
			cmp.Compare(a, b),
		)
	})
	// A dead node that no other can replace keeps its vote: it may come back with its replica.
	for _, id := range g.Voters {
		if n := p.nodes[id]; n != nil && !n.Draining && !slices.Contains(candidates, id) && len(candidates) < p.votes {
			candidates = append(candidates, id)
		}
	}
	most := p.votes
	if len(candidates) >= p.copies { // there will be no further candidates
		most = min(most, largestOdd(len(candidates)))
	}
	return candidates[:min(len(candidates), most)]
}

// change returns the next change of the voters, or of a misplaced leader or learner; nil if there is none.
func (p *planner) change(g *Group) *Step {
	if g.Shard == Directory && p.policy.Outreached {
		if to, found := p.farther(g); found {
			return p.step(Transfer, g, to, "it reaches more nodes than the leader")
		}
	}
	wanted := p.voters(g)
	if !p.leads(g.Leader) && p.nodes[g.Leader].Draining {
		if to, found := p.successor(g, wanted); found {
			return p.step(Transfer, g, to, "the leader's node is drained")
		}
	}
	if step := p.changeVotes(g, wanted); step != nil {
		return step
	}
	for _, id := range g.Learners {
		if !p.wants(g, id) {
			return p.step(Remove, g, id, "the copy is not wanted here")
		}
	}
	return nil
}

// changeVotes passes through an even number of voters only on the way to the next odd one, because an even number needs one more
// live voter and survives no more losses.
func (p *planner) changeVotes(g *Group, wanted []NodeID) *Step {
	var surplus, ready []NodeID
	for _, id := range g.Voters {
		if !slices.Contains(wanted, id) {
			surplus = append(surplus, id)
		}
	}
	for _, id := range wanted {
		if slices.Contains(g.Learners, id) && p.caughtUp(g, id) {
			ready = append(ready, id)
		}
	}
	// The dead go first.
	slices.SortStableFunc(surplus, func(a, b NodeID) int {
		return cmp.Or(order(p.alive(g, a), p.alive(g, b)), order(a == g.Leader, b == g.Leader))
	})
	votes := len(g.Voters)
	var dead bool
	if len(surplus) > 0 {
		dead = !p.alive(g, surplus[0])
	}
	if votes%2 == 0 {
		switch {
		case dead:
			return p.removal(g, surplus[0], wanted)
		case len(ready) > 0 && votes < p.votes:
			return p.promotion(g, ready[0])
		case len(surplus) > 0:
			return p.removal(g, surplus[0], wanted)
		}
		return nil
	}
	tooMany := votes > max(len(wanted), largestOdd(p.copies)) // more than the nodes allow
	switch {
	case tooMany && len(surplus) > 0, dead && len(ready) > 0:
		return p.removal(g, surplus[0], wanted)
	case len(ready) > 0 && len(surplus) > 0, len(ready) > 1 && votes < p.votes:
		return p.promotion(g, ready[0])
	}
	return nil
}

func (p *planner) promotion(g *Group, id NodeID) *Step {
	if !p.safe(g, append(slices.Clone(g.Voters), id)) {
		return nil
	}
	return p.step(Promote, g, id, "its copy has caught up")
}

func (p *planner) removal(g *Group, id NodeID, wanted []NodeID) *Step {
	left := slices.DeleteFunc(slices.Clone(g.Voters), func(other NodeID) bool { return other == id })
	if !p.safe(g, left) {
		return nil
	}
	if id == g.Leader {
		if to, found := p.successor(g, wanted); found {
			return p.step(Transfer, g, to, "the leader's copy is to go")
		}
		return nil
	}
	return p.step(Remove, g, id, p.whyRemoved(g, id))
}

func (p *planner) whyRemoved(g *Group, id NodeID) string {
	n := p.nodes[id]
	switch {
	case n == nil:
		return "its data was lost"
	case n.Draining:
		return "its node is drained"
	case !n.Live:
		return "its node is away for too long"
	case p.wants(g, id):
		return "too many votes"
	}
	return "other nodes have fewer copies"
}

// successor returns the voter that leads the fewest shards, among those that can lead this one; one with a slow log if there is no other.
func (p *planner) successor(g *Group, wanted []NodeID) (NodeID, bool) {
	var best NodeID
	found := false
	for _, id := range g.Voters {
		if id == g.Leader || !p.leads(id) || !p.caughtUp(g, id) || !slices.Contains(wanted, id) {
			continue
		}
		if !found || cmp.Or(order(p.slow(id), p.slow(best)), cmp.Compare(p.leading[id], p.leading[best])) < 0 {
			best, found = id, true
		}
	}
	return best, found
}

// addition returns the step that adds the next missing replica, nil if none is missing.
func (p *planner) addition(g *Group) *Step {
	missing := func(id NodeID) bool {
		n := p.nodes[id]
		return !g.member(id) && n != nil && p.takes(n, g)
	}
	for _, id := range p.want[g.Shard] {
		if missing(id) {
			return p.step(AddLearner, g, id, "a copy is missing")
		}
	}
	if g.Shard == Directory {
		for _, n := range p.order {
			if missing(n.ID) {
				return p.step(AddLearner, g, n.ID, "every node has the directory")
			}
		}
	}
	return nil
}

func (p *planner) handOver(g *Group, to NodeID) {
	p.leading[g.Leader]--
	p.leading[to]++
}
