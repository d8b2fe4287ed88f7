package keys_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"parley/persistence/keys"
)

// drawPack returns rows in the order of their members, with tails that several have.
func drawPack(t *rapid.T) []keys.NumberedMember {
	drawn := rapid.MapOfN(
		rapid.Custom(func(t *rapid.T) string {
			return rapid.StringOfN(rapid.SampledFrom([]rune("ab")), 0, 2, -1).Draw(t, "head") +
				rapid.StringOfN(rapid.SampledFrom([]rune("/xy\x00")), 0, 3, -1).Draw(t, "tail")
		}),
		rapid.SliceOfN(rapid.Int64(), 0, 4), 0, 30,
	).Draw(t, "rows")
	var rows []keys.NumberedMember
	for _, member := range slices.Sorted(maps.Keys(drawn)) {
		rows = append(rows, keys.NumberedMember{Member: member, Values: drawn[member]})
	}
	return rows
}

// TestPackRoundTrip: a pack says what it was made of, row by row and added up.
func TestPackRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows, head := drawPack(t), rapid.IntRange(0, 3).Draw(t, "head bytes")
		value := keys.AppendPackValue(nil, "from", head, rows)
		found, totals, want := map[string][]int64{}, map[string][]int64{}, map[string][]int64{}
		heads, wantHeads := map[string][]int64{}, map[string][]int64{} // of longer tails
		pack, err := keys.ReadPack(value)
		require.NoError(t, err)
		require.Equal(t, "from", string(pack.From))
		require.NoError(t, pack.Each(func(first, tail []byte, values []int64) error {
			require.NotContains(t, found, string(first)+string(tail))
			found[string(first)+string(tail)] = slices.Clone(values)
			return nil
		}))
		require.Len(t, found, len(rows))
		for _, row := range rows {
			require.Equal(t, append([]int64{}, row.Values...), append([]int64{}, found[row.Member]...))
			tail := row.Member[min(head, len(row.Member)):]
			want[tail] = keys.AddNumbers(want[tail], row.Values)
		}
		slices.SortStableFunc(rows, func(x, y keys.NumberedMember) int {
			return strings.Compare(x.Member[min(head, len(x.Member)):], y.Member[min(head, len(y.Member)):])
		})
		for _, row := range rows {
			if first := row.Member[:min(head, len(row.Member))]; len(row.Member) > head+1 && len(row.Values) > 0 {
				wantHeads[first] = keys.AddNumbers(wantHeads[first], row.Values)
			}
		}
		pack, err = keys.ReadPack(value)
		require.NoError(t, err)
		require.NoError(t, pack.Totals(func(tail []byte, values []int64) (bool, error) {
			require.NotContains(t, totals, string(tail))
			totals[string(tail)] = slices.Clone(values)
			return len(tail) > 1, nil
		}, func(first []byte, values []int64) {
			require.NotContains(t, heads, string(first))
			heads[string(first)] = slices.Clone(values)
		}))
		require.Len(t, totals, len(want))
		for tail, numbers := range want {
			require.Equal(t, append([]int64{}, numbers...), append([]int64{}, totals[tail]...))
		}
		require.Len(t, heads, len(wantHeads))
		for first, numbers := range wantHeads {
			require.Equal(t, append([]int64{}, numbers...), append([]int64{}, heads[first]...))
		}
	})
}

// FuzzPack: no bytes make a reader run away; what is cut off is told.
func FuzzPack(f *testing.F) {
	whole := keys.AppendPackValue(nil, "00", 2, []keys.NumberedMember{
		{Member: "00/a", Values: []int64{1}}, {Member: "00/b", Values: []int64{-2, 300}}, {Member: "07/a", Values: []int64{5, 7}},
	})
	for i := range whole {
		f.Add(whole[:i])
	}
	f.Add(whole)
	f.Fuzz(func(t *testing.T, value []byte) {
		visited := 0
		visit := func([]byte, []int64) error { visited++; return nil }
		if pack, err := keys.ReadPack(value); err == nil {
			totals := func(tail []byte, values []int64) (bool, error) { return len(tail)%2 == 0, visit(tail, values) }
			_ = pack.Totals(totals, func([]byte, []int64) { visited++ }) // it ends, which is enough
		}
		if pack, err := keys.ReadPack(value); err == nil {
			_ = pack.Each(func(_, tail []byte, values []int64) error { return visit(tail, values) }) // it ends, which is enough
		}
		require.LessOrEqual(t, visited, 3*len(value))
	})
}

// TestCutPacks: a pack that ends too early is damaged, unless it ends between groups.
func TestCutPacks(t *testing.T) {
	whole := keys.AppendPackValue(nil, "00", 2, []keys.NumberedMember{
		{Member: "00/a", Values: []int64{1}}, {Member: "00/b", Values: []int64{-2, 300}}, {Member: "07/a", Values: []int64{5, 7}},
	})
	damaged := 0
	for n := range whole {
		pack, err := keys.ReadPack(whole[:n])
		if err == nil {
			err = pack.Each(func(_, _ []byte, _ []int64) error { return nil })
		}
		if err != nil {
			damaged++
		}
	}
	require.Equal(t, len(whole)-2, damaged, "whole without any group, and with the first")
}
