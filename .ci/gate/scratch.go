package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
)

const (
	// memoryFiles is where Linux keeps files in memory.
	memoryFiles = "/dev/shm"
	// leastFiles is what must be free there, and leastMemory what the machine must have to spare, in KiB: eight clusters at a time write up to 1 GiB each.
	leastFiles  = 10 << 20
	leastMemory = 14 << 20
)

// scratch makes the folder in which a process of tests keeps what it writes; "" = as the system has it. Dozens of nodes that sync to one
// disk wait for it, and for whoever shares it, by seconds: what they claim would be about that disk. So files are in memory where there
// is room, but for the tier whose matter disks are.
func (g *gate) scratch(tier string) string {
	if !g.inMemory || tier == machines {
		return ""
	}
	folder, err := os.MkdirTemp(memoryFiles, "gate")
	if err != nil {
		return "" // then there
	}
	return folder
}

// roomInMemory says whether files can be kept in memory. Who sets TMPDIR has chosen otherwise.
func roomInMemory(ctx context.Context) bool {
	if os.Getenv("TMPDIR") != "" {
		return false
	}
	said, err := output(ctx, "df", "-Pk", memoryFiles) // POSIX df: device, size, used, free
	if err != nil {
		return false
	}
	lines := strings.Split(strings.TrimSpace(said), "\n")
	fields := strings.Fields(lines[len(lines)-1])
	if len(fields) < 4 || fields[0] != "tmpfs" && fields[0] != "shm" {
		return false
	}
	free, err := strconv.ParseUint(fields[3], 10, 64)
	return err == nil && free >= leastFiles && availableMemory() >= leastMemory
}

// availableMemory is what can be used without swapping, in KiB; 0 = not known.
func availableMemory() (kib uint64) {
	text, err := os.ReadFile("/proc/meminfo") // proc_meminfo(5)
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), "\nMemAvailable:")
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		return 0
	}
	return kib
}
