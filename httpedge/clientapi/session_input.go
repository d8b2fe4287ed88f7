package clientapi

import (
	"encoding/json"
	"math"
	"unicode/utf8"

	"parley/actors/machine"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// budgetInput is a budget as a client sends it; null is none. What is wrong with it is told when it matters: a continued
// session ignores it, and other refusals come first.
type budgetInput struct {
	Set, Null bool
	budget    *conversationpb.Budget
	failure   *machine.Failure
}

// UnmarshalJSON never fails.
func (b *budgetInput) UnmarshalJSON(raw []byte) error {
	*b = budgetInput{Set: true}
	if isNull(raw) {
		b.Null = true
		return nil
	}
	var in struct {
		MaxCostUSD *float64 `json:"max_cost_usd"`
		OnReach    *string  `json:"on_reach"`
	}
	if err := json.Unmarshal(raw, &in); err != nil || in.MaxCostUSD == nil {
		b.failure = badBudget("budget must be {max_cost_usd: number, on_reach: pause or stop}")
		return nil //nolint:nilerr // see above
	}
	const perUSD = 1e9
	nano := math.Round(*in.MaxCostUSD * perUSD)
	if nano < 1 || nano >= math.MaxInt64 {
		b.failure = badBudget("max_cost_usd must be above 0 and below %d", math.MaxInt64/int64(perUSD))
		return nil
	}
	b.budget = &conversationpb.Budget{MaxCostNanoUsd: int64(nano)}
	if in.OnReach != nil {
		if *in.OnReach != conversationpb.OnReachPause && *in.OnReach != conversationpb.OnReachStop {
			b.failure = badBudget("on_reach must be pause or stop")
		}
		b.budget.OnReach = *in.OnReach
	}
	return nil
}

// Described implements openapi.Described.
func (b budgetInput) Described() (value any, nullable bool) { return budgetSchema{}, true }

// may refuses what the budget that an agent binds its callers to does not allow: they may lower it, not raise or remove it.
func (b *budgetInput) may(agent *agentpb.Agent) *machine.Failure {
	switch bound := agent.GetDefaultBudget(); {
	case b.failure != nil:
		return b.failure
	case !b.Set || !agent.GetBudgetBinds() || bound == nil:
		return nil
	case b.Null:
		return machine.Fail(failurepb.Code_BUDGET_OVERRIDE_FORBIDDEN, "the agent's budget cannot be removed")
	case b.budget.GetMaxCostNanoUsd() > bound.GetMaxCostNanoUsd():
		return machine.Fail(failurepb.Code_BUDGET_OVERRIDE_FORBIDDEN, "the agent's budget cannot be raised").
			With("maxCostUsd", float64(bound.GetMaxCostNanoUsd())/1e9)
	}
	return nil
}

// without is the agent as a new session without a budget knows it.
func (b *budgetInput) agentFor(agent *agentpb.Agent) *agentpb.Agent {
	if !b.Null || agent.GetDefaultBudget() == nil {
		return agent
	}
	return &agentpb.Agent{Id: agent.GetId(), Name: agent.GetName(), Model: agent.GetModel()}
}

func badBudget(format string, args ...any) *machine.Failure {
	return machine.Fail(failurepb.Code_INVALID_BUDGET, format, args...)
}

// metadataInput is the pairs of a session (document 1, "Limits").
type metadataInput struct {
	pairs   []byte // JSON object
	failure *machine.Failure
}

// UnmarshalJSON never fails: what is wrong is told in its place.
func (m *metadataInput) UnmarshalJSON(raw []byte) error {
	const most, longestKey, longestValue = 16, 64, 512
	*m = metadataInput{}
	if isNull(raw) {
		return nil
	}
	var pairs map[string]*string
	if err := json.Unmarshal(raw, &pairs); err != nil {
		m.failure = badMetadata("metadata must be an object of strings")
		return nil //nolint:nilerr // see above
	}
	if len(pairs) > most {
		m.failure = badMetadata("metadata has more than %d pairs", most)
		return nil
	}
	for key, value := range pairs {
		switch n := utf8.RuneCountInString(key); {
		case n < 1 || n > longestKey:
			m.failure = badMetadata("a metadata key has 1 to %d characters", longestKey)
		case value == nil:
			m.failure = badMetadata("metadata values are strings")
		case utf8.RuneCountInString(*value) > longestValue:
			m.failure = badMetadata("a metadata value has at most %d characters", longestValue)
		}
	}
	m.pairs, _ = json.Marshal(pairs) // texts only; keys in order, duplicates gone
	return nil
}

// Described implements openapi.Described.
func (m metadataInput) Described() (value any, nullable bool) { return map[string]string{}, true }

func badMetadata(format string, args ...any) *machine.Failure {
	return machine.Fail(failurepb.Code_INVALID_METADATA, format, args...)
}

func isNull(raw []byte) bool { return string(raw) == "null" }

// compact is a JSON value on one line; nil for null and for nothing.
func compact(raw []byte) []byte {
	if len(raw) == 0 || isNull(raw) {
		return nil
	}
	return oneLine(raw)
}
