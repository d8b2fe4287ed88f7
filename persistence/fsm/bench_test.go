package fsm_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"parley/persistence/fsm"
	"parley/persistence/replica"
	"parley/proto/logpb"
)

const (
	turnConversations = 64
	turnBatch         = 4 // entries that are applied together, about as many as with 64 callers and 16 shards
)

// BenchmarkApplyTurn applies what one turn of a conversation writes: two appends, with as many rows of as many bytes as a node was seen to write
// for a turn of `parley bench turn`. Processor time is that of the whole process, with the engine's flushes.
func BenchmarkApplyTurn(b *testing.B) {
	db, err := pebble.Open("db", &pebble.Options{FS: vfs.NewMem(), MemTableSize: 64 << 20, Logger: quiet{}})
	require.NoError(b, err)
	defer func() { require.NoError(b, db.Close()) }()
	m := fsm.New(db, noRecords{})
	var (
		entries []replica.Entry
		index   uint64
		seqs    [turnConversations]uint64
		used    time.Duration
	)
	add := func(a *logpb.Append) {
		data, err := fsm.Encode(a)
		if err != nil {
			b.Fatal(err)
		}
		index++
		entries = append(entries, replica.Entry{Index: index, Term: 1, Data: data})
	}
	apply := func() {
		begin := processorTime(b)
		for at := 0; at < len(entries); at += turnBatch {
			batch := db.NewBatch()
			results, err := m.Apply(batch, 1, entries[at:min(at+turnBatch, len(entries))])
			if err != nil {
				b.Fatal(err)
			}
			for _, r := range results {
				if r, ok := r.(*logpb.Result); !ok || r.GetOutcome() != logpb.Outcome_APPLIED {
					b.Fatal(r)
				}
			}
			if err := batch.Commit(pebble.NoSync); err != nil {
				b.Fatal(err)
			}
		}
		used += processorTime(b) - begin
		entries = entries[:0]
	}
	var prepared [][2]*logpb.Append
	for c := range turnConversations {
		add(&logpb.Append{Id: turnID(c), Create: true, Epoch: 1, Head: make([]byte, 180), Events: [][]byte{make([]byte, 120)}})
		prepared = append(prepared, turnAppends(turnID(c)))
	}
	apply()
	used = 0
	b.ReportAllocs()
	b.ResetTimer()
	b.StopTimer()
	for i := range b.N {
		c := i % turnConversations
		for _, a := range prepared[c] {
			a.ExpectedSeq = seqs[c]
			for _, item := range a.GetItems() {
				item.Key[7], item.Key[6], item.Key[5] = byte(i), byte(i>>8), byte(i>>16)
			}
			for k, l := range a.GetListings() {
				l.Score = int64(i + 1 - k%2) // a place that is left, and the next one
			}
			seqs[c] += 2
			add(a)
		}
		if len(entries) >= 2048 || i == b.N-1 {
			b.StartTimer()
			apply()
			b.StopTimer()
		}
	}
	b.ReportMetric(float64(used.Nanoseconds())/1e3/float64(b.N), "cpu-us/turn")
}

// processorTime is what this process has used.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func turnID(c int) string { return fmt.Sprintf("conv_%021d", c) }

// turnAppends are the begin of a turn and its end.
func turnAppends(id string) [2]*logpb.Append {
	item := func() *logpb.Item { return &logpb.Item{Table: 1, Key: make([]byte, 8), Value: make([]byte, 60)} }
	place := func(list string, left bool) *logpb.Listing {
		return &logpb.Listing{List: list, Member: id, Delete: left}
	}
	const user, status, running = "conv/u/o/default/default/ada", "session/s/default/default/idle", "conv/running"
	return [2]*logpb.Append{{
		Id: id, Epoch: 1, Head: make([]byte, 1000), Events: [][]byte{make([]byte, 120), make([]byte, 120)},
		Items: []*logpb.Item{item(), item()}, Listings: []*logpb.Listing{place(running, false), place(user, true)},
	}, {
		Id: id, Epoch: 1, Head: make([]byte, 960), Events: [][]byte{make([]byte, 120), make([]byte, 120)},
		Items:    []*logpb.Item{item(), item(), item()},
		Listings: []*logpb.Listing{place(running, true), place(user, false), place(user, true), place(status, false), place(status, true), place(user, false)},
		Sums:     []*logpb.Sum{{Name: "usage/default/default", Member: "2026-11-27T16/assistant/bench", Deltas: []int64{1, 2, 3, 4, 5, 6, 7}}},
	}}
}

type noRecords struct{}

func (noRecords) Put(string, string, uint64, []byte) {}
func (noRecords) Delete(string, string, uint64)      {}
