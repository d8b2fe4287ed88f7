package node

import (
	"context"
	"errors"
	"time"

	"parley/actors/inference"
	"parley/actors/machine"
	"parley/httpedge/endpoint"
	"parley/httpedge/gateway"
	"parley/proto/logpb"
)

// usageFolder is where usage of gateway calls is kept until it is counted, below the data directory.
const usageFolder = "usage"

// gatewayModels implements gateway.Models with the inference caller.
type gatewayModels struct{ caller *inference.Caller }

var _ gateway.Models = gatewayModels{}

// Chat implements gateway.Models.
func (g gatewayModels) Chat(ctx context.Context, call *gateway.Call) ([]byte, error) {
	answer, err := g.caller.Chat(ctx, inferenceCall(call))
	return answer, inferenceProblem(err)
}

// ChatStream implements gateway.Models.
func (g gatewayModels) ChatStream(ctx context.Context, call *gateway.Call, emit func(chunk []byte, more bool) error) error {
	return inferenceProblem(g.caller.ChatStream(ctx, inferenceCall(call), emit))
}

// Embed implements gateway.Models.
func (g gatewayModels) Embed(ctx context.Context, call *gateway.Call) ([]byte, error) {
	answer, err := g.caller.Embed(ctx, inferenceCall(call))
	return answer, inferenceProblem(err)
}

// Moderate implements gateway.Models.
func (g gatewayModels) Moderate(ctx context.Context, call *gateway.Call) ([]byte, error) {
	answer, err := g.caller.Moderate(ctx, inferenceCall(call))
	return answer, inferenceProblem(err)
}

func inferenceCall(call *gateway.Call) *inference.Call {
	return &inference.Call{
		TenantID: call.Caller.TenantID, ProjectID: call.Caller.ProjectID, UserID: call.Caller.UserID, TokenID: call.Caller.TokenID(),
		RequestID: call.RequestID, Model: call.Model, Body: call.Body, Cache: (*inference.Cache)(call.Cache),
	}
}

// inferenceProblem turns a failed call into the edge's problem. Errors of the caller's context stay as they are.
func inferenceProblem(err error) error {
	failed, ok := errors.AsType[*inference.Error](err)
	if !ok {
		return err
	}
	return &endpoint.Problem{
		Status: failed.Status, Code: failed.Code, Message: failed.Message, RetryAfter: failed.RetryAfter, Cause: failed.Err, Ran: failed.Ran,
		Details: map[string]any{"type": failed.Type, "param": failed.Param},
	}
}

// bookInference adds the usage of calls to the sums of their project. What a dynamic model chose counts at the chosen model, and is told of at
// the dynamic one.
func bookInference(add func(*logpb.Sum)) func(inference.Usage) {
	return func(usage inference.Usage) {
		numbers := machine.UsageNumbers{
			machine.UsageRequests:          1,
			machine.UsageInputTokens:       usage.InputTokens,
			machine.UsageOutputTokens:      usage.OutputTokens,
			machine.UsageCachedInputTokens: usage.CachedInputTokens,
			machine.UsageCostNanoUSD:       usage.CostNanoUSD,
			machine.UsageAudioMillis:       usage.AudioMillis,
			machine.UsageCharacters:        usage.Characters,
		}
		if usage.Failed {
			numbers[machine.UsageErrors] = 1
		}
		if !usage.Priced {
			numbers[machine.UsageUnpriced] = 1
		}
		if usage.CacheHit {
			numbers[machine.UsageCacheHits] = 1
		}
		now := time.Now().UnixMilli()
		key := machine.UsageKey{Model: usage.Model, User: usage.UserID, Token: usage.TokenID, Service: usage.Service}
		add(machine.UsageSum(usage.TenantID, usage.ProjectID, now, key, numbers))
		if usage.Routing == "" {
			return
		}
		key.Model = usage.Routing
		add(machine.UsageSum(usage.TenantID, usage.ProjectID, now, key, machine.UsageNumbers{
			machine.UsageRouted: 1, machine.UsageRoutedCostNanoUSD: usage.CostNanoUSD,
		}))
	}
}
