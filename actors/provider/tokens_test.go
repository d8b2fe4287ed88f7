package provider

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTokens(t *testing.T) {
	for raw, count := range map[string]int64{
		"": 0, "null": 0, "0": 0, "17": 17, "17.0": 17, "1e3": 1000, `"17"`: 17, "100000000": 100_000_000,
		"-1": NoCount, "9e18": NoCount, "9223372036854775807": NoCount, "100000001": NoCount, "1e999": NoCount, "{}": NoCount, "true": NoCount,
		`"many"`: NoCount, "NaN": NoCount, "-0.5": NoCount,
	} {
		require.Equal(t, count, Tokens(raw), raw)
	}
	require.EqualValues(t, 6, Sum(1, 2, 3))
	require.EqualValues(t, NoCount, Sum(1, NoCount, 3))
	require.True(t, Believable(0, 100_000_000))
	require.False(t, Believable(5, NoCount))
}
