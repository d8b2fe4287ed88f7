package handler

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"parley/actors/core/failure"
	"parley/actors/core/money"
	"parley/httpedge/clientapi/render"
	"parley/httpedge/turns"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// EachMember calls back for the members of a JSON object in their order; never for any other value.
func EachMember(raw []byte, call func(name string, value json.RawMessage)) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	if opening, err := decoder.Token(); err != nil || opening != json.Delim('{') {
		return
	}
	for decoder.More() {
		name, err := decoder.Token()
		text, isText := name.(string)
		var value json.RawMessage
		if err != nil || !isText || decoder.Decode(&value) != nil {
			return
		}
		call(text, value)
	}
}

// BudgetInput is a budget as a client sends it; null is none. An invalid one is refused only when it is used: a continued
// session ignores it, and other failures come first.
type BudgetInput struct {
	Set, Null bool
	Budget    *conversationpb.Budget
	Failure   *failure.Failure
}

// UnmarshalJSON never fails.
func (b *BudgetInput) UnmarshalJSON(raw []byte) error {
	*b = BudgetInput{Set: true}
	if IsNull(raw) {
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
	b.Budget, b.Failure = turns.Budget(in).Read()
	return nil
}

// Described implements openapi.Described.
func (b BudgetInput) Described() (value any, nullable bool) { return render.BudgetSchema{}, true }

// May refuses what the budget that an agent binds its callers to does not allow: they may lower it, not raise or remove it.
func (b *BudgetInput) May(agent *agentpb.Agent) *failure.Failure {
	switch bound := agent.GetDefaultBudget(); {
	case b.Failure != nil:
		return b.Failure
	case !b.Set || !agent.GetBudgetBinds() || bound == nil:
		return nil
	case b.Null:
		return failure.New(failurepb.Code_BUDGET_OVERRIDE_FORBIDDEN, failure.BudgetNotRemovable)
	case b.Budget.GetMaxCostNanoUsd() > bound.GetMaxCostNanoUsd():
		return failure.New(failurepb.Code_BUDGET_OVERRIDE_FORBIDDEN, failure.BudgetNotRaisable).
			With("maxCostUsd", money.USD(bound.GetMaxCostNanoUsd()))
	}
	return nil
}

// BadBudget refuses a budget.
func BadBudget(reason failure.Reason) *failure.Failure {
	return failure.New(failurepb.Code_INVALID_BUDGET, reason)
}

// MetadataInput is the pairs of a session (document 1, "Limits").
type MetadataInput struct {
	Pairs   []byte // JSON object
	Failure *failure.Failure
}

// UnmarshalJSON never fails: Failure is reported when its turn comes.
func (m *MetadataInput) UnmarshalJSON(raw []byte) error {
	const most, longestKey, longestValue = 16, 64, 512
	*m = MetadataInput{}
	if IsNull(raw) {
		return nil
	}
	var pairs map[string]*string
	if err := json.Unmarshal(raw, &pairs); err != nil {
		m.Failure = badMetadata(failure.PairsNotStrings)
		return nil //nolint:nilerr // see above
	}
	if len(pairs) > most {
		m.Failure = badMetadata(failure.TooManyPairs).Param("most", most)
		return nil
	}
	for key, value := range pairs {
		switch n := utf8.RuneCountInString(key); {
		case n < 1 || n > longestKey:
			m.Failure = badMetadata(failure.BadPairKey).Param("most", longestKey)
		case value == nil:
			m.Failure = badMetadata(failure.PairValueNotString)
		case utf8.RuneCountInString(*value) > longestValue:
			m.Failure = badMetadata(failure.PairValueTooLong).Param("most", longestValue)
		}
	}
	m.Pairs, _ = json.Marshal(pairs) // texts only; keys in order, duplicates gone
	return nil
}

// Described implements openapi.Described.
func (m MetadataInput) Described() (value any, nullable bool) { return map[string]string{}, true }

func badMetadata(reason failure.Reason) *failure.Failure {
	return failure.New(failurepb.Code_INVALID_METADATA, reason).In("metadata")
}

// IsNull says whether a field is there and null.
func IsNull(raw []byte) bool { return string(raw) == "null" }
