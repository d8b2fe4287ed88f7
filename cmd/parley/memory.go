package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"time"
)

const (
	// gcPercent lets the heap grow to five times its live size before a collection. The live size is small: the store's cache is
	// outside the heap and idle conversations are packed, so with Go's default the collector would run many times a second under
	// load and take a fifth of the CPU. GOGC overrides it.
	gcPercent = 400
	// trimEvery is how often the process checks whether it is quiet and holds unneeded memory. It then returns that to the system,
	// since a heap that grows slowly would not be collected for minutes.
	trimEvery = 5 * time.Second
	// Up to quietBytes allocated since the last check count as quiet; trimBytes of garbage and free memory are worth a collection.
	quietBytes = 8 << 20
	trimBytes  = 16 << 20
)

// trimAfter are the numbers of quiet checks in a row after which memory is returned in any case: how much of the heap is garbage is
// known only after a collection, and conversations and caches are released one after the other in the first minute.
func trimAfter() []int { return []int{1, 3, 7, 9, 11} }

// tuneMemory sets the GC percentage, and returns memory to the system in quiet times until ctx ends.
func tuneMemory(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	debug.SetGCPercent(gcPercent)
	go trim(ctx)
}

func trim(ctx context.Context) {
	ticker := time.NewTicker(trimEvery)
	defer ticker.Stop()
	samples := []metrics.Sample{
		{Name: "/gc/heap/allocs:bytes"},
		{Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
	}
	after := trimAfter()
	var before uint64
	quiet := 0 // checks in a row
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		metrics.Read(samples)
		allocated, live := samples[0].Value.Uint64(), samples[1].Value.Uint64()
		held := samples[2].Value.Uint64() + samples[3].Value.Uint64()
		if quiet++; allocated-before >= quietBytes {
			quiet = 0
		}
		if quiet > 0 && (held > live+trimBytes || slices.Contains(after, quiet)) {
			debug.FreeOSMemory()
			trimNative()
		}
		before = allocated
	}
}
