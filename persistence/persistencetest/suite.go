package persistencetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/persistence"
	"parley/persistence/directory"
	"parley/proto/logpb"
)

// Opener opens a new, empty, started and ready store that is stopped when the test ends.
type Opener func(t *testing.T) *persistence.Store

// Suite is what every store must do.
func Suite(t *testing.T, open Opener) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, *persistence.Store){
		"appends are compared":            appendsAreCompared,
		"events are read in order":        eventsAreRead,
		"items are read by key":           itemsAreRead,
		"a view is one moment":            viewIsOneMoment,
		"heads are read together":         headsAreRead,
		"lists are merged and paged":      listsAreMerged,
		"a list of a shard is its own":    listOfShard,
		"one of many racing writers wins": racingWriters,
		"limits are kept":                 limitsAreKept,
		"directory records":               directoryRecords,
		"bytes of files":                  bytesOfFiles,
		"sums are added up":               sumsAreAdded,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

func must(t *testing.T, s *persistence.Store, group uint32, a *logpb.Append) *logpb.Result {
	t.Helper()
	r, err := s.Append(t.Context(), group, a)
	require.NoError(t, err)
	require.Equal(t, logpb.Outcome_APPLIED, r.GetOutcome())
	return r
}

func appendsAreCompared(t *testing.T, s *persistence.Store) {
	t.Helper()
	must(t, s, 1, &logpb.Append{Id: "c", Create: true, Epoch: 2, Head: []byte("h0"), Events: [][]byte{[]byte("e0")}})
	for _, tc := range []struct {
		a    *logpb.Append
		want logpb.Outcome
	}{
		{&logpb.Append{Id: "c", Create: true, Epoch: 2}, logpb.Outcome_EXISTS},
		{&logpb.Append{Id: "c", ExpectedSeq: 1, Epoch: 2}, logpb.Outcome_SEQ_MISMATCH},
		{&logpb.Append{Id: "c", ExpectedSeq: 0, Epoch: 1}, logpb.Outcome_FENCED},
		{&logpb.Append{Id: "x", ExpectedSeq: 0, Epoch: 2}, logpb.Outcome_SEQ_MISMATCH},
	} {
		r, err := s.Append(t.Context(), 1, tc.a)
		require.NoError(t, err)
		require.Equal(t, tc.want, r.GetOutcome())
	}
	// The same id in another shard is another entity.
	must(t, s, 2, &logpb.Append{Id: "c", Create: true})

	r := must(t, s, 1, &logpb.Append{Id: "c", Epoch: 5, Head: []byte("h1"), Events: [][]byte{[]byte("e1"), []byte("e2")}})
	require.EqualValues(t, 2, r.GetSeq())
	head, found, err := s.Head(t.Context(), 1, "c")
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, persistence.Head{Seq: 2, Epoch: 5, Value: []byte("h1")}, head)

	must(t, s, 1, &logpb.Append{Id: "c", ExpectedSeq: 2, Epoch: 5, DeleteEntity: true})
	_, found, err = s.Head(t.Context(), 1, "c")
	require.NoError(t, err)
	require.False(t, found)
}

func eventsAreRead(t *testing.T, s *persistence.Store) {
	t.Helper()
	a := &logpb.Append{Id: "c", Create: true}
	for i := range 300 {
		a.Events = append(a.Events, fmt.Appendf(nil, "e%d", i))
	}
	must(t, s, 1, a)
	must(t, s, 1, &logpb.Append{Id: "cc", Create: true, Events: [][]byte{[]byte("other")}})
	for _, tc := range []struct {
		after       uint64
		limit, stop int
		first, n    int
	}{
		{after: persistence.FromStart, first: 0, n: 300},
		{after: persistence.FromStart, limit: 7, first: 0, n: 7},
		{after: 0, first: 1, n: 299},
		{after: 255, limit: 2, first: 256, n: 2},
		{after: 10, stop: 3, first: 11, n: 3},
		{after: 299, n: 0},
		{after: 1 << 40, n: 0},
		{after: persistence.FromStart - 1, n: 0},
	} {
		var got []uint64
		v, err := s.View(t.Context(), 1)
		require.NoError(t, err)
		err = v.Events("c", tc.after, tc.limit, func(seq uint64, value []byte) bool {
			require.Equal(t, fmt.Sprintf("e%d", seq), string(value))
			got = append(got, seq)
			return len(got) != tc.stop
		})
		require.NoError(t, err)
		require.NoError(t, v.Close())
		require.Len(t, got, tc.n, "after %d", tc.after)
		if tc.n > 0 {
			require.EqualValues(t, tc.first, got[0])
			require.EqualValues(t, tc.first+tc.n-1, got[tc.n-1])
		}
	}
}

func itemsAreRead(t *testing.T, s *persistence.Store) {
	t.Helper()
	a := &logpb.Append{Id: "c", Create: true, Head: []byte("h")}
	for _, key := range []string{"\x00", "a", "ab", "b", "c", "\xff\xff"} {
		a.Items = append(a.Items, &logpb.Item{Table: 2, Key: []byte(key), Value: []byte("v" + key)})
	}
	a.Items = append(a.Items, &logpb.Item{Table: 1, Key: []byte("z")}, &logpb.Item{Table: 3, Key: []byte("\x00")})
	must(t, s, 1, a)
	for _, tc := range []struct {
		q    persistence.ItemQuery
		want string
	}{
		{persistence.ItemQuery{Table: 2}, "\x00,a,ab,b,c,\xff\xff"},
		{persistence.ItemQuery{Table: 2, Descending: true}, "\xff\xff,c,b,ab,a,\x00"},
		{persistence.ItemQuery{Table: 2, Limit: 2}, "\x00,a"},
		{persistence.ItemQuery{Table: 2, Descending: true, Limit: 2}, "\xff\xff,c"},
		{persistence.ItemQuery{Table: 2, From: []byte("a"), To: []byte("b")}, "a,ab"},
		{persistence.ItemQuery{Table: 2, From: []byte("a"), To: []byte("b"), Descending: true}, "ab,a"},
		{persistence.ItemQuery{Table: 2, From: []byte("aa")}, "ab,b,c,\xff\xff"},
		{persistence.ItemQuery{Table: 2, To: []byte("b"), Descending: true, Limit: 1}, "ab"},
		{persistence.ItemQuery{Table: 2, From: []byte("c"), To: []byte("b")}, ""},
		{persistence.ItemQuery{Table: 9}, ""},
	} {
		var got []string
		err := s.Items(t.Context(), 1, "c", tc.q, func(key, value []byte) bool {
			require.Equal(t, "v"+string(key), string(value))
			got = append(got, string(key))
			return true
		})
		require.NoError(t, err)
		require.Equal(t, tc.want, strings.Join(got, ","))
	}
	value, found, err := s.Item(t.Context(), 1, "c", 2, []byte("ab"))
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, "vab", string(value))
	_, found, err = s.Item(t.Context(), 1, "c", 2, []byte("aa"))
	require.NoError(t, err)
	require.False(t, found)
}

func headsAreRead(t *testing.T, s *persistence.Store) {
	t.Helper()
	var of []persistence.Entity
	for i := range 6 {
		e := persistence.Entity{Group: uint32(i)%2 + 1, ID: fmt.Sprint("c", i)}
		if of = append(of, e); i != 3 {
			must(t, s, e.Group, &logpb.Append{Id: e.ID, Create: true, Head: []byte(e.ID)})
		}
	}
	read := func(stop int) (got []string) {
		require.NoError(t, s.Heads(t.Context(), of, func(i int, head persistence.Head, found bool) bool {
			require.Equal(t, i != 3, found)
			got = append(got, string(head.Value))
			return i != stop
		}))
		return got
	}
	require.Equal(t, []string{"c0", "c1", "c2", "", "c4", "c5"}, read(-1))
	require.Equal(t, []string{"c0", "c1", "c2", ""}, read(3))
	require.NoError(t, s.Heads(t.Context(), nil, nil))
	require.ErrorIs(t, s.Heads(t.Context(), []persistence.Entity{{Group: 999, ID: "c"}}, nil), persistence.ErrUnknownGroup)
}

func viewIsOneMoment(t *testing.T, s *persistence.Store) {
	t.Helper()
	must(t, s, 1, &logpb.Append{Id: "c", Create: true, Head: []byte("h0"), Events: [][]byte{[]byte("e0")}, Items: []*logpb.Item{{Table: 1, Key: []byte("k"), Value: []byte("v0")}}})
	v, err := s.View(t.Context(), 1)
	require.NoError(t, err)
	must(t, s, 1, &logpb.Append{Id: "c", Head: []byte("h1"), Events: [][]byte{[]byte("e1")}, Items: []*logpb.Item{{Table: 1, Key: []byte("k"), Value: []byte("v1")}}})
	for range 2 {
		head, found, err := v.Head("c")
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, "h0", string(head.Value))
		value, found, err := v.Item("c", 1, []byte("k"))
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, "v0", string(value))
		n := 0
		require.NoError(t, v.Events("c", persistence.FromStart, 0, func(uint64, []byte) bool { n++; return true }))
		require.Equal(t, 1, n)
		_, found, err = v.Head("nobody")
		require.NoError(t, err)
		require.False(t, found)
	}
	require.NoError(t, v.Close())
	require.NoError(t, v.Close())
}

func listsAreMerged(t *testing.T, s *persistence.Store) {
	t.Helper()
	const n = 500
	shards := uint32(s.Identity().Shards)
	for i := range n {
		// Scores go up and down through zero, with ties; every third shard holds most of them.
		group := uint32(i) % shards
		if i%2 == 0 {
			group = 0
		}
		member := fmt.Sprintf("m%03d", i)
		must(t, s, group+1, &logpb.Append{Id: member, Create: true, Listings: []*logpb.Listing{
			{List: "l", Score: int64(i/3) - 80, Member: member, Value: []byte("v" + member)},
			{List: "l2", Score: 1, Member: member},
		}, Counts: []*logpb.Count{{Name: "n", Delta: 1}}})
	}
	total, err := s.Count(t.Context(), "n")
	require.NoError(t, err)
	require.EqualValues(t, n, total)
	for _, descending := range []bool{false, true} {
		for _, limit := range []int{1, 20, 499, 1000} {
			var got []string
			q := persistence.ListQuery{List: "l", Descending: descending, Limit: limit}
			for {
				var rows []persistence.ListRow
				rows, err = s.List(t.Context(), q)
				require.NoError(t, err)
				for _, r := range rows {
					require.Equal(t, "v"+r.Member, string(r.Value))
					got = append(got, r.Member)
				}
				if len(rows) < limit {
					break
				}
				last := rows[len(rows)-1]
				q.After = &persistence.ListCursor{Score: last.Score, Member: last.Member}
			}
			require.Len(t, got, n)
			for i := range got {
				at := i
				if descending {
					at = n - 1 - i
				}
				require.Equal(t, fmt.Sprintf("m%03d", at), got[i])
			}
		}
	}
	rows, err := s.List(t.Context(), persistence.ListQuery{List: "l", Offset: 321, Limit: 2})
	require.NoError(t, err)
	require.Equal(t, []string{"m321", "m322"}, []string{rows[0].Member, rows[1].Member})
	rows, err = s.List(t.Context(), persistence.ListQuery{List: "l", Offset: n, Limit: 2})
	require.NoError(t, err)
	require.Empty(t, rows)
}

func listOfShard(t *testing.T, s *persistence.Store) {
	t.Helper()
	for group := uint32(1); group <= 2; group++ {
		must(t, s, group, &logpb.Append{Id: "c", Create: true, Listings: []*logpb.Listing{{List: "running", Member: fmt.Sprint(group)}}})
	}
	rows, err := s.ListShard(t.Context(), 2, persistence.ListQuery{List: "running", Limit: 10})
	require.NoError(t, err)
	require.Equal(t, []persistence.ListRow{{Member: "2", Group: 2, Value: []byte{}}}, rows)
}

// Every writer adds one event at a time with the seq it has read; what is accepted must be a history without gaps.
func racingWriters(t *testing.T, s *persistence.Store) {
	t.Helper()
	must(t, s, 1, &logpb.Append{Id: "c", Create: true, Events: [][]byte{[]byte("start")}})
	const writers, each = 8, 20
	done := make(chan error, writers)
	for w := range writers {
		go func() {
			done <- func() error {
				for i := 0; i < each; {
					head, _, err := s.Head(t.Context(), 1, "c")
					if err != nil {
						return err
					}
					r, err := s.Append(t.Context(), 1, &logpb.Append{Id: "c", ExpectedSeq: head.Seq, Events: [][]byte{fmt.Appendf(nil, "%d/%d", w, i)}})
					if err != nil {
						return err
					}
					if r.GetOutcome() == logpb.Outcome_APPLIED {
						i++
					}
				}
				return nil
			}()
		}()
	}
	for range writers {
		require.NoError(t, <-done)
	}
	next := map[string]int{}
	events := readEvents(t.Context(), t, s, 1, "c")
	require.Len(t, events, writers*each+1)
	for i, event := range events[1:] {
		seq, body, _ := strings.Cut(event, "=")
		require.Equal(t, fmt.Sprint(i+1), seq)
		writer, n, _ := strings.Cut(body, "/")
		require.Equal(t, fmt.Sprint(next[writer]), n)
		next[writer]++
	}
}

func limitsAreKept(t *testing.T, s *persistence.Store) {
	t.Helper()
	long := strings.Repeat("x", 2000)
	for name, a := range map[string]*logpb.Append{
		"no id":       {Create: true},
		"long id":     {Id: long, Create: true},
		"bad utf-8":   {Id: "\xff", Create: true},
		"table 0":     {Id: "c", Create: true, Items: []*logpb.Item{{Key: []byte("k")}}},
		"table 201":   {Id: "c", Create: true, Items: []*logpb.Item{{Table: 201, Key: []byte("k")}}},
		"long key":    {Id: "c", Create: true, Items: []*logpb.Item{{Table: 1, Key: []byte(long)}}},
		"no list":     {Id: "c", Create: true, Listings: []*logpb.Listing{{Member: "m"}}},
		"long member": {Id: "c", Create: true, Listings: []*logpb.Listing{{List: "l", Member: long}}},
		"no counter":  {Id: "c", Create: true, Counts: []*logpb.Count{{Delta: 1}}},
	} {
		_, err := s.Append(t.Context(), 1, a)
		require.ErrorIs(t, err, persistence.ErrInvalid, name)
	}
	_, err := s.Append(t.Context(), 999, &logpb.Append{Id: "c", Create: true})
	require.ErrorIs(t, err, persistence.ErrUnknownGroup)
	_, _, err = s.Head(t.Context(), 999, "c")
	require.ErrorIs(t, err, persistence.ErrUnknownGroup)
	_, found, err := s.Head(t.Context(), 1, "c")
	require.NoError(t, err)
	require.False(t, found)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.Append(ctx, 1, &logpb.Append{Id: "c", Create: true})
	if err != nil { // it may have been answered before the context was looked at
		require.True(t, errors.Is(err, context.Canceled) || errors.Is(err, persistence.ErrOutcomeUnknown), err)
	}
}

func directoryRecords(t *testing.T, s *persistence.Store) {
	t.Helper()
	d := s.Directory()
	changed, stop := d.Watch("agents")
	defer stop()
	v1, err := d.Put(t.Context(), "agents", "a", 0, []byte("one"))
	require.NoError(t, err)
	<-changed
	r, ok := d.Get("agents", "a")
	require.True(t, ok)
	require.Equal(t, directory.Record{Key: "a", Version: v1, Value: []byte("one")}, r)

	_, err = d.Put(t.Context(), "agents", "a", 0, []byte("again"))
	var conflict *directory.ConflictError
	require.ErrorAs(t, err, &conflict)
	require.Equal(t, v1, conflict.Stored)
	require.ErrorIs(t, err, directory.ErrConflict)

	v2, err := d.Put(t.Context(), "agents", "a", v1, []byte("two"))
	require.NoError(t, err)
	require.Greater(t, v2, v1)
	_, err = d.Put(t.Context(), "agents", "0", 0, []byte("zero"))
	require.NoError(t, err)
	list := d.List("agents")
	require.Len(t, list, 2)
	require.Equal(t, []string{"0", "a"}, []string{list[0].Key, list[1].Key})

	require.ErrorIs(t, d.Delete(t.Context(), "agents", "a", v1), directory.ErrConflict)
	require.NoError(t, d.Delete(t.Context(), "agents", "a", v2))
	_, ok = d.Get("agents", "a")
	require.False(t, ok)
	v3, err := d.Put(t.Context(), "agents", "a", 0, []byte("new"))
	require.NoError(t, err)
	require.Greater(t, v3, v2)

	_, err = d.Put(t.Context(), "", "a", 0, nil)
	require.ErrorIs(t, err, persistence.ErrInvalid)
	_, err = d.Put(t.Context(), "agents", "a", v3, make([]byte, 2<<20))
	require.ErrorIs(t, err, persistence.ErrInvalid)
}
