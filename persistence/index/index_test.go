package index_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"parley/persistence/index"
	"parley/persistence/keys"
)

type quiet struct{}

func (quiet) Infof(string, ...any)           {}
func (quiet) Errorf(string, ...any)          {}
func (quiet) Fatalf(format string, a ...any) { panic(fmt.Sprintf(format, a...)) }

func open(t *testing.T) *pebble.DB {
	t.Helper()
	db, err := pebble.Open("", &pebble.Options{FS: vfs.NewMem(), Logger: quiet{}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func compare(a, b index.Row) int {
	return cmp.Or(cmp.Compare(a.Score, b.Score), strings.Compare(a.Member, b.Member), cmp.Compare(a.Group, b.Group))
}

// Pages by offset and by cursor are cuts of the sorted rows, however they lie in the shards: also when one shard has
// far more than its share, which takes several looks.
func TestListIsASortedMerge(t *testing.T) {
	db := open(t)
	list := 0
	rapid.Check(t, func(t *rapid.T) {
		list++
		name := fmt.Sprint("list", list)
		shards := rapid.SliceOfNDistinct(rapid.Uint32Range(3, 12), 1, 7, rapid.ID[uint32]).Draw(t, "shards")
		var want []index.Row
		for i := range rapid.SampledFrom([]int{0, 1, 5, 40, 700}).Draw(t, "rows") {
			row := index.Row{
				Score:  rapid.Int64Range(-20, 20).Draw(t, "score"),
				Member: fmt.Sprint("m", i),
				Value:  fmt.Appendf(nil, "v%d", i),
				Group:  rapid.SampledFrom(shards).Draw(t, "group"),
			}
			if i > 50 {
				row.Group = shards[0]
			}
			want = append(want, row)
			require.NoError(t, db.Set(keys.AppendListing(nil, row.Group, name, row.Score, row.Member), row.Value, pebble.NoSync))
		}
		// Rows beside the list, in other lists and shards, that must not be seen.
		require.NoError(t, db.Set(keys.AppendListing(nil, shards[0], name+"x", 0, "no"), nil, pebble.NoSync))
		for other := range uint32(15) {
			if !slices.Contains(shards, other) {
				require.NoError(t, db.Set(keys.AppendListing(nil, other, name, 0, "no"), nil, pebble.NoSync))
			}
		}

		q := index.Query{List: name, Descending: rapid.Bool().Draw(t, "descending")}
		slices.SortFunc(want, compare)
		if q.Descending {
			slices.Reverse(want)
		}
		q.Offset = rapid.IntRange(0, len(want)+2).Draw(t, "offset")
		want = want[min(q.Offset, len(want)):]
		q.Limit = rapid.IntRange(1, 100).Draw(t, "limit")
		for {
			got, err := index.List(db, shards, q)
			require.NoError(t, err)
			n := min(q.Limit, len(want))
			require.Len(t, got, n)
			for i := range got {
				require.Equal(t, want[i], got[i])
			}
			want = want[n:]
			if n == 0 {
				return
			}
			q.Offset, q.After = 0, &index.Cursor{Score: got[n-1].Score, Member: got[n-1].Member}
		}
	})
}

func TestListLimits(t *testing.T) {
	db := open(t)
	rows, err := index.List(db, []uint32{1, 2}, index.Query{List: "l"})
	require.NoError(t, err)
	require.Empty(t, rows)
	rows, err = index.List(db, nil, index.Query{List: "l", Limit: 1})
	require.NoError(t, err)
	require.Empty(t, rows)
}

func TestDamagedRowsAreErrors(t *testing.T) {
	db := open(t)
	shards := []uint32{1}
	require.NoError(t, db.Set(append(keys.AppendList(nil, 1, "l"), 1, 2, 3), nil, pebble.NoSync))
	_, err := index.List(db, shards, index.Query{List: "l", Limit: 1})
	require.ErrorContains(t, err, "listing tail of 3 bytes")
	require.NoError(t, db.Set(keys.AppendCounter(nil, 1, "n"), []byte{1}, pebble.NoSync))
	_, err = index.Count(db, shards, "n")
	require.ErrorContains(t, err, "counter of 1 bytes")
}
