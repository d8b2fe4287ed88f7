package node

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/cluster/shard"
)

// The tests of this file take longest. Parallel tests go on from the last file to the first.

// TestOwnerThatIsCutOff: the others take over what it owns, though gossip takes it for alive; what it acknowledged is
// there, and once it is back it serves what the others wrote meanwhile.
func TestOwnerThatIsCutOff(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: three whole nodes")
	}
	f := newFleet(t, "n1", "n2", "n3")
	f.grown()
	id, owner := f.conversation("n1")
	others := slices.DeleteFunc([]string{"n1", "n2", "n3"}, func(name string) bool { return name == owner })
	f.network.Isolate(owner, others...)
	f.eventually("another node owns it", 60*time.Second, func() bool {
		status, by, _, err := f.call(others[0], http.MethodPatch, "/conversations/"+id, map[string]any{"title": "taken over"})
		return err == nil && status == http.StatusOK && by != owner
	})
	status, _, answer, err := f.call(owner, http.MethodPatch, "/conversations/"+id, map[string]any{"title": "by the deposed"})
	require.NoError(t, err)
	require.Equal(t, http.StatusServiceUnavailable, status, answer)
	status, _, answer, err = f.call(owner, http.MethodGet, "/conversations/"+id, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusServiceUnavailable, status, "who was deposed must not answer from what it has: %v", answer)

	f.network.Heal()
	f.eventually("the one that was cut off serves what the others wrote", 60*time.Second, func() bool {
		status, _, answer, err := f.call(owner, http.MethodGet, "/conversations/"+id, nil)
		made, ok := answer["conversation"].(map[string]any)
		return err == nil && status == http.StatusOK && ok && made["title"] == "taken over"
	})
}

// TestTwoNodesThatDoNotReachEachOther: a third passes on what they have for each other, and leads the directory.
func TestTwoNodesThatDoNotReachEachOther(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: three whole nodes")
	}
	f := newFleet(t, "n1", "n2", "n3")
	f.grown()
	owned := map[string]string{}
	for i := 0; len(owned) < 3 && i < 200; i++ {
		id, owner := f.conversation("n1")
		owned[owner] = id
	}
	require.Len(t, owned, 3)
	f.network.Isolate("n1", "n2")
	cut := time.Now()
	served := func() error {
		for name := range f.nodes {
			for owner, id := range owned {
				status, _, answer, err := f.call(name, http.MethodPatch, "/conversations/"+id, map[string]any{"title": name})
				if err != nil || status != http.StatusOK {
					return fmt.Errorf("of %s through %s: %d, %v, %w", owner, name, status, answer, err)
				}
			}
		}
		return nil
	}
	f.eventually("everything is served everywhere", 30*time.Second, func() bool { return served() == nil })
	f.eventually("the directory is led by who reaches all", 30*time.Second, func() bool {
		placer := map[string]bool{}
		for _, n := range f.nodes {
			owner, _ := n.owners.Owner(shard.Directory)
			placer[owner.Node] = true
		}
		return len(placer) == 1 && placer["n3"]
	})
	t.Logf("the directory was handed over within %v", time.Since(cut))
	for i := range 10 {
		require.NoError(t, served())
		from, to := f.nodes["n1"], f.nodes["n2"]
		if i%2 == 1 {
			from, to = to, from
		}
		key := fmt.Sprint("made on the other side ", i)
		_, err := from.directory.records.Put(t.Context(), "test", key, 0, []byte("x"))
		require.NoError(t, err)
		_, found, err := to.directory.records.Find(t.Context(), "test", key)
		require.NoError(t, err)
		require.True(t, found, "%d", i)
	}
	for name, n := range f.nodes {
		require.NoError(t, n.unready(), name)
	}
	f.network.Isolate("n3", "n1", "n2")
	start := time.Now()
	_, _, err := f.nodes["n2"].directory.records.Find(t.Context(), "test", "what nobody can tell")
	require.Error(t, err)
	took := time.Since(start)
	require.GreaterOrEqual(t, took, f.configs["n2"].Cluster.OwnerWait)
	require.Less(t, took, 30*time.Second)
	f.eventually("who reaches nobody is not ready", 30*time.Second, func() bool {
		return slices.IndexFunc([]string{"n1", "n2", "n3"}, func(name string) bool { return f.nodes[name].unready() == nil }) < 0
	})
	f.network.Heal()
	f.eventually("all is well", 30*time.Second, func() bool {
		return served() == nil && slices.IndexFunc([]string{"n1", "n2", "n3"}, func(name string) bool { return f.nodes[name].unready() != nil }) < 0
	})
}
