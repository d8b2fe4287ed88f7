package persistence

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// The cache gives its memory back when nobody reads for a while, and takes it again when somebody does.
func TestCacheRests(t *testing.T) {
	opts := Options{CacheBytes: 32 << 20, MemtableBytes: 1 << 20}
	b := newBlockCache(opts, 1)
	db, err := pebble.Open("db", &pebble.Options{
		FS: vfs.NewMem(), Cache: b.cache, MemTableSize: uint64(opts.MemtableBytes), Logger: &engineLogger{logger: slog.New(slog.DiscardHandler)},
	})
	require.NoError(t, err)
	b.cache.Unref() // the engine has its own hold
	defer func() { require.NoError(t, db.Close()) }()
	value := make([]byte, 16<<10)
	const rows = 1200 // 19 MiB
	for i := range rows {
		value[0] = byte(i)
		for at := 1; at < len(value); at += 8 { // it must not compress
			value[at] = byte(i*31 + at*at>>5)
		}
		require.NoError(t, db.Set(fmt.Appendf(nil, "%04d", i), value, pebble.NoSync))
	}
	require.NoError(t, db.Flush())
	read := func() {
		t.Helper()
		for i := range rows {
			_, closer, err := db.Get(fmt.Appendf(nil, "%04d", i))
			require.NoError(t, err)
			require.NoError(t, closer.Close())
		}
	}
	full := func() int64 {
		read()
		b.look()
		return b.cache.Size()
	}
	before := full()
	require.Greater(t, before, restCacheBytes+2*restMemtables*opts.MemtableBytes)
	for range restAfter {
		require.Equal(t, before, b.cache.Size())
		b.look()
	}
	require.LessOrEqual(t, b.cache.Size(), restCacheBytes+restMemtables*opts.MemtableBytes)
	b.look()
	full() // seen to be used
	require.InDelta(t, before, full(), float64(before)/4)
	for range restAfter {
		b.look()
	}
	require.LessOrEqual(t, b.cache.Size(), restCacheBytes+restMemtables*opts.MemtableBytes, "again")
}
