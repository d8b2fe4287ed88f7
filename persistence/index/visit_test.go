package index_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"parley/actors/machine"
	"parley/persistence/index"
	"parley/persistence/keys"
)

// TestPartsOfARangeAreTheWhole: rows of a range, and counts of a list by score, are those of its parts together, and nothing beside
// the range, the name or the shards is seen.
func TestPartsOfARangeAreTheWhole(t *testing.T) {
	db := open(t)
	runs := 0
	rapid.Check(t, func(t *rapid.T) {
		runs++
		name := fmt.Sprint("n", runs)
		sums, counts := map[string]int64{}, map[int64]int64{}
		for i := range rapid.IntRange(0, 40).Draw(t, "rows") {
			group, score := rapid.Uint32Range(1, 3).Draw(t, "group"), rapid.Int64Range(-30, 30).Draw(t, "score")
			member := fmt.Sprintf("%02d/%d", score+30, i)
			require.NoError(t, db.Set(keys.AppendSum(nil, group, name, member), keys.AppendSumValue(nil, []int64{1, int64(i)}), pebble.NoSync))
			require.NoError(t, db.Set(keys.AppendListing(nil, group, name, score, member), nil, pebble.NoSync))
			if group < 3 {
				sums[member] += int64(i)
				counts[score]++
			}
		}
		require.NoError(t, db.Set(keys.AppendSum(nil, 1, name+"x", "10/x"), keys.AppendSumValue(nil, []int64{9}), pebble.NoSync))
		require.NoError(t, db.Set(keys.AppendListing(nil, 1, name+"x", 0, "x"), nil, pebble.NoSync))
		cut, shards := rapid.Int64Range(-30, 30).Draw(t, "cut"), []uint32{1, 2}
		bound := fmt.Sprintf("%02d", cut+30)
		found := map[string]int64{}
		for _, q := range []index.SumQuery{{Name: name, To: bound}, {Name: name, From: bound}, {Name: name, From: "50", To: "40"}} {
			require.NoError(t, index.VisitSums(db, shards, q, func(member []byte, values []int64) error {
				found[string(member)] += values[1]
				return nil
			}))
		}
		require.Equal(t, sums, found)
		unit := rapid.Int64Range(1, 7).Draw(t, "unit")
		whole := map[int64]int64{}
		for _, part := range [][2]int64{{-100, cut}, {cut, 100}, {50, 40}} {
			got, err := index.Spread(db, shards, index.SpreadQuery{List: name, From: part[0], To: part[1], Unit: unit}, func() error { return nil })
			require.NoError(t, err)
			for at, n := range got {
				whole[at] += n
			}
		}
		want := map[int64]int64{}
		for score, n := range counts {
			want[(score+unit*100)/unit-100] += n
		}
		require.Equal(t, want, whole)
	})
	stop := errors.New("enough")
	require.NoError(t, db.Set(keys.AppendSum(nil, 9, "stop", "a"), keys.AppendSumValue(nil, []int64{1}), pebble.NoSync))
	require.NoError(t, db.Set(keys.AppendListing(nil, 9, "stop", 1, "a"), nil, pebble.NoSync))
	require.ErrorIs(t, index.VisitSums(db, []uint32{9}, index.SumQuery{Name: "stop"}, func([]byte, []int64) error { return stop }), stop)
	_, err := index.Spread(db, []uint32{9}, index.SpreadQuery{List: "stop", To: 9, Unit: 1}, func() error { return stop })
	require.ErrorIs(t, err, stop)
}

// BenchmarkUsage adds up a million rows of 90 days, as one node that has all shards, and a third of them, as one of three does.
func BenchmarkUsage(b *testing.B) {
	db, err := pebble.Open(b.TempDir(), &pebble.Options{Logger: quiet{}})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, db.Close()) })
	const rows, hours, shards = 1_000_000, 90 * 24, 12
	batch := db.NewBatch()
	for i := range rows {
		user := i % (rows / hours)
		member := machine.UsageMember(int64(i/(rows/hours))*3_600_000, machine.UsageKey{
			Model: fmt.Sprint("model-", user%5), User: fmt.Sprintf("usr_%016d", user), Token: fmt.Sprintf("tok_%016d", user), Service: "agents", Agent: "helper",
		})
		key := keys.AppendSum(nil, uint32(1+i%shards), "usage/t/p", member)
		require.NoError(b, batch.Set(key, keys.AppendSumValue(nil, []int64{3, 0, 3000, 300, 0, 15_000_000}), nil))
		if batch.Len() > 1<<20 {
			require.NoError(b, batch.Commit(pebble.NoSync))
			batch = db.NewBatch()
		}
	}
	require.NoError(b, batch.Commit(pebble.Sync))
	require.NoError(b, db.Flush())
	for name, parts := range map[string]uint32{"all_shards": 12, "a_third": 4} {
		for by, part := range map[string]machine.UsagePart{"model": machine.UsageByModel, "user": machine.UsageByUser} {
			b.Run(name+"/"+by, func(b *testing.B) {
				var groups []uint32
				for i := range parts {
					groups = append(groups, i+1)
				}
				for b.Loop() {
					tally := machine.NewUsageTally(part, machine.UsageDaily, 0, "")
					require.NoError(b, index.VisitSums(db, groups, index.SumQuery{Name: "usage/t/p"}, func(member []byte, values []int64) error {
						tally.Add(member, values)
						return nil
					}))
				}
			})
		}
	}
}
