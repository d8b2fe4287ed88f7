package trace_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/actors/core/failure"
	"parley/actors/core/tracing"
	"parley/actors/machine"
	"parley/actors/machine/machinetest"
	"parley/actors/trace"
	"parley/proto/logpb"
	"parley/proto/tracepb"
)

func sessions() machinetest.Suite {
	return machinetest.Suite{
		Machine: trace.New(trace.Conversations{}).Machine,
		Command: func() proto.Message { return new(tracepb.Command) },
		Event:   func() proto.Message { return new(tracepb.Event) },
		Prepare: func(message proto.Message) {
			if command, ok := message.(*tracepb.Command); ok && command.Id == "" {
				command.Id = "trace_1"
			}
		},
	}
}

func threads() machinetest.Suite {
	return machinetest.Suite{
		Machine: trace.NewThreads().Machine,
		Command: func() proto.Message { return new(tracepb.ThreadCommand) },
		Event:   func() proto.Message { return new(tracepb.ThreadEvent) },
		Prepare: func(message proto.Message) {
			if command, ok := message.(*tracepb.ThreadCommand); ok && command.Id == "" {
				command.Id = "thread_1"
			}
		},
	}
}

func TestSessionScripts(t *testing.T) { sessions().Scripts(t, "testdata/session") }

func TestSessionTable(t *testing.T) { sessions().Table(t, "states.md") }

func TestThreadScripts(t *testing.T) { threads().Scripts(t, "testdata/thread") }

func TestThreadTable(t *testing.T) { threads().Table(t, "states_thread.md") }

// events are n events whose numbers begin somewhere.
func events(from, n int) (made []*tracepb.Happening) {
	for i := range n {
		made = append(made, &tracepb.Happening{
			Id: fmt.Sprint("event-", from+i), Type: "llm_call", Label: "chat", Models: []string{"gpt-4o"},
			Numbers: &tracepb.Numbers{InputTokens: 100, OutputTokens: 20},
		})
	}
	return made
}

func put(id string, happened []*tracepb.Happening, partly bool) *tracepb.Command {
	return &tracepb.Command{Id: id, Body: &tracepb.Command_Put{Put: &tracepb.Put{
		TenantId: "t", ProjectId: "p", SessionId: "s", KeepMs: 1000, Events: happened, Partly: partly, Record: &tracepb.Record{Status: "success"},
	}}}
}

// TestFull: a session takes as many events as it may have: beyond that a batch is refused as a whole, or in part.
func TestFull(t *testing.T) {
	rules := trace.New(trace.Conversations{}).Machine
	now := machine.Env{Now: time.UnixMilli(1)}
	first, refused := rules.Decide(nil, put("trace_1", events(0, tracing.MaxEvents-1), false), now)
	require.Nil(t, refused)
	state := rules.Evolve(nil, first.Events)
	_, refused = rules.Decide(state, put("trace_1", events(tracing.MaxEvents-2, 3), false), now)
	require.Equal(t, failure.TraceFull, refused.Reason)
	some, refused := rules.Decide(state, put("trace_1", events(tracing.MaxEvents-2, 3), true), now)
	require.Nil(t, refused)
	require.True(t, proto.Equal(&tracepb.Reply{Stored: 2, LeftOut: 1, Events: tracing.MaxEvents, Status: "success"}, some.Reply), some.Reply)
}

// TestRows: events have rows in the order in which they came, and a session is in the lists that its thread says.
func TestRows(t *testing.T) {
	rules := trace.New(trace.Conversations{}).Machine
	var state proto.Message
	listed, counted, rows := map[string]int{}, map[string]int64{}, 0
	now := int64(7)
	do := func(command *tracepb.Command) {
		decision, refused := rules.Decide(state, command, machine.Env{Now: time.UnixMilli(now)})
		require.Nil(t, refused)
		after, into := rules.Evolve(state, decision.Events), &logpb.Append{}
		if decision.Delete {
			after = nil
		}
		rules.Project(state, after, decision.Events, into)
		for _, l := range into.GetListings() {
			if listed[l.GetList()]++; l.GetDelete() {
				listed[l.GetList()] -= 2
			}
		}
		for _, n := range into.GetCounts() {
			if strings.HasPrefix(n.GetName(), "trace/n/") {
				counted[n.GetName()] += n.GetDelta()
			}
		}
		for _, item := range into.GetItems() {
			rows++
			require.Equal(t, byte(rows), item.GetKey()[7])
		}
		state = after
	}
	first := put("trace_1", events(0, 2), false)
	first.GetPut().UserId = "u"
	do(first)
	do(put("trace_1", events(1, 2), false))
	require.Equal(t, 3, rows)
	require.Equal(t, map[string]int{"trace/due": 1, "trace/sessions/t/p": 1, "trace/threads/t/p": 1}, listed)
	threaded := put("trace_1", nil, false)
	threaded.GetPut().Thread = "thread_1"
	do(threaded)
	require.Equal(t, map[string]int{"trace/due": 1, "trace/sessions/t/p": 1, "trace/threads/t/p": 0, "trace/members/thread_1": 1}, listed)
	kept := func(each int64) map[string]int64 {
		return map[string]int64{"trace/n/t//": each, "trace/n/t/p/": each, "trace/n/t//u": each, "trace/n/t/p/u": each}
	}
	require.Equal(t, kept(1), counted, "once, for who reported it first")
	now += 1000
	do(&tracepb.Command{Id: "trace_1", Body: &tracepb.Command_Due{Due: &tracepb.Due{}}})
	require.Nil(t, state)
	require.Equal(t, kept(0), counted)
}

// BenchmarkPut is what the rules and rows of a batch of 200 events take, in events per second.
func BenchmarkPut(b *testing.B) {
	const batch = 200
	rules := trace.New(trace.Conversations{}).Machine
	command := put("trace_1", events(0, batch), true)
	b.ReportAllocs()
	for b.Loop() {
		decision, refused := rules.Decide(nil, command, machine.Env{Now: time.UnixMilli(1)})
		if refused != nil {
			b.Fatal(refused)
		}
		rules.Project(nil, rules.Evolve(nil, decision.Events), decision.Events, &logpb.Append{})
	}
	b.ReportMetric(float64(batch*b.N)/b.Elapsed().Seconds(), "events/s")
}
