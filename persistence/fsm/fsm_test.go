package fsm_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"parley/persistence/fsm"
	"parley/persistence/keys"
	"parley/persistence/replica"
	"parley/proto/logpb"
)

// rig is a machine over an empty database, applying as the driver does.
type rig struct {
	db      *pebble.DB
	machine *fsm.Machine
	records map[string]string
	index   uint64
}

func newRig(tb testing.TB) *rig {
	tb.Helper()
	db, err := pebble.Open("", &pebble.Options{FS: vfs.NewMem(), Logger: quiet{}})
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, db.Close()) })
	r := &rig{db: db, records: map[string]string{}}
	r.machine = fsm.New(db, r)
	return r
}

func (r *rig) Put(collection, key string, version uint64, value []byte) {
	r.records[collection+"/"+key] = fmt.Sprintf("v%d %s", version, value)
}

func (r *rig) Delete(collection, key string, _ uint64) { delete(r.records, collection+"/"+key) }

type quiet struct{}

func (quiet) Infof(string, ...any)           {}
func (quiet) Errorf(string, ...any)          {}
func (quiet) Fatalf(format string, a ...any) { panic(fmt.Sprintf(format, a...)) }

// apply commits the entries as one batch.
func (r *rig) apply(t require.TestingT, group replica.GroupID, entries ...*logpb.Entry) []*logpb.Result {
	committed := make([]replica.Entry, 0, len(entries))
	for _, e := range entries {
		data, err := proto.Marshal(e)
		require.NoError(t, err)
		r.index++
		committed = append(committed, replica.Entry{Index: r.index, Term: 1, Data: data})
	}
	batch := r.db.NewBatch()
	results, err := r.machine.Apply(batch, group, committed)
	require.NoError(t, err)
	require.NoError(t, batch.Commit(pebble.NoSync))
	out := make([]*logpb.Result, 0, len(results))
	for _, result := range results {
		typed, ok := result.(*logpb.Result)
		require.True(t, ok)
		out = append(out, typed)
	}
	return out
}

func (r *rig) wipe(t require.TestingT) {
	start, end := r.machine.Span(0)
	require.NoError(t, r.db.DeleteRange(start, end, pebble.NoSync))
	clear(r.records)
	r.index = 0
}

// rows is every row of a group, readable.
func (r *rig) rows(t require.TestingT, group replica.GroupID) []string {
	start, end := r.machine.Span(group)
	iter, err := r.db.NewIter(&pebble.IterOptions{LowerBound: start, UpperBound: end})
	require.NoError(t, err)
	var rows []string
	for valid := iter.First(); valid; valid = iter.Next() {
		k, err := keys.Decode(iter.Key())
		require.NoError(t, err)
		rows = append(rows, row(t, k, iter.Value()))
	}
	require.NoError(t, iter.Close())
	return rows
}

func row(t require.TestingT, k keys.Key, value []byte) string {
	switch k.Kind {
	case keys.Head:
		seq, epoch, err := keys.HeadFields(value)
		require.NoError(t, err)
		return fmt.Sprintf("head %s seq=%d epoch=%d %q", k.Name, seq, epoch, value[keys.HeadPrefix:])
	case keys.Item:
		return fmt.Sprintf("item %s %d/%s %q", k.Name, k.Table, k.Tail, value)
	case keys.Event:
		return fmt.Sprintf("event %s %d %q", k.Name, k.Seq, value)
	case keys.Listing:
		return fmt.Sprintf("listing %s %d/%s %q", k.Name, k.Score, k.Tail, value)
	case keys.Counter:
		n, err := keys.CountField(value)
		require.NoError(t, err)
		return fmt.Sprintf("count %s %d", k.Name, n)
	case keys.Record:
		version, own, err := keys.RecordFields(value)
		require.NoError(t, err)
		return fmt.Sprintf("record %s/%s v%d %q", k.Name, k.Tail, version, own)
	case keys.Sum:
		numbers, err := keys.SumFields(nil, value)
		require.NoError(t, err)
		return fmt.Sprintf("sum %s %s %v", k.Name, k.Tail, numbers)
	case keys.Pack:
		return packRow(t, k, value)
	case keys.Owned:
		return fmt.Sprintf("owned %s %s", k.Name, k.Tail)
	case keys.BlobHead:
		return blobRow(t, k.Name, value)
	case keys.Chunk:
		return fmt.Sprintf("chunk %s %d %d bytes of %q", k.Name, k.Seq, len(value), value[0])
	default:
		return "?"
	}
}

// The scripts in testdata are the rules: what is applied, what is refused, and which rows are left.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) { //nolint:thelper // it is the test
		r := newRig(t)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string { //nolint:thelper // it is the test
			group := replica.GroupID(1)
			if d.HasArg("group") {
				var n int
				d.ScanArgs(t, "group", &n)
				group = replica.GroupID(n)
			}
			switch d.Cmd {
			case "batch":
				return r.batch(t, group, d.Input)
			case "rows":
				return strings.Join(r.rows(t, group), "\n") + "\n"
			case "records":
				var lines []string
				for k, v := range r.records {
					lines = append(lines, k+" "+v)
				}
				slices.Sort(lines)
				return strings.Join(lines, "\n") + "\n"
			default:
				d.Fatalf(t, "unknown command %s", d.Cmd)
				return ""
			}
		})
	})
}

func (r *rig) batch(t *testing.T, group replica.GroupID, input string) string {
	t.Helper()
	var entries []*logpb.Entry
	for _, line := range strings.Split(strings.TrimSpace(input), "\n") {
		entries = append(entries, parseEntry(t, strings.Fields(line)))
	}
	var out strings.Builder
	for _, result := range r.apply(t, group, entries...) {
		fmt.Fprintf(&out, "%s seq=%d epoch=%d\n", result.GetOutcome(), result.GetSeq(), result.GetEpoch())
	}
	return out.String()
}

// parseEntry reads: append ID [create] [delete] [expect=N] [epoch=N] [head=S] [event=S]... [item=T/K=V] [item=T/K]
// [list=L/SCORE/M=V] [list=L/SCORE/M] [count=NAME/N] [sum=NAME/MEMBER/N,N...] [blob=ID/BYTES=RECORD] [blob=ID] or: put COLLECTION/KEY
// expect=N (value=S | delete), or: sums NAME/MEMBER/N,N..., or: trim PREFIX/MEMBER, or: pack NAME/FROM/TO, or what
// blob_test.go reads. A row without "=V" is a removal.
func parseEntry(t *testing.T, words []string) *logpb.Entry {
	t.Helper()
	switch words[0] {
	case "put":
		return parsePut(t, words[1:])
	case "sums":
		sums := &logpb.Sums{}
		for _, word := range words[1:] {
			sums.Sums = append(sums.Sums, parseSum(t, word))
		}
		return &logpb.Entry{Version: fsm.Format, Body: &logpb.Entry_Sums{Sums: sums}}
	case "trim":
		trim := &logpb.TrimSums{}
		trim.Prefix, trim.Before, _ = strings.Cut(words[1], "/")
		return &logpb.Entry{Version: fsm.Format, Body: &logpb.Entry_Trim{Trim: trim}}
	case "pack":
		parts := strings.Split(words[1], "/")
		return &logpb.Entry{Version: fsm.Format, Body: &logpb.Entry_Pack{Pack: &logpb.PackSums{Name: parts[0], From: parts[1], To: parts[2], Head: 1}}}
	case "chunk", "commit", "remove":
		return parseBlob(t, words)
	}
	require.Equal(t, "append", words[0])
	a := &logpb.Append{Id: words[1]}
	if a.Id == `""` {
		a.Id = ""
	}
	for _, word := range words[2:] {
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "create":
			a.Create = true
		case "delete":
			a.DeleteEntity = true
		case "expect":
			a.ExpectedSeq = number[uint64](t, value)
		case "epoch":
			a.Epoch = number[uint64](t, value)
		case "head":
			a.Head = []byte(value)
		case "event":
			a.Events = append(a.Events, []byte(value))
		case "item":
			path, v, keep := strings.Cut(value, "=")
			table, key, _ := strings.Cut(path, "/")
			a.Items = append(a.Items, &logpb.Item{Table: number[uint32](t, table), Key: []byte(key), Value: []byte(v), Delete: !keep})
		case "list":
			path, v, keep := strings.Cut(value, "=")
			parts := strings.Split(path, "/")
			a.Listings = append(a.Listings, &logpb.Listing{List: parts[0], Score: number[int64](t, parts[1]), Member: parts[2], Value: []byte(v), Delete: !keep})
		case "blob":
			path, record, keep := strings.Cut(value, "=")
			id, bytes, _ := strings.Cut(path, "/")
			change := &logpb.BlobChange{Id: id, Delete: !keep}
			if keep {
				change = commit(id, number[int64](t, bytes), record)
			}
			a.Blobs = append(a.Blobs, change)
		case "sum":
			a.Sums = append(a.Sums, parseSum(t, value))
		case "count":
			c, n, _ := strings.Cut(value, "/")
			a.Counts = append(a.Counts, &logpb.Count{Name: c, Delta: number[int64](t, n)})
		default:
			require.Fail(t, "unknown word", word)
		}
	}
	return entry(a)
}

func parseSum(t *testing.T, text string) *logpb.Sum {
	t.Helper()
	parts := strings.Split(text, "/")
	require.Len(t, parts, 3)
	s := &logpb.Sum{Name: parts[0], Member: parts[1]}
	for _, n := range strings.FieldsFunc(parts[2], func(r rune) bool { return r == ',' }) {
		s.Deltas = append(s.Deltas, number[int64](t, n))
	}
	return s
}

func parsePut(t *testing.T, words []string) *logpb.Entry {
	t.Helper()
	collection, key, _ := strings.Cut(words[0], "/")
	p := &logpb.Put{Collection: collection, Key: key}
	for _, word := range words[1:] {
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "expect":
			p.ExpectedVersion = number[uint64](t, value)
		case "value":
			p.Value = []byte(value)
		case "delete":
			p.Delete = true
		case "guard": // collection/key@version
			guard, version, _ := strings.Cut(value, "@")
			p.Guard = &logpb.Guard{ExpectedVersion: number[uint64](t, version)}
			p.Guard.Collection, p.Guard.Key, _ = strings.Cut(guard, "/")
		}
	}
	return &logpb.Entry{Version: fsm.Format, Body: &logpb.Entry_Put{Put: p}}
}

func number[T ~uint32 | ~uint64 | ~int64](t *testing.T, s string) T {
	t.Helper()
	n, err := strconv.ParseInt(s, 10, 64)
	require.NoError(t, err)
	return T(n)
}

func entry(a *logpb.Append) *logpb.Entry {
	return &logpb.Entry{Version: fsm.Format, Body: &logpb.Entry_Append{Append: a}}
}

// TestOlderFormatsApply: what releases before have written is still to be read.
func TestOlderFormatsApply(t *testing.T) {
	for version := uint32(fsm.OldestFormat); version <= fsm.Format; version++ {
		data, err := proto.Marshal(&logpb.Entry{Version: version, Body: &logpb.Entry_Append{Append: &logpb.Append{
			Id: "c", Create: true, Events: [][]byte{[]byte("e")}, Head: []byte("h"),
		}}})
		require.NoError(t, err)
		r := newRig(t)
		batch := r.db.NewBatch()
		results, err := r.machine.Apply(batch, 3, []replica.Entry{{Index: 5, Data: data}})
		require.NoError(t, err)
		require.Len(t, results, 1)
		require.False(t, batch.Empty())
		require.NoError(t, batch.Close())
	}
}

func TestApplyRefusesForeignFormats(t *testing.T) {
	newer, err := proto.Marshal(&logpb.Entry{Version: 7, Body: &logpb.Entry_Append{Append: &logpb.Append{Id: "c"}}})
	require.NoError(t, err)
	bodiless, err := proto.Marshal(&logpb.Entry{Version: fsm.Format})
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		data []byte
		want string
	}{
		"newer":       {newer, "apply entry 5 of group 3: entry format is not known to this release: it has format 7, known are 1 to 3"},
		"unversioned": {nil, "it has format 0, known are 1 to 3"},
		"no body":     {bodiless, "unknown body"},
		"garbage":     {[]byte{0xff}, "decode"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			batch := r.db.NewBatch()
			_, err := r.machine.Apply(batch, 3, []replica.Entry{{Index: 5, Data: tc.data}})
			require.ErrorContains(t, err, tc.want)
			require.True(t, batch.Empty())
			require.NoError(t, batch.Close())
		})
	}
}

func drawEntry(t *rapid.T) *logpb.Entry {
	letter := rapid.SampledFrom([]string{"a", "b", "c"})
	if rapid.IntRange(0, 9).Draw(t, "put") == 0 {
		put := &logpb.Put{
			Collection: letter.Draw(t, "collection"), Key: letter.Draw(t, "key"),
			ExpectedVersion: rapid.Uint64Range(0, 3).Draw(t, "version"), Delete: rapid.Bool().Draw(t, "delete"), Value: []byte("v"),
		}
		if rapid.Bool().Draw(t, "guarded") {
			put.Guard = &logpb.Guard{
				Collection: letter.Draw(t, "guard collection"), Key: letter.Draw(t, "guard key"), ExpectedVersion: rapid.Uint64Range(0, 3).Draw(t, "guard version"),
			}
		}
		return &logpb.Entry{Version: fsm.Format, Body: &logpb.Entry_Put{Put: put}}
	}
	if rapid.IntRange(0, 2).Draw(t, "blob") == 0 {
		return drawBlob(t)
	}
	if rapid.IntRange(0, 9).Draw(t, "trim") == 0 {
		return &logpb.Entry{Version: fsm.Format, Body: &logpb.Entry_Trim{Trim: &logpb.TrimSums{
			Prefix: letter.Draw(t, "prefix"), Before: letter.Draw(t, "before"),
		}}}
	}
	if rapid.IntRange(0, 5).Draw(t, "pack") == 0 {
		return &logpb.Entry{Version: fsm.Format, Body: &logpb.Entry_Pack{Pack: &logpb.PackSums{
			Name: letter.Draw(t, "name"), From: letter.Draw(t, "from"), To: letter.Draw(t, "to") + "x", Head: rapid.Uint32Range(0, 2).Draw(t, "head"),
		}}}
	}
	if rapid.IntRange(0, 5).Draw(t, "sums") == 0 {
		return &logpb.Entry{Version: fsm.Format, Body: &logpb.Entry_Sums{Sums: &logpb.Sums{Sums: drawSums(t)}}}
	}
	a := &logpb.Append{
		Id: letter.Draw(t, "id"), Create: rapid.Bool().Draw(t, "create"),
		ExpectedSeq: rapid.Uint64Range(0, 4).Draw(t, "expect"), Epoch: rapid.Uint64Range(1, 3).Draw(t, "epoch"),
		Head: []byte(letter.Draw(t, "head")), DeleteEntity: rapid.IntRange(0, 5).Draw(t, "delete") == 0,
	}
	for range rapid.IntRange(0, 2).Draw(t, "events") {
		a.Events = append(a.Events, []byte(letter.Draw(t, "event")))
	}
	for range rapid.IntRange(0, 2).Draw(t, "items") {
		a.Items = append(a.Items, &logpb.Item{
			Table: rapid.Uint32Range(0, 2).Draw(t, "table"), Key: []byte(letter.Draw(t, "key")),
			Value: []byte(letter.Draw(t, "value")), Delete: rapid.Bool().Draw(t, "remove"),
		})
	}
	for range rapid.IntRange(0, 2).Draw(t, "listings") {
		a.Listings = append(a.Listings, &logpb.Listing{
			List: letter.Draw(t, "list"), Score: rapid.Int64Range(-1, 1).Draw(t, "score"), Member: letter.Draw(t, "member"),
			Delete: rapid.Bool().Draw(t, "remove"),
		})
	}
	for range rapid.IntRange(0, 2).Draw(t, "counts") {
		a.Counts = append(a.Counts, &logpb.Count{Name: letter.Draw(t, "count"), Delta: rapid.Int64Range(-1, 1).Draw(t, "delta")})
	}
	a.Sums = drawSums(t)
	for _, id := range blobIDs[:rapid.IntRange(0, 2).Draw(t, "blobs")] {
		a.Blobs = append(a.Blobs, drawChange(t, id, a.GetDeleteEntity()))
	}
	return entry(a)
}

func drawSums(t *rapid.T) (sums []*logpb.Sum) {
	name := rapid.SampledFrom([]string{"a", "b"})
	for range rapid.IntRange(0, 2).Draw(t, "sums") {
		sums = append(sums, &logpb.Sum{
			Name: name.Draw(t, "name"), Member: name.Draw(t, "member"), Deltas: rapid.SliceOfN(rapid.OneOf(
				rapid.Int64Range(-1, 1), rapid.SampledFrom([]int64{math.MaxInt64, math.MinInt64})), 0, 3).Draw(t, "deltas"),
		})
	}
	return sums
}

// However the log is cut into batches, results and rows are the same: what replicas rely on, and what a restart in
// mid-log relies on.
func TestBatchesDoNotMatter(t *testing.T) {
	single, many := newRig(t), newRig(t)
	rapid.Check(t, func(rt *rapid.T) {
		single.wipe(rt)
		many.wipe(rt)
		entries := rapid.SliceOfN(rapid.Custom(drawEntry), 1, 40).Draw(rt, "entries")
		var want, got []*logpb.Result
		for _, e := range entries {
			want = append(want, single.apply(rt, 0, e)...)
		}
		for rest := entries; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(rt, "batch")
			got = append(got, many.apply(rt, 0, rest[:n]...)...)
			rest = rest[n:]
		}
		require.Equal(rt, fmt.Sprint(want), fmt.Sprint(got))
		require.Equal(rt, single.rows(rt, 0), many.rows(rt, 0))
		require.Equal(rt, single.records, many.records)
	})
}

// Deleting leaves no row behind, below and above the size where row by row becomes one range.
func TestDeleteRemovesEveryRow(t *testing.T) {
	for _, events := range []int{1, 998, 999, 1000, 3000} {
		t.Run(strconv.Itoa(events), func(t *testing.T) {
			r := newRig(t)
			a := &logpb.Append{Id: "c", Create: true, Items: []*logpb.Item{{Table: 1, Key: []byte("k")}}}
			for range events {
				a.Events = append(a.Events, []byte("e"))
			}
			r.apply(t, 1, entry(a), entry(&logpb.Append{Id: "cc", Create: true, Events: [][]byte{nil}}))
			require.Len(t, r.rows(t, 1), events+2+2)
			got := r.apply(t, 1, entry(&logpb.Append{Id: "c", ExpectedSeq: uint64(events - 1), DeleteEntity: true}))
			require.Equal(t, logpb.Outcome_APPLIED, got[0].GetOutcome())
			require.Equal(t, []string{`head cc seq=0 epoch=0 ""`, `event cc 0 ""`}, r.rows(t, 1))
		})
	}
}

// Entries of a turn: one event, the head, an item and a list row that moves, over 10,000 conversations.
func BenchmarkApply(b *testing.B) {
	for _, size := range []int{1, 64} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
			r := newRig(b)
			const conversations = 10_000
			seqs := make([]uint64, conversations)
			id := func(i int) string { return fmt.Sprintf("conv_%021d", i) }
			for i := range conversations {
				r.apply(b, 1, entry(&logpb.Append{Id: id(i), Create: true, Head: make([]byte, 300), Events: [][]byte{make([]byte, 200)}}))
			}
			rng := rand.New(rand.NewPCG(1, 2))
			datas := make([]replica.Entry, b.N)
			for i := range datas {
				c := rng.IntN(conversations)
				data, err := fsm.Encode(turn(id(c), seqs[c]))
				require.NoError(b, err)
				seqs[c]++
				datas[i] = replica.Entry{Index: uint64(i), Data: data}
			}
			b.ReportAllocs()
			b.ResetTimer()
			for rest := datas; len(rest) > 0; {
				n := min(size, len(rest))
				batch := r.db.NewBatch()
				results, err := r.machine.Apply(batch, 1, rest[:n])
				require.NoError(b, err)
				result, ok := results[0].(*logpb.Result)
				require.True(b, ok)
				require.Equal(b, logpb.Outcome_APPLIED, result.GetOutcome())
				require.NoError(b, batch.Commit(pebble.NoSync))
				require.NoError(b, batch.Close())
				rest = rest[n:]
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "entries/s")
		})
	}
}

func turn(id string, seq uint64) *logpb.Append {
	return &logpb.Append{
		Id: id, ExpectedSeq: seq, Epoch: 1, Head: make([]byte, 300), Events: [][]byte{make([]byte, 200)},
		Items: []*logpb.Item{{Table: 1, Key: []byte{0, 0, 0, 0, 0, 0, 0, byte(seq)}, Value: make([]byte, 200)}},
		Listings: []*logpb.Listing{
			{List: "user/u1/updated", Score: int64(seq), Member: id, Delete: true},
			{List: "user/u1/updated", Score: int64(seq) + 1, Member: id},
		},
		Counts: []*logpb.Count{{Name: "turns", Delta: 1}},
	}
}
