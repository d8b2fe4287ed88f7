// Package persistencetest holds what tests of storage share: a simple model of a store, and the conformance suite that
// every kind of store must pass.
//
// It uses stores only through their exported methods, so it also documents what those promise.
package persistencetest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/stretchr/testify/require"

	"parley/persistence"
	"parley/proto/logpb"
)

// Model is a store in memory that a real one is compared with.
type Model struct {
	shards   uint32
	entities map[uint32]map[string]*entity
	listings map[uint32]map[listing][]byte
	counts   map[string]int64
	sums     map[uint32]map[sum][]int64
	ids      map[uint32]map[string]bool // ever seen, to check that what is deleted is gone
	blobs    map[uint32]map[string]*file
}

type entity struct {
	seq, epoch uint64
	head       []byte
	events     map[uint64][]byte
	items      map[item][]byte
}

type item struct {
	table uint8
	key   string
}

type listing struct {
	list   string
	score  int64
	member string
}

// NewModel returns an empty store of so many conversation shards.
func NewModel(shards int) *Model {
	m := &Model{
		shards: uint32(shards), entities: map[uint32]map[string]*entity{}, listings: map[uint32]map[listing][]byte{},
		counts: map[string]int64{}, sums: map[uint32]map[sum][]int64{}, ids: map[uint32]map[string]bool{}, blobs: map[uint32]map[string]*file{},
	}
	for g := range m.shards {
		m.entities[g+1] = map[string]*entity{}
		m.listings[g+1] = map[listing][]byte{}
		m.ids[g+1] = map[string]bool{}
		m.sums[g+1] = map[sum][]int64{}
		m.blobs[g+1] = map[string]*file{}
	}
	return m
}

// Append does what Store.Append must do.
func (m *Model) Append(group uint32, a *logpb.Append) *logpb.Result {
	m.ids[group][a.GetId()] = true
	e := m.entities[group][a.GetId()]
	outcome := m.compare(e, a)
	for _, c := range a.GetBlobs() {
		if outcome == logpb.Outcome_APPLIED {
			outcome = m.blobs[group][c.GetId()].fits(c, a.GetId())
		}
	}
	if outcome != logpb.Outcome_APPLIED {
		r := &logpb.Result{Outcome: outcome}
		if e != nil {
			r.Seq, r.Epoch = e.seq, e.epoch
		}
		return r
	}
	next := a.GetExpectedSeq() + 1
	if e == nil {
		e = &entity{events: map[uint64][]byte{}, items: map[item][]byte{}}
		next = 0
	}
	for _, event := range a.GetEvents() {
		e.events[next] = event
		e.seq = next
		next++
	}
	if unkept := uint64(a.GetUnkept()); unkept > 0 { // counted, and nothing more
		e.seq = next + unkept - 1
	}
	e.epoch, e.head = a.GetEpoch(), a.GetHead()
	for _, i := range a.GetItems() {
		put(e.items, item{uint8(i.GetTable()), string(i.GetKey())}, i.GetValue(), i.GetDelete())
	}
	m.entities[group][a.GetId()] = e
	for _, c := range a.GetBlobs() {
		m.change(group, c, a.GetId())
	}
	if a.GetDeleteEntity() {
		delete(m.entities[group], a.GetId())
		maps.DeleteFunc(m.blobs[group], func(_ string, f *file) bool { return f.owner == a.GetId() })
	}
	for _, l := range a.GetListings() {
		put(m.listings[group], listing{l.GetList(), l.GetScore(), l.GetMember()}, l.GetValue(), l.GetDelete())
	}
	for _, c := range a.GetCounts() {
		m.counts[c.GetName()] += c.GetDelta()
	}
	m.AddSums(group, a.GetSums())
	return &logpb.Result{Outcome: logpb.Outcome_APPLIED, Seq: e.seq, Epoch: e.epoch}
}

func (m *Model) compare(e *entity, a *logpb.Append) logpb.Outcome {
	switch {
	case e != nil && a.GetEpoch() < e.epoch:
		return logpb.Outcome_FENCED
	case e != nil && a.GetCreate():
		return logpb.Outcome_EXISTS
	case !a.GetCreate() && (e == nil || e.seq != a.GetExpectedSeq()):
		return logpb.Outcome_SEQ_MISMATCH
	default:
		return logpb.Outcome_APPLIED
	}
}

func put[K comparable](rows map[K][]byte, key K, value []byte, remove bool) {
	if remove {
		delete(rows, key)
	} else {
		rows[key] = value
	}
}

// Seq is an entity's newest seq, for writers that want to be accepted.
func (m *Model) Seq(group uint32, id string) (seq uint64, exists bool) {
	e, ok := m.entities[group][id]
	if !ok {
		return 0, false
	}
	return e.seq, true
}

// Check reads everything from a store and compares.
func (m *Model) Check(ctx context.Context, t require.TestingT, s *persistence.Store) {
	for g := range m.shards {
		group := g + 1
		for id := range m.ids[group] {
			m.checkEntity(ctx, t, s, group, id)
		}
		m.checkBlobs(ctx, t, s, group)
	}
	m.checkLists(ctx, t, s)
	m.checkSums(ctx, t, s)
	for name, want := range m.counts {
		got, err := s.Count(ctx, name)
		require.NoError(t, err)
		require.Equal(t, want, got, "count %s", name)
	}
	var sum int64
	for _, n := range m.counts {
		sum += n
	}
	got, err := s.Count(ctx, append(slices.Collect(maps.Keys(m.counts)), "never counted")...)
	require.NoError(t, err)
	require.Equal(t, sum, got)
}

func (m *Model) checkEntity(ctx context.Context, t require.TestingT, s *persistence.Store, group uint32, id string) {
	want := m.entities[group][id]
	head, found, err := s.Head(ctx, group, id)
	require.NoError(t, err)
	require.Equal(t, want != nil, found, "entity %s of %d", id, group)
	if want == nil {
		want = &entity{}
	} else {
		require.Equal(t, want.seq, head.Seq)
		require.Equal(t, want.epoch, head.Epoch)
		require.Equal(t, string(want.head), string(head.Value))
	}
	require.Equal(t, m.events(want), readEvents(ctx, t, s, group, id))
	for table := uint8(1); table <= 3; table++ {
		var items []string
		for k, v := range want.items {
			if k.table == table {
				items = append(items, k.key+"="+string(v))
			}
		}
		slices.Sort(items)
		for _, descending := range []bool{false, true} {
			var got []string
			q := persistence.ItemQuery{Table: table, Descending: descending}
			err := s.Items(ctx, group, id, q, func(key, value []byte) bool {
				got = append(got, string(key)+"="+string(value))
				return true
			})
			require.NoError(t, err)
			require.Equal(t, items, got)
			slices.Reverse(items)
		}
	}
}

func (m *Model) events(e *entity) []string {
	var out []string
	for _, seq := range slices.Sorted(maps.Keys(e.events)) {
		out = append(out, fmt.Sprintf("%d=%s", seq, e.events[seq]))
	}
	return out
}

func readEvents(ctx context.Context, t require.TestingT, s *persistence.Store, group uint32, id string) []string {
	var got []string
	err := s.Events(ctx, group, id, persistence.FromStart, func(seq uint64, value []byte) bool {
		got = append(got, fmt.Sprintf("%d=%s", seq, value))
		return true
	})
	require.NoError(t, err)
	return got
}

// rows is a list as List must return it, ascending.
func (m *Model) rows(list string) []persistence.ListRow {
	var rows []persistence.ListRow
	for group, listings := range m.listings {
		for l, value := range listings {
			if l.list == list {
				rows = append(rows, persistence.ListRow{Score: l.score, Member: l.member, Value: append([]byte{}, value...), Group: group})
			}
		}
	}
	slices.SortFunc(rows, func(a, b persistence.ListRow) int {
		return cmp.Or(cmp.Compare(a.Score, b.Score), cmp.Compare(a.Member, b.Member), cmp.Compare(a.Group, b.Group))
	})
	return rows
}

func (m *Model) checkLists(ctx context.Context, t require.TestingT, s *persistence.Store) {
	lists := map[string]bool{"never written": true}
	for _, listings := range m.listings {
		for l := range listings {
			lists[l.list] = true
		}
	}
	for list := range lists {
		want := m.rows(list)
		for _, descending := range []bool{false, true} {
			if descending {
				slices.Reverse(want)
			}
			q := persistence.ListQuery{List: list, Descending: descending, Limit: len(want) + 1}
			got, err := s.List(ctx, q)
			require.NoError(t, err)
			require.Len(t, got, len(want))
			for i := range want {
				require.Equal(t, want[i], got[i])
			}
			q.Offset, q.Limit = len(want)/2, 2
			got, err = s.List(ctx, q)
			require.NoError(t, err)
			require.Len(t, got, min(len(want)-q.Offset, 2))
			for i := range got {
				require.Equal(t, want[q.Offset+i], got[i])
			}
		}
	}
}
