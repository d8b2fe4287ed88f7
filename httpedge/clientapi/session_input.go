package clientapi

import (
	"encoding/json"
	"unicode/utf8"

	"parley/actors/core/money"
	"parley/actors/machine"
	"parley/httpedge/turns"
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
	if json.Unmarshal(raw, &in) != nil {
		in.MaxCostUSD = nil // no budget at all
	}
	b.budget, b.failure = turns.Budget(in).Read()
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
			With("maxCostUsd", money.USD(bound.GetMaxCostNanoUsd()))
	}
	return nil
}

func badBudget(text string) *machine.Failure {
	return machine.Fail(failurepb.Code_INVALID_BUDGET, "%s", text)
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
