package bench

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestPlanOfFaults(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		faults := rapid.IntRange(1, 100).Draw(t, "faults")
		over := time.Duration(rapid.IntRange(1, 1200).Draw(t, "seconds")) * time.Second
		count := rapid.IntRange(3, 7).Draw(t, "nodes")
		kinds := faultKinds(rapid.Bool().Draw(t, "network"), count)
		plan := planFaults(seed, faults, over, count, kinds)
		require.Equal(t, plan, planFaults(seed, faults, over, count, kinds), "the same seed, the same plan")
		require.Len(t, plan, faults)
		var ends time.Duration
		for _, p := range plan {
			require.GreaterOrEqual(t, p.at, ends, "one fault at a time")
			ends = p.at + p.lasts
			require.LessOrEqual(t, ends, over)
			require.Contains(t, kinds, p.kind)
			require.NotEmpty(t, p.victims)
			for _, v := range p.victims {
				require.Less(t, v, count)
			}
			require.Len(t, slices.Compact(slices.Sorted(slices.Values(p.victims))), len(p.victims), "different nodes")
			require.NotEmpty(t, p.String())
		}
	})
}

func TestKindsOfFaults(t *testing.T) {
	require.NotContains(t, faultKinds(false, 3), isolateNode, "without networks nothing can be cut")
	require.Contains(t, faultKinds(true, 3), partNodes)
	require.NotContains(t, faultKinds(false, 2), killTwo)
}
