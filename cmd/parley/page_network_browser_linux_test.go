package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// browserVariable names, in the environment of a browser's process, the program to become.
const browserVariable = "PARLEY_TEST_BROWSER"

// deafened are the options of a browser that does not hear of the machine's network. One that does aborts all that it asks for, also
// of this machine, whenever an address comes or goes (ERR_NETWORK_CHANGED), and clusters of other tests, on networks of their own, make
// that happen. A page whose script was aborted never starts.
func deafened(binary string) []chromedp.ExecAllocatorOption {
	self, err := os.Executable()
	if err != nil {
		return []chromedp.ExecAllocatorOption{chromedp.ExecPath(binary)}
	}
	return []chromedp.ExecAllocatorOption{chromedp.ExecPath(self), chromedp.Env(browserVariable + "=" + binary)}
}

// becomeBrowser turns this process into the browser that the environment names, one for which there are no netlink sockets: the system
// tells of changes on these.
func becomeBrowser() {
	binary, is := os.LookupEnv(browserVariable)
	if !is {
		return
	}
	err := os.Unsetenv(browserVariable)
	if err == nil {
		runtime.LockOSThread() // the filter is of the thread, and exec keeps the thread's
		err = refuseNetlink()
	}
	if err == nil {
		err = syscall.Exec(binary, append([]string{binary}, os.Args[1:]...), os.Environ()) //nolint:gosec // the test names it
	}
	fmt.Fprintln(os.Stderr, "become", binary+":", err)
	os.Exit(1)
}

func refuseNetlink() error {
	const number, firstArgument = 0, 16 // in struct seccomp_data
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	unless := func(value uint32, skip uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: skip, K: value}
	}
	answer := func(what uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: what} }
	filter := []unix.SockFilter{
		load(number), unless(unix.SYS_SOCKET, 3),
		load(firstArgument), unless(unix.AF_NETLINK, 1),
		answer(unix.SECCOMP_RET_ERRNO | uint32(unix.EAFNOSUPPORT)),
		answer(unix.SECCOMP_RET_ALLOW),
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]} //nolint:gosec // six
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	_, _, failed := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program)))
	if failed != 0 {
		return failed
	}
	return nil
}

// TestBrowserIsDeaf: no process of the browser listens to what the system tells of the network.
func TestBrowserIsDeaf(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: starts a browser")
	}
	b := newBrowser(t)
	listening := listenersToTheNetwork(t)
	seen := 0
	for _, pid := range family(t, chromedp.FromContext(b.ctx).Browser.Process().Pid) {
		open, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		require.NoError(t, err)
		for _, fd := range open {
			to, _ := os.Readlink(fd) // it may be closed by now
			seen++
			require.NotContains(t, listening, to, "process %d hears of the network", pid)
		}
	}
	require.Greater(t, seen, 10, "the browser's files are looked at")
}

// listenersToTheNetwork are the sockets that are told of changes of links, addresses or routes.
func listenersToTheNetwork(t *testing.T) (sockets []string) {
	t.Helper()
	table, err := os.ReadFile("/proc/net/netlink")
	require.NoError(t, err)
	for line := range strings.Lines(string(table)) {
		field := strings.Fields(line) // sk Eth Pid Groups Rmem Wmem Dump Locks Drops Inode
		if len(field) > 9 && field[1] == strconv.Itoa(unix.NETLINK_ROUTE) && strings.Trim(field[3], "0") != "" {
			sockets = append(sockets, "socket:["+field[9]+"]")
		}
	}
	return sockets
}

// family is a process and those below it.
func family(t *testing.T, root int) []int {
	t.Helper()
	all := []int{root}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	below := map[int][]int{}
	for _, name := range stats {
		stat, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		rest := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]) // state, parent, ...
		parent, _ := strconv.Atoi(string(rest[1]))
		below[parent] = append(below[parent], pid)
	}
	for i := 0; i < len(all); i++ {
		all = append(all, below[all[i]]...)
	}
	return all
}
