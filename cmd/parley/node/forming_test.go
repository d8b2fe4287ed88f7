package node

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"parley/actors/core/feature"
	"parley/cluster/peer/peertest"
	"parley/cmd/parley/config"
	"parley/persistence"
)

// TestStrangerIsRefused starts a node with the data of one cluster and the addresses of another: it does not serve.
func TestStrangerIsRefused(t *testing.T) {
	t.Parallel()
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

// TestStrangersMustBeMost: a node with data starts beside its like whatever others say, and does not wait for those who say
// nothing; one stranger of two may be a founder that lost its disk.
func TestStrangersMustBeMost(t *testing.T) {
	t.Parallel()
	ours := newFleet(t, "n1")
	n1, nobody := ours.configs["n1"].Cluster.Listen, peertest.Address()
	mute, err := config.Beside(nobody, config.PeerPort)
	require.NoError(t, err)
	hurried := false // the one that says nothing was not waited for
	check := func(cluster string, join ...string) error {
		c := config.Default()
		c.Cluster.Listen, c.Join = peertest.Address(), join
		n := &Node{config: c, log: testLog(t, "new"), features: feature.NewGate(feature.Oldest), network: network{dial: func(ctx context.Context, address string) (net.Conn, error) {
			if address == mute {
				<-ctx.Done()
				hurried = ctx.Err() == context.Canceled
				return nil, ctx.Err()
			}
			return (&net.Dialer{}).DialContext(ctx, "tcp", address)
		}}}
		return n.checkKin(t.Context(), origin{cluster: cluster, node: persistence.NewNodeID()})
	}
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		require.ErrorContains(t, check("another", n1), "n1 belongs to cluster "+ours.nodes["n1"].links.origin.cluster)
		require.ErrorContains(t, check("another", n1, n1, nobody), "n1 belongs to cluster ")
	}, 30*time.Second, time.Millisecond, "unless n1 takes its time")
	require.NoError(t, check("another", n1, nobody))
	require.NoError(t, check("another", nobody))
	require.Eventually(t, func() bool {
		err := check(ours.nodes["n1"].links.origin.cluster, nobody, n1)
		return assert.NoError(t, err) && hurried
	}, 30*time.Second, time.Millisecond, "unless n1 takes its time")
}
