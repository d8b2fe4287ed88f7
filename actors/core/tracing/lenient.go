package tracing

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"

	"parley/actors/core/letters"
)

// Text is a string of JSON; a number is taken as it is written, anything else as empty.
type Text string

// UnmarshalJSON implements json.Unmarshaler. It never fails.
func (t *Text) UnmarshalJSON(raw []byte) error {
	var text string
	switch {
	case json.Unmarshal(raw, &text) == nil && string(raw) != "null":
		*t = Text(text)
	case len(raw) > 0 && (raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9'):
		*t = Text(raw)
	}
	return nil
}

// Described is what the API's document shows.
func (Text) Described() (value any, nullable bool) { return "", true }

// Whole is a number of JSON that counts something: rounded down, 0 where it is below that or no number.
type Whole int64

// most is the largest number that is counted, so that sums of many fit.
const most = 1 << 50

// UnmarshalJSON implements json.Unmarshaler. It never fails.
func (w *Whole) UnmarshalJSON(raw []byte) error {
	number, err := strconv.ParseFloat(strings.Trim(string(raw), `"`), 64) // OTLP writes whole numbers as strings
	if err == nil && number > 0 {
		*w = Whole(math.Min(number, most))
	}
	return nil
}

// Described is what the API's document shows.
func (Whole) Described() (value any, nullable bool) { return int64(0), true }

// When is a time of JSON: RFC 3339, or milliseconds since 1970; anything else is none.
type When int64

// lastTime is the last one that is taken: the end of the year 9999.
const lastTime = 253_402_300_799_999

// UnmarshalJSON implements json.Unmarshaler. It never fails.
func (w *When) UnmarshalJSON(raw []byte) error {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
			*w = When(max(0, min(at.UnixMilli(), lastTime)))
		}
		return nil
	}
	if number, err := strconv.ParseFloat(string(raw), 64); err == nil && number > 0 && number <= lastTime {
		*w = When(number)
	}
	return nil
}

// Described is what the API's document shows.
func (When) Described() (value any, nullable bool) { return time.Time{}, true }

// maxPart bounds a part of a report that is decoded as a whole, in bytes: small values take many times their text.
const maxPart = 256 << 10

// Loose is a value of JSON of the type that it should have; anything else, and one that is longer than
// maxPart, is as if it were absent.
type Loose[T any] struct{ Value T }

// UnmarshalJSON implements json.Unmarshaler. It never fails.
func (l *Loose[T]) UnmarshalJSON(raw []byte) error {
	var value T
	if len(raw) <= maxPart && json.Unmarshal(raw, &value) == nil {
		l.Value = value
	}
	return nil
}

// Described is what the API's document shows.
func (Loose[T]) Described() (value any, nullable bool) {
	var like T
	return like, true
}

// cut is a text's beginning of at most so many bytes, in whole characters.
func cut[T ~string](text T, longest int) string {
	return string(letters.Head(text, longest))
}

// document is JSON as it is kept; what is too long is left out, since half of it is none.
func document(raw json.RawMessage, longest int) string {
	if len(raw) > longest || string(raw) == "null" {
		return ""
	}
	return string(raw)
}
