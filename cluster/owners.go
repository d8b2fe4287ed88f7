package cluster

import (
	"sync"
	"sync/atomic"

	"parley/cluster/shard"
)

// Owners is a table of shard owners, fed by whoever hears of leader changes. It is a Leaders. The zero value is empty
// and ready.
type Owners struct {
	mu    sync.Mutex // orders writers; readers take no lock
	table atomic.Pointer[map[shard.ID]Owner]
}

var _ Leaders = (*Owners)(nil)

// Owner returns the newest known owner of a shard.
func (o *Owners) Owner(in shard.ID) (Owner, bool) {
	table := o.table.Load()
	if table == nil {
		return Owner{}, false
	}
	owner, known := (*table)[in]
	return owner, known && owner.Node != ""
}

// Set says who owns a shard; an empty Node says that nobody does. News of an epoch that is over changes nothing, and
// Set says whether it changed anything.
func (o *Owners) Set(owner Owner) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	old := o.table.Load()
	next := make(map[shard.ID]Owner)
	if old != nil {
		if (*old)[owner.Shard].Epoch > owner.Epoch {
			return false
		}
		for in, known := range *old {
			next[in] = known
		}
	}
	next[owner.Shard] = owner
	o.table.Store(&next)
	return true
}
