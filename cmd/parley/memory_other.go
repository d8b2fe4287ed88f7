//go:build !cgo || !linux || lint

package main

// trimNative does nothing: without C there is nothing outside the Go heap.
func trimNative() {}
