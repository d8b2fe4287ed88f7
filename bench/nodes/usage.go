package nodes

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// Usage is the resource usage of a process, according to the kernel.
type Usage struct {
	CPU time.Duration // of all its threads, user and system; the kernel counts in 10 ms
	RSS int64         // bytes of memory that are resident now
}

// Usage returns the usage of the node's current process.
func (n *Node) Usage() (Usage, error) {
	p := n.process()
	if p == nil {
		return Usage{}, fmt.Errorf("%s: %w", n.Name, ErrNotRunning)
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.command.Process.Pid))
	if err != nil {
		return Usage{}, fmt.Errorf("usage of %s: %w", n.Name, err)
	}
	return parseStat(text)
}

// stopped reports whether all threads of the node's process are stopped.
func (n *Node) stopped() bool {
	p := n.process()
	if p == nil {
		return false
	}
	states, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.command.Process.Pid))
	if err != nil {
		return false
	}
	for _, path := range states {
		text, err := os.ReadFile(path)
		_, rest, found := bytes.Cut(text, []byte(") "))
		if err != nil || !found || !bytes.HasPrefix(bytes.ToUpper(rest), []byte("T")) { // t: stopped, and traced
			return false
		}
	}
	return len(states) > 0
}

// parseStat reads /proc/PID/stat, see proc(5): after the command's name, which may hold blanks, fields 3 and on.
func parseStat(text []byte) (Usage, error) {
	const (
		ticksPerSecond = 100 // USER_HZ, the same on all Linux systems
		fieldUser      = 14 - 3
		fieldSystem    = 15 - 3
		fieldPages     = 24 - 3
	)
	end := bytes.LastIndexByte(text, ')')
	fields := bytes.Fields(text[end+1:])
	if end < 0 || len(fields) <= fieldPages {
		return Usage{}, fmt.Errorf("stat of a process: %d fields", len(fields))
	}
	var numbers [3]int64
	for i, field := range []int{fieldUser, fieldSystem, fieldPages} {
		n, err := strconv.ParseInt(string(fields[field]), 10, 64)
		if err != nil {
			return Usage{}, fmt.Errorf("stat of a process: %w", err)
		}
		numbers[i] = n
	}
	return Usage{
		CPU: time.Duration(numbers[0]+numbers[1]) * time.Second / ticksPerSecond,
		RSS: numbers[2] * int64(os.Getpagesize()),
	}, nil
}
