package node

import (
	"testing"

	"github.com/stretchr/testify/require"

	"parley/cmd/parley/config"
)

// TestStrangerIsRefused starts a node with the data of one cluster and the addresses of another: it does not serve.
func TestStrangerIsRefused(t *testing.T) {
	ours, theirs := newFleet(t, "n1"), newFleet(t, "s1")
	stranger := *theirs.configs["s1"]
	require.NoError(t, theirs.nodes["s1"].Stop(t.Context()))
	delete(theirs.nodes, "s1")

	restart := func(join ...string) error {
		stranger.Join = join
		n, err := start(t.Context(), &stranger, testLog(t, "s1"), nil)
		if err == nil {
			require.NoError(t, n.Stop(t.Context()))
		}
		return err
	}
	at := func(c *config.Config) string { return c.Cluster.Listen }
	require.ErrorContains(t, restart(at(&stranger), at(ours.configs["n1"])), "n1 belongs to cluster ")

	require.NoError(t, ours.nodes["n1"].Stop(t.Context()))
	delete(ours.nodes, "n1")
	require.NoError(t, restart(at(&stranger), at(ours.configs["n1"])), "nobody is there to ask")
}
