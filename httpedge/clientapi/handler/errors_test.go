package handler

import (
	"testing"

	"github.com/stretchr/testify/require"

	"parley/actors/core/failure"
	"parley/httpedge/endpoint"
	"parley/proto/failurepb"
)

// TestProblems: an error is {error, code}; the numbers of a budget stand beside them, everything else is in the details, in the
// words of this surface.
func TestProblems(t *testing.T) {
	for _, c := range []struct {
		details map[string]any
		want    string
	}{
		{nil, `{"error":"text","code":"some_code"}`},
		{map[string]any{"spentUsd": 0.5, "maxCostUsd": 1.0}, `{"error":"text","code":"some_code","spent_usd":0.5,"max_cost_usd":1}`},
		{map[string]any{"retryAfter": 7}, `{"error":"text","code":"some_code","details":{"retry_after":7}}`},
		{map[string]any{"error": "Unauthorized"}, `{"error":"Unauthorized","message":"text","code":"some_code"}`},
		{map[string]any{"odd": func() {}}, `{"error":"text","code":"some_code"}`},
	} {
		refused := &failure.Failure{Reason: failure.Literal, Details: c.details}
		got := AppendProblem(nil, &endpoint.Problem{Code: "some_code", Message: "text", Details: Wording().Details(refused)})
		require.Equal(t, c.want, string(got))
	}
}

// TestGuardrailProblem: a text that a guardrail stops is told of in the form of the gateway (document 3, 7.10 and 10.2).
func TestGuardrailProblem(t *testing.T) {
	refused := failure.Verbatim(failurepb.Code_GUARDRAIL_BLOCKED, "Not here.").With("guardrail_key", "words").With("action", "block").With("findings", []any{})
	known := Refusals()[refused.Code]
	got := AppendProblem(nil, &endpoint.Problem{Status: known.Status, Code: known.Code, Message: Wording().Text(refused), Details: Wording().Details(refused)})
	require.Equal(t, 400, known.Status)
	require.JSONEq(t, `{"error":{"message":"Not here.","type":"guardrail_block","code":"guardrail_block","guardrail_key":"words","action":"block","findings":[]},
		"code":"guardrail_block"}`, string(got))
}
