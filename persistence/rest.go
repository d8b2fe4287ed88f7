package persistence

import (
	"context"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

const (
	// restLook is how often it is looked whether the cache is used; restReads block reads for each shard between two looks
	// or fewer are quiet, and restAfter quiet looks in a row are rest. Looking for what is due takes some 40 a second and
	// shard, more while tables wait to be compacted.
	restLook  = time.Second
	restReads = 200
	restAfter = 5
	// restCacheBytes of blocks stay in memory at rest: what the next request is likely to meet.
	restCacheBytes = 8 << 20
)

// blockCache is the engine's cache of blocks, which gives its memory back while nobody reads: what a load has filled it with
// would else stay for as long as the process lives.
type blockCache struct {
	cache *pebble.Cache
	spare int   // bytes that it does without at rest
	calm  int64 // block reads between two looks that are none to speak of
	reads int64
	quiet int
	wake  func() // makes it whole again; nil = it is
}

func newBlockCache(opts Options, shards int) *blockCache {
	// Pebble takes the write buffers out of the cache, down to none.
	size := opts.CacheBytes + memtables*opts.MemtableBytes
	return &blockCache{
		cache: pebble.NewCache(size),
		spare: int(opts.CacheBytes - restCacheBytes + (memtables-restMemtables)*opts.MemtableBytes),
		calm:  restReads * int64(shards+1), // and the directory
	}
}

// restMemtables are what the engine holds of write buffers while nothing is written: the one in use, and one for the next.
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

// look shrinks the cache after a while without reads, and makes it whole when they come.
func (b *blockCache) look() {
	m := b.cache.Metrics()
	reads := m.Hits + m.Misses
	if reads-b.reads > b.calm {
		b.quiet = 0
		if b.wake != nil {
			b.wake()
			b.wake = nil
		}
	} else if b.quiet++; b.quiet == restAfter && b.spare > 0 {
		b.wake = b.cache.Reserve(b.spare)
	}
	b.reads = reads
}
