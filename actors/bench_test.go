package actors

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/actors/turn"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
	"parley/proto/logpb"
)

// instant is a Journal that keeps nothing: what it costs is the shell.
type instant struct{ head Head }

func (i instant) Load(context.Context, uint32, string) (Head, bool, error) {
	return i.head, i.head.State != nil, nil
}

func (instant) Append(_ context.Context, _ uint32, entry *logpb.Append) (*logpb.Result, error) {
	return &logpb.Result{Outcome: logpb.Outcome_APPLIED, Seq: entry.GetExpectedSeq() + uint64(len(entry.GetEvents()))}, nil
}

func (instant) Running(context.Context, uint32, string, func(string)) error { return nil }

func (instant) Due(context.Context, uint32, DueQuery, func(string)) error { return nil }

func (instant) Listed(context.Context, uint32, ListedQuery, func(ListedRow)) error { return nil }

func (instant) Owns(uint32, uint64) bool { return true }

func (instant) Confirm(context.Context, uint32) error { return nil }

func withInstant(c *Config) { c.Journal = instant{} }

// BenchmarkAsk is a round trip through host and activation and back: without an append, and with one.
func BenchmarkAsk(b *testing.B) {
	for _, words := range []string{"title", "end"} {
		for _, callers := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s/callers_%d", words[:3], callers), func(b *testing.B) {
				s := newShell(b, newJournal(), 1, withInstant)
				command := say(words)
				var next atomic.Int64
				b.ReportAllocs()
				b.SetParallelism(max(callers/runtime.GOMAXPROCS(0), 1))
				if callers == 1 {
					for b.Loop() {
						if _, err := s.Ask(context.Background(), testShard, testID, command); err != nil {
							b.Fatal(err)
						}
					}
					return
				}
				b.RunParallel(func(pb *testing.PB) {
					id := fmt.Sprint("conv_", next.Add(1))
					for pb.Next() {
						if _, err := s.Ask(context.Background(), testShard, id, command); err != nil {
							b.Error(err)
							return
						}
					}
				})
			})
		}
	}
}

// BenchmarkTurn is a whole turn with the real rules and runner: two appends, one model call of one word.
func BenchmarkTurn(b *testing.B) {
	for _, callers := range []int{1, 256} {
		b.Run(fmt.Sprint("callers_", callers), func(b *testing.B) {
			s := talkative(b, newJournal(), says("word"), withInstant)
			var next atomic.Int64
			b.ReportAllocs()
			b.SetParallelism(max(callers/runtime.GOMAXPROCS(0), 1))
			b.RunParallel(func(pb *testing.PB) {
				id := fmt.Sprint("conv_", next.Add(1))
				caller := &conversationpb.Caller{TenantId: "t", ProjectId: "p", UserId: "u", Trusted: true}
				agent := &agentpb.Agent{Id: "a"}
				_, err := s.Ask(context.Background(), testShard, id, &conversationpb.Command{
					ConversationId: id, Caller: caller,
					Body: &conversationpb.Command_Create{Create: &conversationpb.Create{Agent: agent}},
				})
				if err != nil {
					b.Error(err)
					return
				}
				for pb.Next() {
					_, err := s.Ask(context.Background(), testShard, id, &conversationpb.Command{
						ConversationId: id, Caller: caller,
						Body: &conversationpb.Command_Send{Send: &conversationpb.Send{Agent: agent, Content: "hello there", Wait: true}},
					})
					if err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

type counter struct{ n atomic.Int64 }

func (c *counter) Change(*conversationpb.Change) { c.n.Add(1) }
func (c *counter) Closed(error)                  {}

// BenchmarkDelta is one piece of text from a turn to its only follower, with 3,000 such conversations in memory.
func BenchmarkDelta(b *testing.B) {
	const conversations = 3000
	streams := NewLiveStreams(LiveStreamsConfig{})
	sink := &counter{}
	type writer interface{ Write(piece string) }
	var outputs []writer
	for i := range conversations {
		id := fmt.Sprint("conv_", i)
		fl, err := streams.register(1, id, sink)
		require.NoError(b, err)
		_, err = fl.open(1, &conversationpb.State{})
		require.NoError(b, err)
		outputs = append(outputs, streams.Begin(turn.Place{Shard: 1, Epoch: 1, ConversationID: id}, "run", nil))
	}
	var next atomic.Int64
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		i := int(next.Add(1)) * 1000
		for pb.Next() {
			i++
			outputs[i%conversations].Write("token ")
		}
	})
}

// BenchmarkIdleEntity reports the memory of an idle active conversation with a realistic state: just used, and some
// seconds later.
func BenchmarkIdleEntity(b *testing.B) {
	const count = 20_000
	state := &conversationpb.State{
		Id: "conv_aaaaaaaaaaaaaaaaaaaaa", TenantId: "default", ProjectId: "default", AgentId: "assistant", AgentName: "Assistant",
		UserId: "user-1234567890", Title: "A conversation about the weather in the mountains", Metadata: []byte(`{"source":"web","tags":["a","b"]}`),
		Status: conversationpb.Status_IDLE, StopReason: conversationpb.StopReason_END_TURN, LastSeq: 40, NextMessage: 21, MessageCount: 20,
		CreatedAt: 1, UpdatedAt: 2, Source: "conversation", LastRunId: "run_aaaaaaaaaaaaaaaaaaaaa", LastUserMessage: 19,
	}
	for range 10 {
		state.Outcomes = append(state.Outcomes, &conversationpb.Outcome{
			CommandId: "cmd_aaaaaaaaaaaaaaaaaaaaa", RunId: "run_aaaaaaaaaaaaaaaaaaaaa", UserMessageId: "msg_aaaaaaaaaaaaaaaaaaaaa", Seq: 3,
		})
	}
	raw, err := proto.Marshal(state)
	require.NoError(b, err)
	for b.Loop() {
		s := newShell(b, newJournal(), 1, withInstant, func(c *Config) {
			c.Journal, c.MaxActive, c.IdleAfter = instant{Head{Seq: 40, Epoch: 1, State: raw}}, count, time.Hour
		})
		before := heap()
		start := time.Now()
		for i := range count {
			if _, err := s.Ask(context.Background(), testShard, fmt.Sprintf("conv_%021d", i), say("title")); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(time.Since(start).Microseconds())/count, "us/activation")
		b.ReportMetric(float64(heap()-before)/count, "B/entity")
		h := s.hostIf(testShard)
		for range packTicks + 1 { // as if the time had passed
			s.root.Send(h.pid, &tick{window: count})
		}
		_, err := s.Ask(context.Background(), testShard, fmt.Sprintf("conv_%021d", 0), say("title"))
		require.NoError(b, err)
		require.Eventually(b, func() bool { return heap()-before < 3000*count }, 5*time.Second, 100*time.Millisecond)
		b.ReportMetric(float64(heap()-before)/count, "B/entity_at_rest")
		require.InDelta(b, count, s.metric("parley_actors_active_entities"), 0)
		s.Stop(context.Background())
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
