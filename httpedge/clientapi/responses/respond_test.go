package responses

import (
	"testing"

	"github.com/stretchr/testify/require"

	"parley/httpedge/clientapi/handler"
	"parley/httpedge/endpoint"
	"parley/proto/conversationpb"
)

// TestBlocked: a turn that a guardrail ended is refused with what its log tells of it; any other failure is a response.
func TestBlocked(t *testing.T) {
	require.NoError(t, blocked(nil))
	require.NoError(t, blocked(&conversationpb.TurnResult{Error: &conversationpb.TurnError{Code: "provider_error"}}))
	err := blocked(&conversationpb.TurnResult{Error: &conversationpb.TurnError{
		Code: "guardrail_block", Message: "Not here.", Details: []byte(`{"guardrail_key":"words","action":"block","findings":[{"type":"word_filter"}]}`),
	}})
	var problem *endpoint.Problem
	require.ErrorAs(t, err, &problem)
	require.Equal(t, []any{400, true}, []any{problem.Status, problem.Ran})
	require.JSONEq(t, `{"error":{"message":"Not here.","type":"guardrail_block","code":"guardrail_block","guardrail_key":"words","action":"block",
		"findings":[{"type":"word_filter"}]},"code":"guardrail_block"}`, string(handler.AppendProblem(nil, problem)))
}
