package node

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/actors/core/access"
	"parley/actors/inference"
	"parley/actors/machine"
	"parley/httpedge/endpoint"
	"parley/httpedge/gateway"
	"parley/proto/directorypb"
	"parley/proto/logpb"
)

// TestInferenceProblem: what models refuse is worded for the edge, what ended a call from outside stays what it is.
func TestInferenceProblem(t *testing.T) {
	cause := errors.New("why")
	err := inferenceProblem(&inference.Error{
		Status: 429, Type: "rate_limit_error", Code: "slow", Param: "model", Message: "slow down", RetryAfter: time.Second, Err: cause, Ran: true,
	})
	var problem *endpoint.Problem
	require.ErrorAs(t, err, &problem)
	require.Equal(t, &endpoint.Problem{
		Status: 429, Code: "slow", Message: "slow down", RetryAfter: time.Second, Cause: cause, Ran: true,
		Details: map[string]any{"type": "rate_limit_error", "param": "model"},
	}, problem)
	require.NoError(t, inferenceProblem(nil))
	require.Equal(t, context.Canceled, inferenceProblem(context.Canceled))
}

func TestInferenceCall(t *testing.T) {
	caller := endpoint.Caller{TenantID: "t", ProjectID: "p", UserID: "u", Grant: &access.Grant{Token: &directorypb.Token{Id: "tok_1"}}}
	call := inferenceCall(&gateway.Call{Caller: caller, RequestID: "r", Model: "m"})
	require.Equal(t, &inference.Call{TenantID: "t", ProjectID: "p", UserID: "u", TokenID: "tok_1", RequestID: "r", Model: "m"}, call)
}

// TestBookInference: a call is one row of its hour, model, user, token and service.
func TestBookInference(t *testing.T) {
	var sums []*logpb.Sum
	bookInference(func(sum *logpb.Sum) { sums = append(sums, sum) })(inference.Usage{
		TenantID: "t", ProjectID: "p", UserID: "u", TokenID: "tok_1", Model: "m", Service: "chat", Failed: true,
		InputTokens: 7, OutputTokens: 5, CachedInputTokens: 3, CostNanoUSD: 11,
	})
	require.Len(t, sums, 1)
	require.Equal(t, machine.UsageName("t", "p"), sums[0].GetName())
	require.Equal(t, []int64{1, 1, 7, 5, 3, 11, 1}, sums[0].GetDeltas())
	_, key, ok := machine.ParseUsageMember(sums[0].GetMember())
	require.True(t, ok)
	require.Equal(t, machine.UsageKey{Model: "m", User: "u", Token: "tok_1", Service: "chat"}, key)
}

// TestBookRouted: what a dynamic model chose is told of at both, and counts once; an answer that was kept is a request that consumed nothing.
func TestBookRouted(t *testing.T) {
	var sums []*logpb.Sum
	bookInference(func(sum *logpb.Sum) { sums = append(sums, sum) })(inference.Usage{
		TenantID: "t", ProjectID: "p", UserID: "u", Model: "m", Routing: "any", Service: "chat", CacheHit: true, Priced: true, CostNanoUSD: 11,
	})
	require.Len(t, sums, 2)
	require.Equal(t, []int64{1, 0, 0, 0, 0, 11, 0, 0, 0, 1}, sums[0].GetDeltas())
	require.Equal(t, []int64{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 11}, sums[1].GetDeltas())
	_, key, ok := machine.ParseUsageMember(sums[1].GetMember())
	require.True(t, ok)
	require.Equal(t, machine.UsageKey{Model: "any", User: "u", Service: "chat"}, key)
}
