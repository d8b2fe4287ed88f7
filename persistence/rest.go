package persistence

import (
	"context"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

const (
	// restLook is how often use of the cache is checked. An interval with at most restReads block reads per shard is
	// quiet, and after restAfter quiet intervals in a row the cache rests. Looking for expired work takes some 40 reads
	// a second and shard, more while tables wait for compaction.
	restLook  = time.Second
	restReads = 200
	restAfter = 5
	// restCacheBytes of blocks stay in memory at rest, since the next request is likely to need them.
	restCacheBytes = 8 << 20
)

// blockCache is the engine's block cache. It gives memory back while nobody reads; otherwise blocks from a period of
// load would stay in memory for the life of the process.
type blockCache struct {
	cache   *pebble.Cache
	surplus int   // bytes that it gives up at rest
	calm    int64 // most block reads in a quiet interval
	reads   int64
	quiet   int
	wake    func() // restores the full size; nil = it has the full size
}

func newBlockCache(opts Options, shards int) *blockCache {
	// Pebble subtracts the write buffers from the cache, down to 0.
	size := opts.CacheBytes + memtables*opts.MemtableBytes
	return &blockCache{
		cache:   pebble.NewCache(size),
		surplus: int(opts.CacheBytes - restCacheBytes + (memtables-restMemtables)*opts.MemtableBytes),
		calm:    restReads * int64(shards+1), // and the directory
	}
}

// restMemtables is how many write buffers the engine holds while nothing is written: the current one and a spare one.
const restMemtables = 2

func (b *blockCache) watch(ctx context.Context) {
	ticker := time.NewTicker(restLook)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			b.look()
		}
	}
}

// look shrinks the cache after a while without reads, and restores its size when they come.
func (b *blockCache) look() {
	m := b.cache.Metrics()
	reads := m.Hits + m.Misses
	if reads-b.reads > b.calm {
		b.quiet = 0
		if b.wake != nil {
			b.wake()
			b.wake = nil
		}
	} else if b.quiet++; b.quiet == restAfter && b.surplus > 0 {
		b.wake = b.cache.Reserve(b.surplus)
	}
	b.reads = reads
}
