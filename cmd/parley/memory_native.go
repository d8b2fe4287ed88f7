//go:build cgo && linux

package main

// The storage engine takes its cache and write buffers from the C library where there is one. That keeps what was freed
// for the next time, in pieces all over its heaps, and gives it back only when asked. Other C libraries than GNU's have no
// such call and need none.

// #include <stddef.h>
// extern int malloc_trim(size_t) __attribute__((weak));
// static void trim(void) { if (malloc_trim) malloc_trim(0); }
import "C"

// trimNative gives back what was freed outside the Go heap.
func trimNative() { C.trim() }
