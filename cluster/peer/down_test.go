package peer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestDownIsTold: a refused connection says more than a broken one.
func TestDownIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	down := make(chan uint64, 100)
	a := w.start(1, func(c *Config) { c.OnDown = func(node uint64) { down <- node } })
	b := w.start(2, nil)
	a.reach(t, b)
	w.network.Break()
	a.reach(t, b)
	require.Empty(t, down, "it still listens")
	b.Stop()
	select {
	case node := <-down:
		require.EqualValues(t, 2, node)
	case <-time.After(patience):
		require.Fail(t, "not told")
	}
}
