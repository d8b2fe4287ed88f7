package cluster

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"parley/cluster/shard"
)

// Owner is a node that owns a shard under an epoch.
type Owner struct {
	Node  string
	Shard shard.ID
	Epoch shard.Epoch
}

// Owners is a table of shard owners. It is updated from three sources: leader changes in this node's own log, the Board, and
// answers that name a newer owner. The zero value is empty and ready to use.
type Owners struct {
	mu    sync.Mutex // orders writers; readers take no lock
	table atomic.Pointer[map[shard.ID]*term]
}

// term is an ownership term: the period in which the known owner of a shard does not change. A period without a known owner
// is a term as well.
type term struct {
	owner Owner     // Node is empty while no owner is known; Epoch is the newest epoch seen
	began time.Time // zero if it is the first of its shard
	// over is cancelled when the term ends. It is a context because thousands of calls wait for it, and context.AfterFunc
	// needs no goroutine for each.
	over context.Context //nolint:containedctx // the lifetime of the term, not of a request
	end  context.CancelFunc
}

func newTerm(owner Owner) *term {
	t := &term{owner: owner}
	t.over, t.end = context.WithCancel(context.Background())
	return t
}

func (t *term) known() bool { return t.owner.Node != "" }

// Owner returns the newest known owner of a shard.
func (o *Owners) Owner(in shard.ID) (Owner, bool) {
	if t := o.find(in); t != nil {
		return t.owner, t.known()
	}
	return Owner{Shard: in}, false
}

// Without returns for how long no owner of a shard has been known: 0 while one is, ever if none was so far.
func (o *Owners) Without(in shard.ID) time.Duration {
	const ever = 1<<63 - 1
	switch t := o.find(in); {
	case t == nil || !t.known() && t.began.IsZero():
		return ever
	case t.known():
		return 0
	default:
		return time.Since(t.began)
	}
}

// Watch returns the newest known owner of a shard and a channel that is closed when that changes. If no owner is known, known
// is false and the epoch is the newest one seen.
func (o *Owners) Watch(in shard.ID) (owner Owner, known bool, changed <-chan struct{}) {
	t := o.term(in)
	return t.owner, t.known(), t.over.Done()
}

// Set records the owner of a shard and reports whether the table changed. It ignores older epochs, and a second owner for the
// same epoch, since an epoch has only one.
func (o *Owners) Set(owner Owner) bool {
	return o.change(owner.Shard, func(now Owner) (Owner, bool) {
		newer := owner.Epoch > now.Epoch || owner.Epoch == now.Epoch && now.Node == ""
		return owner, owner.Node != "" && newer
	})
}

// Unset records that a node does not own a shard under the given epoch or an older one, and reports whether the table changed.
func (o *Owners) Unset(owner Owner) bool {
	return o.change(owner.Shard, func(now Owner) (Owner, bool) {
		return Owner{Shard: now.Shard, Epoch: now.Epoch}, now.Node != "" && now.Node == owner.Node && now.Epoch <= owner.Epoch
	})
}

// unsetAll records that a node owns nothing.
func (o *Owners) unsetAll(node string) {
	table := o.table.Load()
	if table == nil {
		return
	}
	for _, t := range *table {
		if t.owner.Node == node {
			o.Unset(t.owner)
		}
	}
}

// hint records an owner named by a third node. Only a newer epoch counts, because that node may be behind.
func (o *Owners) hint(owner Owner) bool {
	return o.change(owner.Shard, func(now Owner) (Owner, bool) {
		return owner, owner.Node != "" && owner.Epoch > now.Epoch
	})
}

func (o *Owners) find(in shard.ID) *term {
	table := o.table.Load()
	if table == nil {
		return nil
	}
	return (*table)[in]
}

// term returns the current term of a shard, and begins one without an owner if there is none.
func (o *Owners) term(in shard.ID) *term {
	if t := o.find(in); t != nil {
		return t
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if t := o.find(in); t != nil {
		return t
	}
	return o.putLocked(newTerm(Owner{Shard: in}))
}

func (o *Owners) change(in shard.ID, decide func(now Owner) (Owner, bool)) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	old := o.find(in)
	now := Owner{Shard: in}
	if old != nil {
		now = old.owner
	}
	next, changed := decide(now)
	if !changed {
		return false
	}
	t := newTerm(next)
	if old != nil && old.known() {
		t.began = time.Now()
	} else if old != nil {
		t.began = old.began
	}
	o.putLocked(t)
	if old != nil {
		old.end()
	}
	return true
}

func (o *Owners) putLocked(t *term) *term {
	next := map[shard.ID]*term{t.owner.Shard: t}
	if old := o.table.Load(); old != nil {
		for in, known := range *old {
			if in != t.owner.Shard {
				next[in] = known
			}
		}
	}
	o.table.Store(&next)
	return t
}
