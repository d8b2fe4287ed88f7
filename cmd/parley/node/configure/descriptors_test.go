package configure

import (
	"testing"

	"github.com/stretchr/testify/require"

	"parley/cmd/parley/config"
)

// TestShareDescriptors: the shares never come to more than there is, from the least with which a node can run.
func TestShareDescriptors(t *testing.T) {
	alone, joined := config.Default(), config.Default()
	joined.Cluster.Listen = "127.0.0.1:7000"
	require.True(t, joined.Cluster.Enabled())
	for _, c := range []*config.Config{alone, joined} {
		least := 0
		for limit := 96; limit < 1<<20; limit += 1 + limit/7 {
			d := shareDescriptors(limit, c)
			require.Less(t, d.tables+d.spare+d.ops+d.sockets, limit, "limit %d", limit)
			require.GreaterOrEqual(t, d.sockets, least, "limit %d", limit)
			require.GreaterOrEqual(t, d.tables, leastShare)
			least = d.sockets
		}
	}
	require.Equal(t, Descriptors{limit: 1024, tables: 128, spare: 32, ops: 64, sockets: 640}, shareDescriptors(1024, alone))
	require.Greater(t, shareDescriptors(20_000, alone).sockets, 16_000)
	few := config.Default()
	few.Storage.MaxOpenFiles = 100
	require.Equal(t, 100, shareDescriptors(1<<20, few).tables)
}
