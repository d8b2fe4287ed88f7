package replica

import (
	"iter"
	"slices"
	"sync/atomic"
)

// table holds the groups of this node by number. A lookup is one atomic load, from any goroutine. Only Open and the
// raft loop write to it.
type table []atomic.Pointer[group]

// get returns nil for a group without a replica here.
func (t table) get(id GroupID) *group {
	if uint64(id) >= uint64(len(t)) {
		return nil
	}
	return t[id].Load()
}

// all iterates over the groups in the order of their numbers.
func (t table) all() iter.Seq[*group] {
	return func(yield func(*group) bool) {
		for i := range t {
			if g := t[i].Load(); g != nil && !yield(g) {
				return
			}
		}
	}
}

// add adds a group to the table and to the loop's list.
func (d *Driver) add(g *group) {
	d.table[g.id].Store(g)
	d.loop.order = append(d.loop.order, g)
}

// forget removes a group from both. The raft loop must not be iterating over a list of groups.
func (d *Driver) forget(g *group) {
	d.table[g.id].Store(nil)
	d.loop.order = slices.DeleteFunc(d.loop.order, func(other *group) bool { return other == g })
}

// Hosts reports whether this node holds a replica of the group with a complete state, which may lag behind the
// leader's. It is false while a snapshot replaces the state, so a reader without a ReadBarrier must check again once
// its iterator is open.
func (d *Driver) Hosts(group GroupID) bool {
	g := d.table.get(group)
	return g != nil && g.shared.initialised.Load() && !g.shared.replacing.Load()
}
