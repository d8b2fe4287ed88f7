package conversation

import (
	"cmp"
	"unicode/utf8"

	"parley/actors/core/money"
	"parley/proto/conversationpb"
)

const maxModel = 256 // bytes of a model's key

// sane is the usage as the runner told it, without numbers that cannot be.
func sane(usage *conversationpb.Usage) *conversationpb.Usage {
	if usage == nil || utf8.ValidString(usage.GetModel()) && len(usage.GetModel()) <= maxModel &&
		min(usage.GetInputTokens(), usage.GetOutputTokens(), usage.GetCachedInputTokens(), usage.GetCostNanoUsd(),
			int64(usage.GetModelCalls())) >= 0 {
		return usage
	}
	return &conversationpb.Usage{
		InputTokens:       max(0, usage.GetInputTokens()),
		OutputTokens:      max(0, usage.GetOutputTokens()),
		CachedInputTokens: max(0, usage.GetCachedInputTokens()),
		CostNanoUsd:       max(0, usage.GetCostNanoUsd()),
		Priced:            usage.GetPriced(),
		ModelCalls:        max(0, usage.GetModelCalls()),
		Model:             clean(usage.GetModel()[:min(len(usage.GetModel()), maxModel)]),
	}
}

// addUsage is the sum of two, which may be nil. It is priced when every call in it is, and of the second one's model.
func addUsage(a, b *conversationpb.Usage) *conversationpb.Usage {
	if a == nil {
		return b
	}
	if b == nil {
		return a
	}
	return &conversationpb.Usage{
		InputTokens:       money.Add(a.GetInputTokens(), b.GetInputTokens()),
		OutputTokens:      money.Add(a.GetOutputTokens(), b.GetOutputTokens()),
		CachedInputTokens: money.Add(a.GetCachedInputTokens(), b.GetCachedInputTokens()),
		CostNanoUsd:       money.Add(a.GetCostNanoUsd(), b.GetCostNanoUsd()),
		Priced:            (a.GetPriced() || a.GetModelCalls() == 0) && (b.GetPriced() || b.GetModelCalls() == 0) && (a.GetPriced() || b.GetPriced()),
		ModelCalls:        a.GetModelCalls() + b.GetModelCalls(),
		Model:             cmp.Or(b.GetModel(), a.GetModel()),
	}
}

// lostCall is what the model call under way is taken to have cost when nobody will report it, nil = nothing: all that it
// was granted, because it may have been spent.
func lostCall(lease *conversationpb.Lease) *conversationpb.Usage {
	if lease.GetReservedNanoUsd() <= 0 {
		return nil
	}
	return &conversationpb.Usage{CostNanoUsd: lease.GetReservedNanoUsd(), Priced: true, ModelCalls: 1}
}
