package persistencetest

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"parley/persistence"
	"parley/proto/logpb"
)

// sum names a row of numbers.
type sum struct{ name, member string }

// AddSums does what Store.AddSums must do.
func (m *Model) AddSums(group uint32, sums []*logpb.Sum) {
	for _, s := range sums {
		row := m.sums[group][sum{s.GetName(), s.GetMember()}]
		for i, delta := range s.GetDeltas() {
			if i == len(row) {
				row = append(row, 0)
			}
			row[i] += delta
		}
		m.sums[group][sum{s.GetName(), s.GetMember()}] = row
	}
}

// DrawSums returns random additions to some rows.
func (m *Model) DrawSums(t *rapid.T) (sums []*logpb.Sum) {
	letter := rapid.SampledFrom([]string{"a", "b", "c"})
	for range max(0, rapid.IntRange(-2, 2).Draw(t, "sums")) {
		sums = append(sums, &logpb.Sum{
			Name: letter.Draw(t, "name"), Member: letter.Draw(t, "member"),
			Deltas: rapid.SliceOfN(rapid.Int64Range(-2, 2), 0, 3).Draw(t, "deltas"),
		})
	}
	return sums
}

// DrawPack sometimes packs sums of a shard, which changes none.
func (m *Model) DrawPack(ctx context.Context, t *rapid.T, s *persistence.Store) {
	if rapid.IntRange(0, 4).Draw(t, "pack") > 0 {
		return
	}
	require.NoError(t, s.PackSums(ctx, rapid.Uint32Range(1, m.shards).Draw(t, "group"), persistence.Packing{
		Prefix: rapid.SampledFrom([]string{"", "a"}).Draw(t, "prefix"), Before: rapid.SampledFrom([]string{"b", "c", "e"}).Draw(t, "before"),
		Head: rapid.IntRange(0, 1).Draw(t, "head"),
		Span: func(member string) (from, to string) {
			if member < "c" {
				return "a", "c"
			}
			return "c", "e"
		},
		Parts: func(string) []string { return nil },
	}))
}

// numbers returns a row as it is read: without trailing zeros.
func numbers(row []int64) []int64 {
	for len(row) > 0 && row[len(row)-1] == 0 {
		row = row[:len(row)-1]
	}
	return row
}

func (m *Model) checkSums(ctx context.Context, t require.TestingT, s *persistence.Store) {
	want := map[sum][]int64{}
	var all []uint32
	for g := range m.shards {
		group := g + 1
		all = append(all, group)
		for _, name := range []string{"a", "b", "c", "never"} {
			rows, err := s.Sums(ctx, []uint32{group}, persistence.SumQuery{Name: name, Limit: 100})
			require.NoError(t, err)
			for _, row := range rows {
				require.Equal(t, fmt.Sprint(numbers(m.sums[group][sum{name, row.Member}])), fmt.Sprint(row.Values))
				want[sum{name, row.Member}] = add(want[sum{name, row.Member}], row.Values)
			}
		}
		rows := 0
		for _, row := range m.sums[group] {
			if len(numbers(row)) > 0 {
				rows++
			}
		}
		for _, name := range []string{"a", "b", "c"} {
			found, err := s.Sums(ctx, []uint32{group}, persistence.SumQuery{Name: name, Limit: 100})
			require.NoError(t, err)
			for _, row := range found {
				if len(row.Values) > 0 { // else what was packed and what came later are zero together
					rows--
				}
			}
		}
		require.Zero(t, rows, "rows of shard %d", group)
	}
	for _, name := range []string{"a", "b", "c"} {
		merged, err := s.Sums(ctx, all, persistence.SumQuery{Name: name, Limit: 100})
		require.NoError(t, err)
		for _, row := range merged {
			require.Equal(t, fmt.Sprint(numbers(want[sum{name, row.Member}])), fmt.Sprint(numbers(row.Values)))
		}
	}
}

func add(to, deltas []int64) []int64 {
	to = slices.Clone(to)
	for i, n := range deltas {
		if i == len(to) {
			to = append(to, 0)
		}
		to[i] += n
	}
	return to
}

func sumsAreAdded(t *testing.T, s *persistence.Store) {
	t.Helper()
	one := func(name, member string, deltas ...int64) []*logpb.Sum {
		return []*logpb.Sum{{Name: name, Member: member, Deltas: deltas}}
	}
	shards := uint32(s.Identity().Shards)
	all := []uint32{1, 2}
	for i := range 40 {
		require.NoError(t, s.AddSums(t.Context(), uint32(i)%2+1, one("u", fmt.Sprintf("%02d", i/4), 1, int64(i))))
	}
	must(t, s, 1, &logpb.Append{Id: "c", Create: true, Sums: one("u", "00", 1, 0, 7)})
	must(t, s, 1, &logpb.Append{Id: "c", DeleteEntity: true, Sums: one("u", "00", 1)}) // it outlives the entity
	require.NoError(t, s.AddSums(t.Context(), 1, one("other", "05", 9)))
	require.NoError(t, s.AddSums(t.Context(), 1, one("uu", "05", 9)))
	for _, tc := range []struct {
		q    persistence.SumQuery
		want string
	}{
		{persistence.SumQuery{Name: "u", Limit: 100, To: "03"}, "00[6 6 7] 01[4 22] 02[4 38]"},
		{persistence.SumQuery{Name: "u", Limit: 2, From: "01"}, "01[4 22] 02[4 38]"},
		{persistence.SumQuery{Name: "u", Limit: 100, From: "08"}, "08[4 134] 09[4 150]"},
		{persistence.SumQuery{Name: "u", Limit: 100, From: "03", To: "03"}, ""},
		{persistence.SumQuery{Name: "u", Limit: 100, From: "05", To: "03"}, ""},
		{persistence.SumQuery{Name: "u", From: "01"}, ""},
		{persistence.SumQuery{Name: "nobody", Limit: 9}, ""},
	} {
		rows, err := s.Sums(t.Context(), all, tc.q)
		require.NoError(t, err)
		var got []string
		for _, row := range rows {
			got = append(got, fmt.Sprint(row.Member, row.Values))
		}
		require.Equal(t, tc.want, strings.Join(got, " "))
	}

	// It does not overflow, and a row of zeros is none.
	require.NoError(t, s.AddSums(t.Context(), 1, one("big", "m", math.MaxInt64, math.MinInt64, 1)))
	require.NoError(t, s.AddSums(t.Context(), 2, one("big", "m", 5, -5)))
	require.NoError(t, s.AddSums(t.Context(), 1, one("big", "m", 5, -5, -1)))
	rows, err := s.Sums(t.Context(), all, persistence.SumQuery{Name: "big", Limit: 9})
	require.NoError(t, err)
	require.Equal(t, []persistence.SumRow{{Member: "m", Values: []int64{math.MaxInt64, math.MinInt64}}}, rows)
	require.Equal(t, []int64{math.MaxInt64, 0}, []int64{rows[0].Value(0), rows[0].Value(7)})
	require.NoError(t, s.AddSums(t.Context(), 1, one("zero", "m", 1, -1)))
	require.NoError(t, s.AddSums(t.Context(), 1, one("zero", "m", -1, 1)))
	rows, err = s.Sums(t.Context(), []uint32{1}, persistence.SumQuery{Name: "zero", Limit: 9})
	require.NoError(t, err)
	require.Empty(t, rows)

	for name, sums := range map[string][]*logpb.Sum{
		"no name":      one("", "m", 1),
		"long name":    one(strings.Repeat("x", 256), "m", 1),
		"long member":  one("u", strings.Repeat("x", 256), 1),
		"many numbers": one("u", "m", make([]int64, 17)...),
		"many sums":    slices.Repeat(one("u", "m", 1), 4097),
	} {
		require.ErrorIs(t, s.AddSums(t.Context(), 1, sums), persistence.ErrInvalid, name)
		_, err = s.Append(t.Context(), 1, &logpb.Append{Id: "d", Create: true, Sums: sums})
		require.ErrorIs(t, err, persistence.ErrInvalid, name)
	}
	require.NoError(t, s.AddSums(t.Context(), 1, nil))
	require.ErrorIs(t, s.AddSums(t.Context(), shards+1, one("u", "m", 1)), persistence.ErrUnknownGroup)
	_, err = s.Sums(t.Context(), []uint32{shards + 1}, persistence.SumQuery{Name: "u", Limit: 1})
	require.ErrorIs(t, err, persistence.ErrUnknownGroup)
}
