package eventlog

import (
	"testing"

	"github.com/stretchr/testify/require"

	"parley/proto/conversationpb"
)

// TestClientDialect: the Client API has names of its own for a few things of the same log.
func TestClientDialect(t *testing.T) {
	cases := []struct {
		event  *conversationpb.Event
		server string
		client string
	}{
		{
			&conversationpb.Event{Body: &conversationpb.Event_TurnEnded{TurnEnded: &conversationpb.TurnEnded{
				StopReason: conversationpb.StopReason_MAX_TURNS,
			}}},
			`{"stop_reason":"max_turns"}`, `{"stop_reason":"limit"}`,
		},
		{
			&conversationpb.Event{Body: &conversationpb.Event_AgentMessage{AgentMessage: &conversationpb.AgentMessage{
				Message: &conversationpb.Message{Id: "m", StopReason: conversationpb.StopReason_MAX_TURNS},
			}}},
			`{"content":"","message_id":"m","stop_reason":"max_turns"}`, `{"content":"","message_id":"m","stop_reason":"limit"}`,
		},
		{
			&conversationpb.Event{Body: &conversationpb.Event_Updated{Updated: &conversationpb.Updated{Patch: &conversationpb.Patch{
				Budget: &conversationpb.Budget{MaxCostNanoUsd: 500_000_000, OnReach: "stop"},
			}}}},
			`{"budget":{"maxCostUsd":0.5,"onReach":"stop"}}`, `{"budget":{"max_cost_usd":0.5,"on_reach":"stop"}}`,
		},
		{
			&conversationpb.Event{Body: &conversationpb.Event_ActionClosed{ActionClosed: &conversationpb.ActionClosed{
				Id: "a", How: "resolved", Resolution: []byte(`{"type":"tool_approval","approvedArgs":{"n":1},"rememberForSession":true}`),
			}}},
			`{"action_id":"a","resolution":{"type":"tool_approval","approvedArgs":{"n":1},"rememberForSession":true}}`,
			`{"action_id":"a","resolution":{"approved_args":{"n":1},"remember_for_session":true,"type":"tool_approval"}}`,
		},
		{
			&conversationpb.Event{Body: &conversationpb.Event_SessionUsage{SessionUsage: &conversationpb.SessionUsage{
				Usage: &conversationpb.Usage{InputTokens: 1, Priced: true, CostNanoUsd: 500_000_000}, SpentNanoUsd: 750_000_000,
			}}},
			`{"usage":{"input_tokens":1,"output_tokens":0,"total_tokens":1,"cost_usd":0.5},"spent_usd":0.75}`,
			`{"usage":{"input_tokens":1,"output_tokens":0,"total_tokens":1,"cost_usd":0.5},"turn_cost_usd":0.5,"spent_usd":0.75}`,
		},
		{
			&conversationpb.Event{Body: &conversationpb.Event_SessionUsage{SessionUsage: &conversationpb.SessionUsage{
				Usage: &conversationpb.Usage{CostNanoUsd: 1e6, Priced: true}, TurnCostNanoUsd: 3e6, SpentNanoUsd: 5e6,
			}}},
			`{"usage":{"input_tokens":0,"output_tokens":0,"total_tokens":0,"cost_usd":0.001},"spent_usd":0.005}`,
			`{"usage":{"input_tokens":0,"output_tokens":0,"total_tokens":0,"cost_usd":0.001},"turn_cost_usd":0.003,"spent_usd":0.005}`,
		},
	}
	for _, c := range cases {
		require.Equal(t, c.server, string(appendData(nil, c.event, Conversation)))
		require.Equal(t, c.client, string(appendData(nil, c.event, Client)))
	}
}
