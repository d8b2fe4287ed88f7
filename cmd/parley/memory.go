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
	// gcPercent lets the heap grow to five times what lives in it before it is collected. What lives in it is small: the
	// store's cache is outside it and idle conversations are packed, so the Go default would collect many times a second
	// under load, for a fifth of the processor. GOGC overrides it.
	gcPercent = 400
	// trimEvery is how often the process looks whether it is quiet and holds what it does not need: then it gives it back,
	// as a heap that grows slowly would not be collected for minutes.
	trimEvery = 5 * time.Second
	// quietBytes allocated since the last look are quiet; trimBytes of garbage and free memory are worth a collection.
	quietBytes = 8 << 20
	trimBytes  = 16 << 20
)

// trimAfter are the quiet looks since the last load after which memory is given back whatever seems to be held: how much of
// the heap is garbage is known after a collection only, and conversations and caches go one after the other in the first
// minute.
func trimAfter() []int { return []int{1, 3, 7, 9, 11} }

// tuneMemory sets the collector's pace, and gives memory back in quiet times until ctx ends.
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
	quiet := 0 // looks in a row
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
