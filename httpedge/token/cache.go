package token

import (
	"sync"
	"sync/atomic"
	"time"

	"parley/actors/core/collection"
	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/httpedge/endpoint"
	"parley/proto/failurepb"
)

// entry is a token that was good when it was looked up. Only lastUse and standings change.
type entry struct {
	caller    endpoint.Caller
	until     time.Time // remembered so long
	tokenID   string
	basis     *basis
	lastUse   atomic.Int64 // when its last use was noted, Unix ms
	standings standings
}

// basis is what an entry rests on. It never changes.
type basis struct {
	records [4]version // what it was made from
	expires int64      // of the token, Unix ms; 0 = never
	changes int64      // when the tenant has another licence by the clock alone, Unix ms; 0 = never
}

// version is a record that an entry was made from.
type version struct {
	collection, key string
	version         uint64
}

// current says whether the records are still those, and the licence.
func (b *basis) current(records collection.Store, now time.Time) bool {
	if b.changes > 0 && now.UnixMilli() >= b.changes {
		return false
	}
	for i := range b.records {
		v := &b.records[i]
		if record, ok := records.Get(v.collection, v.key); !ok || record.Version != v.version {
			return false
		}
	}
	return true
}

// expired refuses a token whose time is over.
func (b *basis) expired(now time.Time) *machine.Failure {
	if b.expires > 0 && now.UnixMilli() >= b.expires {
		return failure.New(failurepb.Code_AUTH_REQUIRED, failure.APITokenExpired)
	}
	return nil
}

// cache remembers entries by hash. It holds at most limit in two generations: when the young one is full it becomes the old one,
// and what nobody asked for since is dropped.
type cache struct {
	limit int
	mu    struct {
		sync.RWMutex
		young, old map[digest]*entry
	}
}

func newCache(limit int) *cache {
	c := &cache{limit: limit}
	c.mu.young = make(map[digest]*entry)
	return c
}

func (c *cache) get(key *digest) *entry {
	c.mu.RLock()
	found, young := c.mu.young[*key]
	if !young {
		found = c.mu.old[*key]
	}
	c.mu.RUnlock()
	if found != nil && !young {
		c.put(key, found)
	}
	return found
}

func (c *cache) put(key *digest, e *entry) {
	if c.limit <= 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.mu.young[*key]; !ok && len(c.mu.young) >= max(c.limit/2, 1) {
		c.mu.old = c.mu.young
		c.mu.young = make(map[digest]*entry, len(c.mu.old))
	}
	delete(c.mu.old, *key)
	c.mu.young[*key] = e
}

// drop forgets an entry, unless another one has taken its place.
func (c *cache) drop(key *digest, e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.young[*key] == e {
		delete(c.mu.young, *key)
	}
	if c.mu.old[*key] == e {
		delete(c.mu.old, *key)
	}
}

func (c *cache) len() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.mu.young) + len(c.mu.old)
}
