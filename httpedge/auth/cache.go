package auth

import (
	"crypto/sha256"
	"sync"
	"time"
	"unsafe"
)

type digest = [sha256.Size]byte

// digestOf hashes a token without copying it: the hash only reads, and a copy would be half the cost of a cache hit.
func digestOf(token string) digest {
	return sha256.Sum256(unsafe.Slice(unsafe.StringData(token), len(token)))
}

// cache holds valid tokens by digest, at most limit entries in two generations: when the young generation is full it
// becomes the old one, and the previous old one is dropped. A lookup moves an entry to the young generation.
type cache struct {
	limit int
	mu    struct {
		sync.Mutex
		young, old map[digest]remembered
	}
}

type remembered struct {
	userID string
	until  time.Time
}

func newCache(limit int) *cache {
	c := &cache{limit: limit}
	c.mu.young = make(map[digest]remembered)
	return c
}

func (c *cache) get(key digest, now time.Time) (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	entry, ok := c.mu.young[key]
	if !ok {
		if entry, ok = c.mu.old[key]; !ok {
			return "", false
		}
		delete(c.mu.old, key)
		c.putLocked(key, entry)
	}
	if !now.Before(entry.until) {
		delete(c.mu.young, key)
		return "", false
	}
	return entry.userID, true
}

func (c *cache) put(key digest, userID string, until time.Time) {
	if c.limit <= 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.putLocked(key, remembered{userID: userID, until: until})
}

func (c *cache) putLocked(key digest, entry remembered) {
	if len(c.mu.young) >= max(c.limit/2, 1) {
		c.mu.old = c.mu.young
		c.mu.young = make(map[digest]remembered, len(c.mu.old))
	}
	c.mu.young[key] = entry
}

func (c *cache) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.mu.young) + len(c.mu.old)
}
