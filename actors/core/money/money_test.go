package money_test

import (
	"encoding/json"
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"parley/actors/core/money"
)

// TestAppend: exact, a JSON number, and read back as it was.
func TestAppend(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nano := rapid.Int64().Draw(t, "nano")
		text := string(money.Append(nil, nano))
		require.True(t, json.Valid([]byte(text)), text)
		if nano >= 0 && nano/money.PerUSD < 1<<33 {
			parsed, err := money.Parse(text)
			require.NoError(t, err)
			require.Equal(t, nano, parsed)
		}
		written, ok := new(big.Rat).SetString(text)
		require.True(t, ok)
		require.Zero(t, written.Cmp(big.NewRat(nano, money.PerUSD)))
	})
	for nano, want := range map[int64]string{
		0: "0", 1: "0.000000001", -1: "-0.000000001", 1_500_000_000: "1.5", -20_000_000: "-0.02", 3_000_000_000: "3", math.MinInt64: "-9223372036.854775808",
	} {
		require.Equal(t, want, string(money.Append(nil, nano)))
	}
}

func TestParse(t *testing.T) {
	for _, text := range []string{"", ".5", "-1", "1.0000000001", "1e3", "0x1", "1_0", "99999999999", "1.2.3"} {
		_, err := money.Parse(text)
		require.ErrorContains(t, err, "US dollars", text)
	}
}

func TestFromUSD(t *testing.T) {
	nano, ok := money.FromUSD(0.15)
	require.True(t, ok)
	require.EqualValues(t, 150_000_000, nano)
	for _, usd := range []float64{0, -1, 4e-10, math.NaN(), math.Inf(1), 1e10} {
		_, ok := money.FromUSD(usd)
		require.False(t, ok, usd)
	}
}

func TestAdd(t *testing.T) {
	require.EqualValues(t, 5, money.Add(2, 3))
	require.EqualValues(t, 2, money.Add(2, -3))
	require.EqualValues(t, math.MaxInt64, money.Add(math.MaxInt64-1, 3))
}
