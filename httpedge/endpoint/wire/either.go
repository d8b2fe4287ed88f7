package wire

import "encoding/json"

// TextOr is JSON that is a text, or of another type; who reads it sees which.
type TextOr[Other any] struct{ json.RawMessage }

// Either implements openapi.Either.
func (TextOr[Other]) Either() []any { return []any{"", *new(Other)} }
