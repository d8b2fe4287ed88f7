package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/bench/nodes"
)

// asked is a request of a test and how it went.
type asked struct {
	what      string
	at, after time.Duration // since the cut: begun, and answered
	status    int
	err       error
}

func (a asked) String() string {
	return fmt.Sprintf("%s at %v took %v: %d, %v", a.what, a.at.Round(time.Millisecond), (a.after - a.at).Round(time.Millisecond), a.status, a.err)
}

// knocker asks the same of a node, again and again.
type knocker struct {
	what string
	do   func(ctx context.Context) (reply, error)
}

// knock has all knockers ask for a while, and returns everything that was asked.
func knock(ctx context.Context, begun time.Time, until time.Duration, all []knocker) []asked {
	var (
		mu      sync.Mutex
		made    []asked
		working sync.WaitGroup
	)
	for _, k := range all {
		working.Go(func() {
			for time.Since(begun) < until && ctx.Err() == nil {
				a := asked{what: k.what, at: time.Since(begun)}
				bounded, cancel := context.WithTimeout(ctx, 30*time.Second)
				r, err := k.do(bounded)
				cancel()
				a.after, a.status, a.err = time.Since(begun), r.status, err
				mu.Lock()
				made = append(made, a)
				mu.Unlock()
				_ = wait(ctx, 50*time.Millisecond)
			}
		})
	}
	working.Wait()
	return made
}

// ownedByEach makes a conversation that each node owns.
func (c *cluster) ownedByEach(ctx context.Context, t *testing.T, agent string) map[string]string {
	t.Helper()
	owned := map[string]string{}
	for len(owned) < len(c.Nodes()) {
		id, err := create(ctx, c.Node("n1"), agent)
		require.NoError(t, err)
		owner, err := c.owner(ctx, id)
		require.NoError(t, err)
		owned[owner.Name] = id
	}
	return owned
}

// knockers are what is asked of every conversation at every node.
func (c *cluster) knockers(owned map[string]string, at ...*nodes.Node) []knocker {
	var all []knocker
	for _, n := range at {
		for owner, id := range owned {
			all = append(all,
				knocker{"read at " + n.Name + " of " + owner, func(ctx context.Context) (reply, error) {
					return ask(ctx, n, "GET", "/conversations/"+id+"?limit=1", nil)
				}},
				knocker{"write at " + n.Name + " of " + owner, func(ctx context.Context) (reply, error) {
					return ask(ctx, n, "PATCH", "/conversations/"+id, map[string]string{"title": n.Name})
				}})
		}
		all = append(all, knocker{"list at " + n.Name, func(ctx context.Context) (reply, error) {
			return ask(ctx, n, "GET", "/conversations?userId=ada&limit=5", nil)
		}})
	}
	return all
}

// ownerWait is the default of the configuration.
const ownerWait = 2 * time.Second

// TestTheWayBetweenTwoNodesIsBroken: while a third reaches both, everything goes on through it. What was under way may fail,
// and says so after cluster.owner_wait; 5 s later nothing fails any more.
func TestTheWayBetweenTwoNodesIsBroken(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, true)
	ctx := t.Context()
	require.NoError(t, c.Start(ctx))
	require.NoError(t, c.awaitSettled(ctx, 3))
	owned := c.ownedByEach(ctx, t, "slow")
	n1, n2, n3 := c.Node("n1"), c.Node("n2"), c.Node("n3")

	// An answer that is being written, seen from the other side of the cut, and one that begins later.
	began := time.Now()
	watcher := watch(ctx, owned["n1"], 0, began, n2)
	say := func() *messageStream {
		t.Helper()
		m, err := openMessageStream(ctx, n2, owned["n1"], "hello")
		require.NoError(t, err)
		select {
		case <-m.accepted:
		case err := <-m.ended:
			require.NoError(t, err, "ended at once")
		case <-time.After(30 * time.Second):
			require.Fail(t, "not accepted")
		}
		return m
	}
	said := func(m *messageStream) {
		t.Helper()
		require.NoError(t, <-m.ended)
	}
	first := say()
	require.NoError(t, watcher.awaitText(ctx, 10))
	require.NoError(t, errors.Join(c.Cut(ctx, n1, n2), c.Cut(ctx, n2, n1)))
	cut := time.Now()
	made := knock(ctx, cut, 15*time.Second, c.knockers(owned, c.Nodes()...))
	late, slowest := 0, time.Duration(0)
	for _, a := range made {
		switch {
		case a.err == nil && a.status == http.StatusOK:
			if a.at > 5*time.Second {
				late++
				slowest = max(slowest, a.after-a.at)
			}
		case a.at > 5*time.Second:
			t.Error(a)
		case a.err != nil || a.status != http.StatusServiceUnavailable || a.after-a.at > ownerWait+time.Second:
			t.Error(a)
		}
	}
	t.Logf("%d requests, %d of them later than 5 s after the cut, the slowest took %v", len(made), late, slowest)
	require.Greater(t, late, 100)
	require.NoError(t, watcher.awaitEvent(ctx, "session.status_idle", 1))
	said(first)
	said(say())
	require.NoError(t, watcher.awaitEvent(ctx, "session.status_idle", 2))
	third := say()
	require.NoError(t, watcher.awaitEvent(ctx, "session.status_running", 3))
	r, err := ask(ctx, n2, "POST", "/conversations/"+owned["n1"]+"/cancel", map[string]string{})
	require.NoError(t, err)
	require.Contains(t, []int{http.StatusOK, http.StatusAccepted}, r.status, r.text)
	require.NoError(t, watcher.awaitEvent(ctx, "session.status_idle", 3))
	require.ErrorContains(t, <-third.ended, "cancelled")
	require.NoError(t, watcher.end())

	// Every node sees every other, and the directory is led by the one that reaches all.
	for _, n := range c.Nodes() {
		require.NoError(t, allReady(ctx, n))
		found, failed := clusterStatus(ctx, n)
		require.NoError(t, failed)
		require.Equal(t, "n3", found.Placer, n.Name)
		for _, m := range found.Nodes {
			require.Equal(t, "active", m.State, "%s at %s", m.Name, n.Name)
			require.Less(t, m.Heard, 4.0, "%s at %s", m.Name, n.Name)
		}
	}
	require.True(t, n3.Ready(ctx))
	require.NoError(t, c.Heal(ctx))
	require.NoError(t, c.awaitSettled(ctx, 3))
	_, err = c.sameLog(ctx, owned["n1"])
	require.NoError(t, err)
}

// TestANodeWithoutAWay: it says so after cluster.owner_wait, whatever the request waits for.
func TestANodeWithoutAWay(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, true)
	ctx := t.Context()
	require.NoError(t, c.Start(ctx))
	require.NoError(t, c.awaitSettled(ctx, 3))
	owned := c.ownedByEach(ctx, t, "quick")
	require.NoError(t, c.Isolate(ctx, c.Node("n2")))
	made := knock(ctx, time.Now(), 12*time.Second, c.knockers(owned, c.Node("n2")))
	refused := 0
	for _, a := range made {
		took := a.after - a.at
		switch {
		case a.err == nil && a.status == http.StatusOK && a.at < time.Second: // it led, for all that it knew
		case a.err != nil || a.status != http.StatusServiceUnavailable || took < ownerWait-100*time.Millisecond || took > ownerWait+time.Second:
			t.Error(a)
		default:
			refused++
		}
	}
	require.Greater(t, refused, 10)
}

// TestRecordsGoRoundABrokenWay: what is written on one side of the cut is known on the other.
func TestRecordsGoRoundABrokenWay(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: runs several real processes")
	}
	if err := nodes.Permitted(t.Context()); err != nil {
		t.Skip(err)
	}
	binary, err := builtBinary()
	require.NoError(t, err)
	dir := t.TempDir()
	file := filepath.Join(dir, "parley.yaml")
	require.NoError(t, os.WriteFile(file, []byte(houseConfig+"provider_encryption_secret: the same on every node\nops: {remote_admin: true}\n"), 0o600))
	fleet, err := nodes.New(t.Context(), nodes.Config{
		Binary: binary, Dir: dir, Count: 3, Flags: []string{"--config", file}, ReadyWithin: time.Minute, Network: true,
	})
	require.NoError(t, err)
	c := &cluster{fleet}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.Logs(40))
		}
		require.NoError(t, c.Stop())
	})
	ctx := t.Context()
	require.NoError(t, c.Start(ctx))
	require.NoError(t, c.awaitSettled(ctx, 3))
	members := make(map[string]*process, 3)
	for _, n := range c.Nodes() {
		members[n.Name] = as(t, n)
	}
	house := apiCaller{members["n1"], houseToken}
	require.Eventually(t, func() bool { return house.ask(t, "GET", "/agents", nil).status == http.StatusOK },
		30*time.Second, 20*time.Millisecond, "the first tenant is made once the cluster is formed")
	n := newTenant(t, members["n1"], "ON_PREMISE")
	for name := range members {
		n.at(members[name]).done(t, "GET", "/agents", nil)
	}

	// The worst way: between the leader of the directory and another.
	found, err := clusterStatus(ctx, c.Node("n1"))
	require.NoError(t, err)
	leader := found.Placer
	others := slices.DeleteFunc([]string{"n1", "n2", "n3"}, func(name string) bool { return name == leader })
	require.NoError(t, errors.Join(
		c.Cut(ctx, c.Node(leader), c.Node(others[0])), c.Cut(ctx, c.Node(others[0]), c.Node(leader)),
	))
	const late = 5 * time.Second // on a busy machine
	cut := time.Now()
	since := cut // everything is answered
	for i := 0; time.Since(since) < 7*time.Second; i++ {
		require.Less(t, time.Since(cut), time.Minute, "it heals and stays so")
		from, to := members[leader], members[others[0]]
		if i%2 == 1 {
			from, to = to, from
		}
		at := time.Now()
		made := n.at(from).ask(t, "POST", "/users/"+n.owner+"/tokens", object1{"label": fmt.Sprint("made at ", at.Sub(cut))})
		if made.status >= 300 {
			require.Equal(t, http.StatusServiceUnavailable, made.status, "%v", made)
			require.Less(t, time.Since(at), ownerWait+late)
			since = time.Now()
			continue
		}
		wrote := time.Now()
		b := n.with(decode(t, made.text).text("token"))
		if used := b.at(to).ask(t, "GET", "/agents", nil); used.status != http.StatusOK { // a token that was made on the other side
			require.Equal(t, http.StatusServiceUnavailable, used.status, "%v", used)
			require.Less(t, time.Since(wrote), ownerWait+late)
			since = time.Now()
		}
	}
}
