package feature_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"parley/actors/core/feature"
)

func TestGateOnlyRises(t *testing.T) {
	var gate feature.Gate
	require.True(t, gate.On(feature.Base))
	require.False(t, gate.On(feature.WholeCommands))
	gate.Raise(feature.WholeCommands)
	gate.Raise(feature.Base)
	require.Equal(t, feature.WholeCommands, gate.Level())
	require.Equal(t, feature.Newest, feature.NewGate(feature.Newest).Level())
}
