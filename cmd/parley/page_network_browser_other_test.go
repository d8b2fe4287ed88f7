//go:build !linux

package main

import "github.com/chromedp/chromedp"

// deafened: only on Linux do tests change the network of the machine.
func deafened(binary string) []chromedp.ExecAllocatorOption {
	return []chromedp.ExecAllocatorOption{chromedp.ExecPath(binary)}
}

func becomeBrowser() {}
