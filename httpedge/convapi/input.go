package convapi

import (
	"bytes"
	"encoding/json"

	"parley/actors/machine"
	"parley/httpedge/turns"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// optional is a body field that distinguishes between absent, null and a value.
type optional[T any] struct {
	Set, Null bool
	Value     T
}

// UnmarshalJSON is called only for fields that are present.
func (o *optional[T]) UnmarshalJSON(raw []byte) error {
	o.Set = true
	if isNull(raw) {
		o.Null = true
		return nil
	}
	return json.Unmarshal(raw, &o.Value)
}

// Described implements openapi.Described.
func (o optional[T]) Described() (value any, nullable bool) { return o.Value, true }

// metadata is a client's JSON object, stored as compact text, because it must fit on one line of an event stream.
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

// budgetInput is a budget as a client sends it; null removes it.
type budgetInput struct {
	Set, Null bool
	budget    *conversationpb.Budget
}

// UnmarshalJSON answers anything but a valid budget, wrong types included, with invalid_budget.
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
