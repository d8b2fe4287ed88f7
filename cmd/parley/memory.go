package main

import (
	"os"
	"runtime/debug"
)

// gcPercent lets the heap grow to five times what lives in it before it is collected. What lives in it is small: the
// store's cache is outside it and idle conversations are packed, so the Go default would collect many times a second
// under load, for a fifth of the CPU. GOGC overrides it.
const gcPercent = 400

func tuneMemory() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}
