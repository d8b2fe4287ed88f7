package handler

import (
	"testing"

	"github.com/stretchr/testify/require"

	"parley/actors/core/failure"
	"parley/httpedge/endpoint"
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
