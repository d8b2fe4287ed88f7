package registry

import (
	"sync"

	"parley/actors/core/catalog"
	"parley/actors/core/collection"
)

// recordCache keeps values computed from records of the directory while those records stay the same. It compares their versions
// on each use, which costs less than following changes and is never late.
type recordCache[K comparable, V any] struct {
	records collection.Store
	limit   int // entries

	mu      sync.RWMutex
	entries map[K]*cached[V]
}

type cached[V any] struct {
	uses  []use
	value V
}

// use is a record that a value was computed from, and its version; 0 = there was no record.
type use struct {
	collection, key string
	version         uint64
}

// tracker reads records and remembers which.
type tracker struct {
	records collection.Store
	uses    []use
}

// get reads a record; nil when there is none.
func (t *tracker) get(name, key string) []byte {
	record, _ := t.records.Get(name, key)
	t.uses = append(t.uses, use{name, key, record.Version})
	return record.Value
}

func newRecordCache[K comparable, V any](records collection.Store, limit int) *recordCache[K, V] {
	return &recordCache[K, V]{records: records, limit: limit, entries: map[K]*cached[V]{}}
}

// get returns the value of a name, computing it when it is not there or not current. compute is false when there is none; that is
// not kept, since anybody may ask for any name.
func (c *recordCache[K, V]) get(name K, compute func(catalog.ReadRecord, K) (V, bool)) (V, bool) {
	c.mu.RLock()
	entry := c.entries[name]
	c.mu.RUnlock()
	if entry != nil && c.fresh(entry.uses) {
		return entry.value, true
	}
	tracked := &tracker{records: c.records}
	value, ok := compute(tracked.get, name)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !ok {
		delete(c.entries, name)
		return value, false
	}
	if now := c.entries[name]; now != entry && now != nil && c.fresh(now.uses) {
		return now.value, true // another call was faster: every caller gets the same pointer
	}
	for other := range c.entries {
		if len(c.entries) < c.limit {
			break
		}
		delete(c.entries, other)
	}
	c.entries[name] = &cached[V]{tracked.uses, value}
	return value, true
}

func (c *recordCache[K, V]) fresh(uses []use) bool {
	for i := range uses {
		if record, _ := c.records.Get(uses[i].collection, uses[i].key); record.Version != uses[i].version {
			return false
		}
	}
	return true
}
