package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/bench/nodes"
)

// ownedBy makes conversations until one is owned by a node.
func (c *cluster) ownedBy(ctx context.Context, t *testing.T, owner *nodes.Node) string {
	t.Helper()
	for range 60 {
		id, err := create(ctx, c.alive()[0], "quick")
		require.NoError(t, err)
		found, err := c.owner(ctx, id)
		require.NoError(t, err)
		if found == owner {
			return id
		}
	}
	require.Failf(t, "no shard", "%s owns none of 60 conversations", owner.Name)
	return ""
}

// turn sends a message and waits for its turn's end; it must be answered, well or with a 503 that says when to return.
func turn(ctx context.Context, t *testing.T, n *nodes.Node, id, text string) (ok bool, took time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	began := time.Now()
	r, err := ask(ctx, n, "POST", "/conversations/"+id+"/messages", map[string]string{"message": text})
	require.NoError(t, err)
	if r.status != http.StatusOK {
		require.Equal(t, http.StatusServiceUnavailable, r.status, r.text)
		require.NotEmpty(t, r.header.Get("Retry-After"))
		return false, time.Since(began)
	}
	return true, time.Since(began)
}

// TestFullDisk fills the disk of one node of three: conversations of the others go on, its own are answered truly, and
// all is well again when there is room.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, false, "--storage-memtable=4MiB", "--storage-min-free=24MiB")
	full := c.Nodes()[1]
	small := mountSmall(t, full, 192<<20)
	require.NoError(t, c.Start(t.Context()))
	require.NoError(t, c.awaitSettled(t.Context(), 3))
	first, second := c.Nodes()[0], c.Nodes()[2]
	his, theirs := c.ownedBy(t.Context(), t, full), c.ownedBy(t.Context(), t, second)
	for _, id := range []string{his, theirs} {
		ok, _ := turn(t.Context(), t, first, id, "with room")
		require.True(t, ok)
	}

	small.leave(t, 12<<20) // less than the node wants to keep free
	told := map[bool]int{}
	for i := range 5 {
		ok, _ := turn(t.Context(), t, first, theirs, fmt.Sprint("little room, ", i))
		require.True(t, ok, "the others have room")
		ok, _ = turn(t.Context(), t, second, his, fmt.Sprint("little room, ", i))
		told[ok]++
	}
	t.Logf("while the disk of its owner was nearly full: %d turns, %d refused", told[true], told[false])
	require.NoError(t, until(t.Context(), time.Minute, func(ctx context.Context) error {
		if ok, _ := turn(ctx, t, second, his, "at another owner "+time.Now().String()); !ok {
			return errors.New("still refused")
		}
		return nil
	}), "who has no room hands over")
	_, err := eventLog(t.Context(), first, his)
	require.NoError(t, err, "reads go on")

	small.leave(t, 0)
	for i := range 5 {
		ok, _ := turn(t.Context(), t, first, theirs, fmt.Sprint("no room, ", i))
		require.True(t, ok, "the others have room")
	}
	t.Logf("with no byte left its process lives: %t", full.Running())

	small.empty(t)
	if !full.Running() {
		require.NoError(t, full.Start(t.Context()))
	}
	require.NoError(t, c.awaitSettled(t.Context(), 3))
	require.NoError(t, until(t.Context(), time.Minute, func(ctx context.Context) error {
		if ok, _ := turn(ctx, t, first, his, "room again "+time.Now().String()); !ok {
			return errors.New("still refused")
		}
		return nil
	}))
	for _, id := range []string{his, theirs} {
		require.NoError(t, c.idle(t.Context(), id))
		events, err := c.sameLog(t.Context(), id)
		require.NoError(t, err)
		_, err = newLedger(events)
		require.NoError(t, err)
	}
}

// TestNoRoom has a node keep more room free than its disk has: what would write is storage_full on every surface, with the status
// that docs/concepts.md tells, and reads go on.
func TestNoRoom(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: runs a process")
	}
	p := newProcess(t, testAgents+"bootstrap_token: "+houseToken+"\n")
	p.start()
	id := p.create("quick")
	require.NoError(t, p.terminate())
	require.NoError(t, os.WriteFile(p.config, []byte(testAgents+"bootstrap_token: "+houseToken+"\nstorage: {min_free: 1000000GiB}\n"), 0o600))
	p.start()
	answered := p.ask(t, "POST", "/conversations/"+id+"/messages", `{"message":"hi"}`)
	answered.refused(http.StatusServiceUnavailable, "storage_full")
	p.ask(t, "GET", "/conversations/"+id, nil).fits(http.StatusOK, anyObject)
	client := apiCaller{p, houseToken}
	refused := client.ask(t, "POST", "/agents/sessions", object1{"agent": "quick"})
	require.Equal(t, http.StatusInsufficientStorage, refused.status, refused.text)
	require.Contains(t, refused.text, `"code":"storage_full"`)
	require.Equal(t, http.StatusOK, client.ask(t, "GET", "/agents", nil).status)
}

// smallDisk is a file system of a node's own.
type smallDisk struct{ dir, filling string }

func mountSmall(t *testing.T, n *nodes.Node, bytes int64) smallDisk {
	t.Helper()
	require.NoError(t, os.MkdirAll(n.Dir, 0o700))
	command := exec.CommandContext(t.Context(), "mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%d", bytes), "parley-test", n.Dir)
	if text, err := command.CombinedOutput(); err != nil {
		t.Skipf("a disk that can be filled needs the right to mount a file system (root): %v: %s", err, text)
	}
	t.Cleanup(func() {
		require.NoError(t, n.Kill())
		require.NoError(t, syscall.Unmount(n.Dir, 0))
	})
	return smallDisk{dir: n.Dir, filling: filepath.Join(n.Dir, "filling")}
}

// leave fills the disk until so many bytes are free.
func (d smallDisk) leave(t *testing.T, bytes int64) {
	t.Helper()
	var stat syscall.Statfs_t
	require.NoError(t, syscall.Statfs(d.dir, &stat))
	file, err := os.OpenFile(d.filling, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	block := make([]byte, 64<<10)
	for left := int64(stat.Bavail)*stat.Bsize - bytes; left > 0; left -= int64(len(block)) {
		if _, err = file.Write(block); err != nil {
			require.ErrorIs(t, err, syscall.ENOSPC)
			break
		}
	}
	require.NoError(t, file.Close())
}

func (d smallDisk) empty(t *testing.T) {
	t.Helper()
	require.NoError(t, os.Remove(d.filling))
}

// TestSlowDisk gives one node of three a disk on which every sync takes a tenth of a second longer: what the others own
// is as fast as a majority of good disks is, and what it owns is slow but right.
func TestSlowDisk(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: runs several real processes")
	}
	wrapper := slowSyncs(t, "n2", 100*time.Millisecond)
	c := newClusterOf(t, wrapper, 3, false, "--cluster-election-timeout", "3s") // slow is not dead
	require.NoError(t, c.Start(t.Context()))
	require.NoError(t, c.awaitSettled(t.Context(), 3))
	slow, good := c.Nodes()[1], c.Nodes()[2]
	var slowly time.Duration
	for _, owner := range []*nodes.Node{slow, good} {
		id := c.ownedBy(t.Context(), t, owner)
		var times []time.Duration
		for i := range 9 {
			ok, took := turn(t.Context(), t, c.Nodes()[0], id, fmt.Sprint("message ", i))
			require.True(t, ok)
			times = append(times, took)
		}
		slices.Sort(times)
		t.Logf("turns owned by %s: median %s, slowest %s", owner.Name, times[4], times[8])
		if owner == good {
			require.Less(t, times[4], slowly/2, "a majority does not wait for the slow one")
		}
		slowly = times[4]
		events, err := c.sameLog(t.Context(), id)
		require.NoError(t, err)
		require.Len(t, events, 9*4)
	}
}

// TestShardsLeaveASlowDisk: where every sync of one node of three takes 600 ms longer it leads nothing soon, and turns are those of the
// two others.
func TestShardsLeaveASlowDisk(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: runs several real processes")
	}
	const delay = 600 * time.Millisecond
	c := newClusterOf(t, slowSyncs(t, "n2", delay), 3, false)
	require.NoError(t, c.Start(t.Context()))
	id, err := create(t.Context(), c.Nodes()[0], "quick")
	require.NoError(t, err)
	sent := 0
	require.NoError(t, until(t.Context(), 2*time.Minute, func(ctx context.Context) error {
		if ok, _ := turn(ctx, t, c.Nodes()[0], id, "what is not written says nothing"); ok {
			sent++
		}
		found, err := clusterStatus(ctx, c.Nodes()[0])
		if err != nil {
			return err
		}
		leads := map[string]int{}
		for _, s := range found.Shards {
			if len(s.Voters) < 3 {
				return fmt.Errorf("shard %d has the voters %v", s.Shard, s.Voters)
			}
			leads[s.Owner]++
		}
		if leads["n2"] > 0 || leads["n1"] == 0 || leads["n3"] == 0 {
			return fmt.Errorf("shards led: %v", leads)
		}
		return nil
	}))
	var times []time.Duration
	for range 9 {
		id, err := create(t.Context(), c.Nodes()[1], "quick")
		require.NoError(t, err)
		ok, took := turn(t.Context(), t, c.Nodes()[1], id, "quick?")
		require.True(t, ok)
		times = append(times, took)
	}
	slices.Sort(times)
	t.Logf("after %d turns of any owner: median %s, slowest %s", sent, times[4], times[8])
	require.Less(t, times[4], delay, "none waits for the slow disk")
}

// slowSyncs makes a program that runs the binary, for one node with every sync delayed.
func slowSyncs(t *testing.T, name string, by time.Duration) string {
	t.Helper()
	binary, err := builtBinary()
	require.NoError(t, err)
	inject := fmt.Sprintf("-D -f -qq --seccomp-bpf -o /dev/null -e trace=fsync,fdatasync -e inject=fsync,fdatasync:delay_enter=%d", by.Microseconds())
	if text, err := exec.CommandContext(t.Context(), "sh", "-c", "strace "+inject+" true").CombinedOutput(); err != nil {
		t.Skipf("a slow disk needs the program strace and the right to trace: %v: %s", err, text)
	}
	wrapper := filepath.Join(t.TempDir(), "parley")
	script := fmt.Sprintf("#!/bin/sh\ncase \"$*\" in *\"--node-name %s \"*) exec strace %s %s \"$@\";; esac\nexec %s \"$@\"\n", name, inject, binary, binary)
	require.NoError(t, os.WriteFile(wrapper, []byte(script), 0o700)) //nolint:gosec // a program
	return wrapper
}
