package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/bench/nodes"
	"parley/cmd/parley/node"
)

// ends waits until a node's process has ended with an error.
func ends(t *testing.T, n *nodes.Node, within time.Duration) {
	t.Helper()
	select {
	case <-n.Exited():
	case <-time.After(within):
		require.Fail(t, "it goes on", "%s at %s", n.Name, n.Cluster)
	}
	_, err := n.Usage()
	require.Error(t, err)
}

// allReady says which of some nodes is not ready.
func allReady(ctx context.Context, all ...*nodes.Node) error {
	for _, n := range all {
		if err := n.Unready(ctx); err != nil {
			return err
		}
	}
	return nil
}

// identity is a node's number as another one's status has it.
func identity(ctx context.Context, at *nodes.Node, name string) (*node.Member, error) {
	found, err := clusterStatus(ctx, at)
	if err != nil {
		return nil, err
	}
	for i := range found.Nodes {
		if found.Nodes[i].Name == name {
			return &found.Nodes[i], nil
		}
	}
	return nil, fmt.Errorf("%s does not know %s", at.Name, name)
}

// TestASecondProcessUnderANodesName ends, and all the while the others serve what the real one owns.
func TestASecondProcessUnderANodesName(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, false)
	ctx := t.Context()
	require.NoError(t, c.Start(ctx))
	require.NoError(t, c.awaitSettled(ctx, 3))
	genuine := c.Node("n2")
	before, err := identity(ctx, c.Node("n1"), "n2")
	require.NoError(t, err)
	var owned string // a conversation of the real n2
	for owned == "" {
		id, failed := create(ctx, c.Node("n1"), "quick")
		require.NoError(t, failed)
		owner, failed := c.owner(ctx, id)
		require.NoError(t, failed)
		if owner == genuine {
			owned = id
		}
	}

	double, err := c.Double(ctx, genuine)
	require.NoError(t, err)
	require.NoError(t, double.Launch())
	looking, stop := context.WithCancel(ctx)
	defer stop()
	wrong := make(chan error, 1)
	go func() {
		defer close(wrong)
		for looking.Err() == nil {
			if unready := allReady(ctx, c.Nodes()...); unready != nil {
				wrong <- unready
				return
			}
			for _, n := range c.Nodes() {
				if r, failed := glance(ctx, n, owned); failed != nil || r.status != http.StatusOK {
					wrong <- r.wrong("read at "+n.Name, failed)
					return
				}
			}
			_ = wait(looking, 20*time.Millisecond)
		}
	}()
	ends(t, double, 30*time.Second)
	require.NoError(t, wait(ctx, 4*time.Second)) // until what was said of its end would have had its effect
	stop()
	require.NoError(t, <-wrong)
	after, err := identity(ctx, c.Node("n3"), "n2")
	require.NoError(t, err)
	require.Equal(t, before.ID, after.ID)
	require.Equal(t, "active", after.State)
	require.NoError(t, c.awaitSettled(ctx, 3))
}

// TestANodeComesBackToFindItsNameTaken: it was stopped, another process took over its name and its votes, and it goes on:
// then it ends, and the one that the logs know stays.
func TestANodeComesBackToFindItsNameTaken(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, false)
	ctx := t.Context()
	require.NoError(t, c.Start(ctx))
	require.NoError(t, c.awaitSettled(ctx, 3))
	old := c.Node("n2")
	before, err := identity(ctx, c.Node("n1"), "n2")
	require.NoError(t, err)
	require.NoError(t, old.Pause())
	replacement, err := c.Double(ctx, old)
	require.NoError(t, err)
	require.NoError(t, replacement.Launch())
	others := []*nodes.Node{c.Node("n1"), c.Node("n3")}
	// Everywhere n2 is another node than before, and all shards have it among their voters.
	taken := func(ctx context.Context) error {
		for _, n := range others {
			found, failed := clusterStatus(ctx, n)
			if failed != nil {
				return failed
			}
			member, failed := identity(ctx, n, "n2")
			if failed != nil {
				return failed
			}
			if member.ID == before.ID || member.State != "active" {
				return fmt.Errorf("%s: n2 is %+v", n.Name, *member)
			}
			for _, s := range found.Shards {
				if s.Owner == "" || !slices.Equal(s.Voters, []string{"n1", "n2", "n3"}) {
					return fmt.Errorf("%s: shard %d: owner %q, voters %v", n.Name, s.Shard, s.Owner, s.Voters)
				}
			}
		}
		return allReady(ctx, append(others, replacement)...)
	}
	require.NoError(t, until(ctx, time.Minute, taken))

	require.NoError(t, old.Resume())
	began := time.Now()
	ends(t, old, 30*time.Second)
	t.Logf("the one that came back ended after %v", time.Since(began))
	// A shard may be without an owner for the moment in which it moves to the new node.
	require.NoError(t, until(ctx, time.Minute, taken), "its end is no end of the other")
	require.NoError(t, wait(ctx, 4*time.Second)) // until what was said of its end would have had its effect
	require.NoError(t, taken(ctx))
	require.True(t, replacement.Running())
	id, err := create(ctx, replacement, "quick")
	require.NoError(t, err)
	for _, n := range append(others, replacement) {
		r, failed := glance(ctx, n, id)
		require.NoError(t, errors.Join(failed, ctx.Err()))
		require.Equal(t, http.StatusOK, r.status, r.text)
	}
}
