package persistence_test

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"parley/persistence"
	"parley/proto/logpb"
)

// Sums that have become old go, of the names that are meant, from every shard; what is added later is kept until it is old.
func TestSweepOfSums(t *testing.T) {
	var now atomic.Int64
	now.Store(5)
	o := small(vfs.NewMem())
	o.Now, o.SweepInterval = func() time.Time { return time.UnixMilli(now.Load()) }, time.Millisecond
	o.OldSums = func(at time.Time) (prefix, before string) { return "usage/", strconv.FormatInt(at.UnixMilli(), 10) }
	s := start(t, o)
	defer s.Stop()
	add := func(group uint32, name, member string) {
		t.Helper()
		require.NoError(t, s.AddSums(ctx, group, []*logpb.Sum{{Name: name, Member: member, Deltas: []int64{1}}}))
	}
	left := func(name, want string) {
		t.Helper()
		require.NoError(t, eventuallyNil(func() error {
			rows, err := s.Sums(ctx, []uint32{1, 2}, persistence.SumQuery{Name: name, Limit: 10})
			got := fmt.Sprint(rows)
			if err == nil && got != want {
				err = errors.New(got)
			}
			return err
		}))
	}
	add(1, "usage/a", "6/x")
	add(2, "usage/a", "6/x")
	add(2, "usage/a", "8/x")
	add(2, "usage/b", "6/y")
	add(1, "other", "1")
	now.Store(7)
	left("usage/a", "[{8/x [1]}]")
	left("usage/b", "[]")
	add(1, "usage/b", "7/z")
	add(1, "usage/a", "7/z")
	left("usage/a", "[{7/z [1]} {8/x [1]}]")
	now.Store(9)
	left("usage/a", "[]")
	left("usage/b", "[]")
	left("other", "[{1 [1]}]")
}

// shown is how sums are shown, packs in sum: so packs can be told from rows.
type shown []string

func (s *shown) Add(head, tail []byte, values []int64) {
	*s = append(*s, fmt.Sprintf("%s%s%v", head, tail, values))
}

func (s *shown) AddTail(from, tail []byte, values []int64) (heads bool) {
	s.Add(from, tail, values)
	return false
}

func (*shown) AddHead([]byte, []int64) {}

// Spans that are over are packed by the leaders' sweep, in parts where they are too large; what comes later is packed with them the next
// time, and old packs go.
func TestSweepPacksSums(t *testing.T) {
	var now atomic.Int64
	now.Store(15)
	o := small(vfs.NewMem())
	o.Now, o.SweepInterval = func() time.Time { return time.UnixMilli(now.Load()) }, time.Millisecond
	o.PackSums = func(at time.Time) persistence.Packing {
		return persistence.Packing{
			Prefix: "usage/", Before: strconv.FormatInt(at.UnixMilli(), 10), Head: 2,
			Span:  func(member string) (from, to string) { return member[:1] + "0", string(member[0]+1) + "0" },
			Parts: func(from string) []string { return []string{from[:1] + "5"} },
		}
	}
	o.OldSums = func(at time.Time) (prefix, before string) {
		return "usage/", strconv.FormatInt(max(10, at.UnixMilli()/10*10-20), 10)
	}
	s := start(t, o)
	defer s.Stop()
	add := func(group uint32, members ...string) {
		t.Helper()
		var sums []*logpb.Sum
		for _, member := range members {
			sums = append(sums, &logpb.Sum{Name: "usage/a", Member: member, Deltas: []int64{1}})
		}
		require.NoError(t, s.AddSums(ctx, group, sums))
	}
	are := func(want ...string) {
		t.Helper()
		require.NoError(t, eventuallyNil(func() error {
			var rows shown
			err := s.VisitSums(ctx, []uint32{1, 2}, persistence.SumQuery{Name: "usage/a", Head: 2}, &rows)
			if got := fmt.Sprint(rows); err == nil && got != fmt.Sprint(want) {
				err = errors.New(got)
			}
			return err
		}))
	}
	add(1, "11/x", "12/x", "12/y", "21/x")
	add(2, "11/x")
	are("11/x[1]", "12/x[1]", "12/y[1]", "21/x[1]", "11/x[1]")
	now.Store(20)
	are("10/x[2]", "10/y[1]", "21/x[1]", "10/x[1]")
	add(1, "12/x", "19/y")
	are("10/x[2]", "10/y[1]", "12/x[1]", "19/y[1]", "21/x[1]", "10/x[1]")
	now.Store(25) // as if a day later
	are("10/x[3]", "10/y[2]", "21/x[1]", "10/x[1]")
	now.Store(30)
	are("10/x[3]", "10/y[2]", "20/x[1]", "10/x[1]")
	now.Store(40)
	are("20/x[1]")
	for at, times := range map[int]int{1: 1, 6: 3} { // the second part is too large for a pack, too
		for i := range times {
			var sums []*logpb.Sum
			for k := range persistence.MaxSums {
				sums = append(sums, &logpb.Sum{Name: "usage/b", Member: fmt.Sprintf("4%d/%d", at, i*persistence.MaxSums+k), Deltas: []int64{1}})
			}
			require.NoError(t, s.AddSums(ctx, 1, sums))
		}
	}
	now.Store(50)
	require.NoError(t, eventuallyNil(func() error {
		var rows shown
		err := s.VisitSums(ctx, []uint32{1, 2}, persistence.SumQuery{Name: "usage/b", Head: 2}, &rows)
		heads := map[string]int{}
		for _, row := range rows {
			heads[row[:2]]++
		}
		if want := map[string]int{"40": persistence.MaxSums, "46": 3 * persistence.MaxSums}; err == nil && !maps.Equal(want, heads) {
			err = fmt.Errorf("%v", heads)
		}
		return err
	}))
}
