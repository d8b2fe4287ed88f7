package node

import (
	"sync"

	"parley/actors/core/collection"
)

// recordCache keeps what was made out of records of the directory for as long as those have not changed. Looking that up costs
// less than being told of changes, and is never late.
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

// use is a record that something was made of, as it was then; version 0 = there was none.
type use struct {
	collection, key string
	version         uint64
}

// recipe reads records and notes which.
type recipe struct {
	records collection.Store
	uses    []use
}

// get reads a record; nil when there is none.
func (r *recipe) get(name, key string) []byte {
	record, _ := r.records.Get(name, key)
	r.uses = append(r.uses, use{name, key, record.Version})
	return record.Value
}

func newRecordCache[K comparable, V any](records collection.Store, limit int) *recordCache[K, V] {
	return &recordCache[K, V]{records: records, limit: limit, entries: map[K]*cached[V]{}}
}

// get returns what make makes of a name. What it finds nothing for is not kept: anybody may ask for any name.
func (c *recordCache[K, V]) get(name K, make func(*recipe, K) (V, bool)) (V, bool) {
	c.mu.RLock()
	entry := c.entries[name]
	c.mu.RUnlock()
	if entry != nil && c.fresh(entry.uses) {
		return entry.value, true
	}
	made := &recipe{records: c.records}
	value, ok := make(made, name)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !ok {
		delete(c.entries, name)
		return value, false
	}
	if now := c.entries[name]; now != entry && now != nil && c.fresh(now.uses) {
		return now.value, true // somebody else has made it meanwhile: what stays the same stays the same pointer
	}
	for other := range c.entries {
		if len(c.entries) < c.limit {
			break
		}
		delete(c.entries, other)
	}
	c.entries[name] = &cached[V]{made.uses, value}
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
