package conversation_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/actors/conversation"
	"parley/actors/machine"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
	"parley/proto/logpb"
)

func agent() *agentpb.Agent { return &agentpb.Agent{Id: "bench-echo", Name: "Echo"} }

// BenchmarkTurn is the rules' part of a turn, both appends, as the shell runs it; "stored" adds the marshalling of
// events and heads and reports how many bytes of them a turn writes.
func BenchmarkTurn(b *testing.B) {
	for _, outcomes := range []int{4, 16} {
		name := "outcomes=" + strconv.Itoa(outcomes)
		b.Run("rules/"+name, func(b *testing.B) { benchTurn(b, outcomes, false) })
		b.Run("stored/"+name, func(b *testing.B) { benchTurn(b, outcomes, true) })
	}
}

func benchTurn(b *testing.B, outcomes int, stored bool) {
	b.Helper()
	limits := conversation.DefaultLimits()
	limits.Outcomes = outcomes
	rules := conversation.New(limits)
	minted := 0
	env := machine.Env{Now: time.UnixMilli(1_700_000_000_000), Node: "n1", Epoch: 1, NewID: func(kind string) string {
		minted++
		return kind + "_AAAAAAAAAAAA" + strconv.Itoa(100_000_000+minted)
	}}
	size := 0
	step := func(state proto.Message, command *conversationpb.Command) (proto.Message, machine.Decision) {
		decision, failure := rules.Decide(state, command, env)
		if failure != nil {
			b.Fatal(failure)
		}
		after := rules.Evolve(state, decision.Events)
		change := &logpb.Append{}
		rules.Project(state, after, decision.Events, change)
		if stored {
			for _, event := range decision.Events {
				raw, err := proto.Marshal(event)
				require.NoError(b, err)
				size += len(raw)
			}
			raw, err := proto.Marshal(after)
			require.NoError(b, err)
			size += len(raw)
		}
		return after, decision
	}
	caller := &conversationpb.Caller{TenantId: "default", ProjectId: "default", UserId: "user-1", Identified: true}
	state, _ := step(nil, &conversationpb.Command{
		ConversationId: "conv_AAAAAAAAAAAAAAAAAAAAA", CommandId: "req_create", Caller: caller,
		Body: &conversationpb.Command_Create{Create: &conversationpb.Create{Agent: agent()}},
	})
	turn := func() {
		env.Now = env.Now.Add(50 * time.Millisecond)
		after, decision := step(state, &conversationpb.Command{
			ConversationId: "conv_AAAAAAAAAAAAAAAAAAAAA", CommandId: env.NewID("req"), Caller: caller,
			Body: &conversationpb.Command_Send{Send: &conversationpb.Send{
				Agent: agent(), Content: "How are you today, and what is new in the world?", Wait: true,
			}},
		})
		env.Now = env.Now.Add(50 * time.Millisecond)
		state, _ = step(after, &conversationpb.Command{
			ConversationId: "conv_AAAAAAAAAAAAAAAAAAAAA",
			Body: &conversationpb.Command_Finish{Finish: &conversationpb.Finish{
				RunId: decision.Wait, Epoch: 1, Content: "ok", StopReason: conversationpb.StopReason_END_TURN,
				Usage: &conversationpb.Usage{InputTokens: 12, OutputTokens: 1, ModelCalls: 1},
			}},
		})
	}
	for range outcomes {
		turn()
	}
	size = 0
	b.ReportAllocs()
	for b.Loop() {
		turn()
	}
	if stored {
		b.ReportMetric(float64(size)/float64(b.N), "stored-B/op")
	}
}
