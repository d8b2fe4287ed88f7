package index_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"parley/actors/machine"
	"parley/persistence/index"
	"parley/persistence/keys"
)

// seen adds up a number of what it is shown, by member, tail and head. Heads are those of tails that are odd.
type seen struct {
	column                int
	members, tails, heads map[string]int64
}

func newSeen() *seen {
	return &seen{members: map[string]int64{}, tails: map[string]int64{}, heads: map[string]int64{}}
}

func odd(tail string) bool { return tail[len(tail)-1]%2 == 1 }

func (s *seen) Add(head, tail []byte, values []int64) {
	s.members[string(head)+string(tail)] += values[s.column]
	s.tails[string(tail)] += values[s.column]
	if odd(string(tail)) {
		s.heads[string(head)] += values[s.column]
	}
}

func (s *seen) AddTail(_, tail []byte, values []int64) (heads bool) {
	s.tails[string(tail)] += values[s.column]
	return odd(string(tail))
}

func (s *seen) AddHead(head []byte, values []int64) { s.heads[string(head)] += values[s.column] }

func always() error { return nil }

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
		found := newSeen()
		found.column = 1
		for _, q := range []index.SumQuery{{Name: name, To: bound, Head: 2}, {Name: name, From: bound, Head: 2}, {Name: name, From: "50", To: "40"}} {
			require.NoError(t, index.VisitSums(db, shards, q, found, always))
		}
		require.Equal(t, sums, found.members)
		unit := rapid.Int64Range(1, 7).Draw(t, "unit")
		whole := map[int64]int64{}
		for _, part := range [][2]int64{{-100, cut}, {cut, 100}, {50, 40}} {
			got, err := index.Spread(db, shards, index.SpreadQuery{List: name, From: part[0], To: part[1], Unit: unit}, always)
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
	require.ErrorIs(t, index.VisitSums(db, []uint32{9}, index.SumQuery{Name: "stop"}, newSeen(), func() error { return stop }), stop)
	_, err := index.Spread(db, []uint32{9}, index.SpreadQuery{List: "stop", To: 9, Unit: 1}, func() error { return stop })
	require.ErrorIs(t, err, stop)
}

// drawPacks stores rows of ten times ten heads, some of them packed by tens, some in part packed and in part not. It returns what they come to.
func drawPacks(t *rapid.T, db *pebble.DB, name string) map[string]int64 {
	sums, packed := map[string]int64{}, map[[2]uint32]map[string]int64{}
	for range rapid.IntRange(0, 60).Draw(t, "rows") {
		group, at := rapid.Uint32Range(1, 3).Draw(t, "group"), rapid.Uint32Range(0, 99).Draw(t, "at")
		member, n := fmt.Sprintf("%02d/%d", at, rapid.IntRange(0, 3).Draw(t, "tail")), rapid.Int64Range(1, 1000).Draw(t, "n")
		if group < 3 {
			sums[member] += n
		}
		if span := [2]uint32{group, at / 10}; rapid.Bool().Draw(t, "packed") {
			if packed[span] == nil {
				packed[span] = map[string]int64{}
			}
			packed[span][member] += n
			continue
		}
		key, before := keys.AppendSum(nil, group, name, member), []int64(nil)
		if stored, closer, err := db.Get(key); err == nil {
			before, err = keys.SumFields(nil, stored)
			require.NoError(t, errors.Join(err, closer.Close()))
		}
		require.NoError(t, db.Set(key, keys.AppendSumValue(nil, keys.AddNumbers(before, []int64{n})), pebble.NoSync))
	}
	for span, rows := range packed {
		var members []keys.NumberedMember
		for _, member := range slices.Sorted(maps.Keys(rows)) {
			members = append(members, keys.NumberedMember{Member: member, Values: []int64{rows[member]}})
		}
		from, to := fmt.Sprint(span[1], "0"), fmt.Sprintf("%02d", span[1]*10+10)
		if span[1] == 9 {
			to = "9:"
		}
		require.NoError(t, db.Set(keys.AppendPack(nil, span[0], name, to), keys.AppendPackValue(nil, from, 2, members), pebble.NoSync))
	}
	return sums
}

// TestPacksAreSeenAsRows: however rows are packed, a range has the same ones, read in pages, and visited the same sums of each tail, and of
// each head with the tails that are asked for.
func TestPacksAreSeenAsRows(t *testing.T) {
	db := open(t)
	runs := 0
	rapid.Check(t, func(t *rapid.T) {
		runs++
		name, shards := fmt.Sprint("p", runs), []uint32{1, 2}
		sums := drawPacks(t, db, name)
		bound := rapid.SampledFrom([]string{"", "00", "07", "10", "25", "30", "30/1", "59", "60", "99", "9:"})
		q := index.SumQuery{Name: name, Head: 2, From: bound.Draw(t, "from"), To: bound.Draw(t, "to"), Limit: rapid.IntRange(1, 9).Draw(t, "limit")}
		want, tails, heads := map[string]int64{}, map[string]int64{}, map[string]int64{}
		for member, n := range sums {
			if member >= q.From && (q.To == "" || member < q.To) {
				want[member] += n
				if tails[member[2:]] += n; odd(member) {
					heads[member[:2]] += n
				}
			}
		}
		found, paged := newSeen(), map[string]int64{}
		require.NoError(t, index.VisitSums(db, shards, q, found, always))
		require.Equal(t, tails, found.tails)
		require.Equal(t, heads, found.heads)
		for rows := []index.SumRow{{}}; len(rows) > 0; {
			var err error
			rows, err = index.Sums(db, shards, q)
			require.NoError(t, err)
			require.True(t, slices.IsSortedFunc(rows, func(x, y index.SumRow) int { return cmp.Compare(x.Member, y.Member) }))
			for _, row := range rows {
				paged[row.Member] += row.Value(0)
				q.From = row.Member + "\x00"
			}
		}
		require.Equal(t, want, paged)
	})
}

// BenchmarkUsage adds up a million rows of 90 days, as one node that has all shards, and a third of them, as one of three does: of days
// that are packed, and of rows. A user's rows of a day are spread over the shards, as sessions are.
func BenchmarkUsage(b *testing.B) {
	db, err := pebble.Open(b.TempDir(), &pebble.Options{Logger: quiet{}, CacheSize: 64 << 20})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, db.Close()) })
	const rows, hours, shards = 1_000_000, 90 * 24, 16
	batch := db.NewBatch()
	commit := func(least int) {
		if batch.Len() > least {
			require.NoError(b, batch.Commit(pebble.NoSync))
			batch = db.NewBatch()
		}
	}
	days := map[[2]int][]keys.NumberedMember{}
	deal := rand.New(rand.NewPCG(1, 2))
	for i := range rows {
		user, hour, group := i%(rows/hours), i/(rows/hours), 1+deal.IntN(shards)
		member := machine.UsageMember(int64(hour)*3_600_000, machine.UsageKey{
			Model: fmt.Sprint("model-", user%5), User: fmt.Sprintf("usr_%016d", user), Token: fmt.Sprintf("tok_%016d", user), Service: "agents", Agent: "helper",
		})
		numbers := []int64{3, 0, 3000, 300, 0, 15_000_000}
		require.NoError(b, batch.Set(keys.AppendSum(nil, uint32(group), "usage/t/p", member), keys.AppendSumValue(nil, numbers), nil))
		days[[2]int{group, hour / 24}] = append(days[[2]int{group, hour / 24}], keys.NumberedMember{Member: member, Values: numbers})
		commit(1 << 20)
	}
	for of, members := range days {
		slices.SortFunc(members, func(x, y keys.NumberedMember) int { return cmp.Compare(x.Member, y.Member) })
		from, to := machine.UsageDayOf(members[0].Member)
		value := keys.AppendPackValue(nil, from, machine.UsageHead, members)
		require.NoError(b, batch.Set(keys.AppendPack(nil, uint32(of[0]), "usage/t/packed", to), value, nil))
		commit(1 << 20)
	}
	commit(0)
	require.NoError(b, db.Flush())
	for kind, name := range map[string]string{"rows": "usage/t/p", "packs": "usage/t/packed"} {
		for part, count := range map[string]uint32{"all_shards": shards, "a_third": shards / 3} {
			for by, how := range map[string]machine.UsageInterval{"user_day": machine.UsageDaily, "model_hour": machine.UsageHourly} {
				b.Run(kind+"/"+part+"/"+by, func(b *testing.B) {
					var groups []uint32
					for i := range count {
						groups = append(groups, i+1)
					}
					group := map[machine.UsageInterval]machine.UsagePart{machine.UsageDaily: machine.UsageByUser, machine.UsageHourly: machine.UsageByModel}[how]
					for b.Loop() {
						tally := machine.NewUsageTally(group, how, 0, "")
						require.NoError(b, index.VisitSums(db, groups, index.SumQuery{Name: name, Head: machine.UsageHead}, tally, always))
					}
				})
			}
		}
	}
}
