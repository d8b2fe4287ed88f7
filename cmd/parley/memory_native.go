//go:build cgo && linux && !lint

package main

// With cgo the storage engine allocates its cache and write buffers from the C library, which keeps freed memory, fragmented over
// its heaps, and returns it to the system only when asked. Other C libraries than GNU's have no such call and need none.

// #include <stddef.h>
// extern int malloc_trim(size_t) __attribute__((weak));
// static void trim(void) { if (malloc_trim) malloc_trim(0); }
import "C"

// trimNative returns freed memory outside the Go heap to the system.
func trimNative() { C.trim() }
