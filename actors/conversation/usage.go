package conversation

import "parley/proto/conversationpb"

// sane is the usage as the runner told it, without numbers that cannot be.
func sane(usage *conversationpb.Usage) *conversationpb.Usage {
	if usage == nil || min(usage.GetInputTokens(), usage.GetOutputTokens(), usage.GetCachedInputTokens(), usage.GetCostNanoUsd(),
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
	}
}

// addUsage is the sum of two, which may be nil. It is priced when every call in it is.
func addUsage(a, b *conversationpb.Usage) *conversationpb.Usage {
	if a == nil {
		return b
	}
	if b == nil {
		return a
	}
	return &conversationpb.Usage{
		InputTokens:       spend(a.GetInputTokens(), b.GetInputTokens()),
		OutputTokens:      spend(a.GetOutputTokens(), b.GetOutputTokens()),
		CachedInputTokens: spend(a.GetCachedInputTokens(), b.GetCachedInputTokens()),
		CostNanoUsd:       spend(a.GetCostNanoUsd(), b.GetCostNanoUsd()),
		Priced:            (a.GetPriced() || a.GetModelCalls() == 0) && (b.GetPriced() || b.GetModelCalls() == 0) && (a.GetPriced() || b.GetPriced()),
		ModelCalls:        a.GetModelCalls() + b.GetModelCalls(),
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
