package convapi

import (
	"bytes"
	"encoding/json"

	"parley/actors/machine"
	"parley/httpedge/turns"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// optional is a body field of which it matters whether it was there, and whether it was null.
type optional[T any] struct {
	Set, Null bool
	Value     T
}

// UnmarshalJSON is only called for a field that is there.
func (o *optional[T]) UnmarshalJSON(raw []byte) error {
	o.Set = true
	if isNull(raw) {
		o.Null = true
		return nil
	}
	return json.Unmarshal(raw, &o.Value)
}

// Described tells the API document what the field holds.
func (o optional[T]) Described() (value any, nullable bool) { return o.Value, true }

// metadata is a client's JSON object, kept as compact text: what is stored must fit on one line of a stream.
type metadata []byte

// UnmarshalJSON takes an object, or null for none.
func (m *metadata) UnmarshalJSON(raw []byte) error {
	if isNull(raw) {
		return nil
	}
	if raw[0] != '{' {
		return machine.Fail(failurepb.Code_VALIDATION, "metadata must be an object")
	}
	var compact bytes.Buffer
	compact.Grow(len(raw))
	if err := json.Compact(&compact, raw); err != nil {
		return err
	}
	*m = compact.Bytes()
	return nil
}

// Described implements openapi.Described.
func (m metadata) Described() (value any, nullable bool) { return map[string]any{}, true }

// budgetInput is a budget as a client sends it; null takes it away.
type budgetInput struct {
	Set, Null bool
	budget    *conversationpb.Budget
}

// UnmarshalJSON refuses whatever is no budget as invalid_budget, wrong types included.
func (b *budgetInput) UnmarshalJSON(raw []byte) error {
	b.Set = true
	if isNull(raw) {
		b.Null = true
		return nil
	}
	var in struct {
		MaxCostUSD *float64 `json:"maxCostUsd"`
		OnReach    *string  `json:"onReach"`
	}
	if json.Unmarshal(raw, &in) != nil {
		in.MaxCostUSD = nil // no budget at all
	}
	budget, failure := turns.Budget(in).Read()
	if failure != nil {
		return failure
	}
	b.budget = budget
	return nil
}

// Described implements openapi.Described.
func (b budgetInput) Described() (value any, nullable bool) { return budgetSchema{}, true }

func isNull(raw []byte) bool { return string(raw) == "null" }
