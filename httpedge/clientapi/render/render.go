// Package render encodes what several resources of the Client API return: runs, responses, actions, times, pages.
package render

import (
	"encoding/json"

	"parley/httpedge/endpoint/wire"
)

// Object is stored JSON, {} when nothing is stored.
func Object(stored []byte) json.RawMessage {
	if len(stored) == 0 {
		return json.RawMessage(`{}`)
	}
	return stored
}

// Nullable is a text that is null when it is empty.
func Nullable(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// Time is a time as the wire has it, without the quotes.
func Time(unixMilli int64) string {
	quoted := wire.AppendTime(nil, unixMilli)
	return string(quoted[1 : len(quoted)-1])
}

// NullableTime is a time that is null when it is 0.
func NullableTime(unixMilli int64) *string {
	if unixMilli == 0 {
		return nil
	}
	return Nullable(Time(unixMilli))
}

// AppendTimeOrNull writes a time, null for 0.
func AppendTimeOrNull(dst []byte, label string, unixMilli int64) []byte {
	dst = append(dst, label...)
	if unixMilli == 0 {
		return append(dst, "null"...)
	}
	return wire.AppendTime(dst, unixMilli)
}

// The schemas are the wire records as data types: the API document is made from them, and tests hold what is served against it.
// What is served never passes through them.

// USD is nano-dollars, on the wire a number of dollars.
type USD int64

// ISOTime is Unix milliseconds, on the wire ISO 8601 with milliseconds and Z.
type ISOTime int64

// Described implements openapi.Described.
func (USD) Described() (value any, nullable bool) { return float64(0), false }

// BudgetSchema describes a budget.
type BudgetSchema struct {
	MaxCostUSD USD    `json:"max_cost_usd"`
	OnReach    string `json:"on_reach,omitempty" enum:"pause,stop" doc:"pause when left out"`
}
