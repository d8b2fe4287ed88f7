package cluster

import (
	"context"
	"sync"
	"sync/atomic"

	"parley/cluster/shard"
)

// Owner is a node that owns a shard under an epoch.
type Owner struct {
	Node  string
	Shard shard.ID
	Epoch shard.Epoch
}

// Owners is a table of shard owners, fed by whoever hears of leader changes: this node's own log, the Board, and
// answers that name a newer owner. The zero value is empty and ready.
type Owners struct {
	mu    sync.Mutex // orders writers; readers take no lock
	table atomic.Pointer[map[shard.ID]*reign]
}

// reign is the time in which what is known about a shard's owner stays the same.
type reign struct {
	owner Owner // Node is empty while nobody is known; the epoch is the newest ever heard of
	// over ends with the reign. It is a context because calls hang on it by the thousand, and context.AfterFunc costs
	// them no goroutine.
	over context.Context //nolint:containedctx // a life time, not a request's
	end  context.CancelFunc
}

func newReign(owner Owner) *reign {
	r := &reign{owner: owner}
	r.over, r.end = context.WithCancel(context.Background())
	return r
}

func (r *reign) known() bool { return r.owner.Node != "" }

// Owner returns the newest known owner of a shard.
func (o *Owners) Owner(in shard.ID) (Owner, bool) {
	if r := o.find(in); r != nil {
		return r.owner, r.known()
	}
	return Owner{Shard: in}, false
}

// Watch returns the newest known owner of a shard and a channel that is closed when that is not true any more. Without
// an owner, known is false and the epoch is the newest one heard of.
func (o *Owners) Watch(in shard.ID) (owner Owner, known bool, changed <-chan struct{}) {
	r := o.reign(in)
	return r.owner, r.known(), r.over.Done()
}

// Set says who owns a shard, and whether that was news. An older epoch never is; neither is another owner of the same
// epoch, of which there is only one.
func (o *Owners) Set(owner Owner) bool {
	return o.change(owner.Shard, func(now Owner) (Owner, bool) {
		newer := owner.Epoch > now.Epoch || owner.Epoch == now.Epoch && now.Node == ""
		return owner, owner.Node != "" && newer
	})
}

// Unset says that a node does not own a shard (any more) under the given epoch or an older one.
func (o *Owners) Unset(owner Owner) bool {
	return o.change(owner.Shard, func(now Owner) (Owner, bool) {
		return Owner{Shard: now.Shard, Epoch: now.Epoch}, now.Node != "" && now.Node == owner.Node && now.Epoch <= owner.Epoch
	})
}

// unsetAll says that a node owns nothing.
func (o *Owners) unsetAll(node string) {
	table := o.table.Load()
	if table == nil {
		return
	}
	for _, r := range *table {
		if r.owner.Node == node {
			o.Unset(r.owner)
		}
	}
}

// hint is hearsay: it only counts when it is about a newer epoch, because whoever says it may be behind.
func (o *Owners) hint(owner Owner) bool {
	return o.change(owner.Shard, func(now Owner) (Owner, bool) {
		return owner, owner.Node != "" && owner.Epoch > now.Epoch
	})
}

func (o *Owners) find(in shard.ID) *reign {
	table := o.table.Load()
	if table == nil {
		return nil
	}
	return (*table)[in]
}

func (o *Owners) reign(in shard.ID) *reign {
	if r := o.find(in); r != nil {
		return r
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if r := o.find(in); r != nil {
		return r
	}
	return o.putLocked(newReign(Owner{Shard: in}))
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
	o.putLocked(newReign(next))
	if old != nil {
		old.end()
	}
	return true
}

func (o *Owners) putLocked(r *reign) *reign {
	next := map[shard.ID]*reign{r.owner.Shard: r}
	if old := o.table.Load(); old != nil {
		for in, known := range *old {
			if in != r.owner.Shard {
				next[in] = known
			}
		}
	}
	o.table.Store(&next)
	return r
}
