package body

import (
	"bytes"
	"encoding/json"

	"parley/actors/core/failure"
	"parley/httpedge/turns"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// Optional is a body field that distinguishes between absent, null and a value.
type Optional[T any] struct {
	Set, Null bool
	Value     T
}

// UnmarshalJSON is called only for fields that are present.
func (o *Optional[T]) UnmarshalJSON(raw []byte) error {
	o.Set = true
	if IsNull(raw) {
		o.Null = true
		return nil
	}
	return json.Unmarshal(raw, &o.Value)
}

// Described implements openapi.Described.
func (o Optional[T]) Described() (value any, nullable bool) { return o.Value, true }

// Metadata is a client's JSON object, stored as compact text, because it must fit on one line of an event stream.
type Metadata []byte

// UnmarshalJSON takes an object, or null for none.
func (m *Metadata) UnmarshalJSON(raw []byte) error {
	if IsNull(raw) {
		return nil
	}
	if raw[0] != '{' {
		return failure.New(failurepb.Code_VALIDATION, failure.MustBeObject).In("metadata")
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
func (m Metadata) Described() (value any, nullable bool) { return map[string]any{}, true }

// BudgetInput is a budget as a client sends it; null removes it.
type BudgetInput struct {
	Set, Null bool
	Budget    *conversationpb.Budget
}

// UnmarshalJSON answers anything but a valid budget, wrong types included, with invalid_budget.
func (b *BudgetInput) UnmarshalJSON(raw []byte) error {
	b.Set = true
	if IsNull(raw) {
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
	budget, refused := turns.Budget(in).Read()
	if refused != nil {
		return refused
	}
	b.Budget = budget
	return nil
}

// Described implements openapi.Described.
func (b BudgetInput) Described() (value any, nullable bool) { return budgetSchema{}, true }

// IsNull says whether a JSON value is null.
func IsNull(raw []byte) bool { return string(raw) == "null" }
