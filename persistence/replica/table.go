package replica

import (
	"iter"
	"slices"
	"sync/atomic"
)

// table finds the groups of this node by number: one atomic load, from any goroutine. Only Open and the raft loop write to it.
type table []atomic.Pointer[group]

// get returns nil for a group that is not here.
func (t table) get(id GroupID) *group {
	if uint64(id) >= uint64(len(t)) {
		return nil
	}
	return t[id].Load()
}

// all goes through the groups in the order of their numbers.
func (t table) all() iter.Seq[*group] {
	return func(yield func(*group) bool) {
		for i := range t {
			if g := t[i].Load(); g != nil && !yield(g) {
				return
			}
		}
	}
}

// add makes a group known to everybody.
func (d *Driver) add(g *group) {
	d.table[g.id].Store(g)
	d.loop.order = append(d.loop.order, g)
}

// forget makes a group unknown. The raft loop does so while it goes through no list of groups.
func (d *Driver) forget(g *group) {
	d.table[g.id].Store(nil)
	d.loop.order = slices.DeleteFunc(d.loop.order, func(other *group) bool { return other == g })
}

// Hosts is true while this node holds a replica of the group with a whole state, which may be behind the leader's. It is false while a
// snapshot replaces the state: who reads rows without a ReadBarrier asks again once its iterator is open.
func (d *Driver) Hosts(group GroupID) bool {
	g := d.table.get(group)
	return g != nil && g.shared.initialised.Load() && !g.shared.replacing.Load()
}
