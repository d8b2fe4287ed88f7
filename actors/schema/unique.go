package schema

import (
	"encoding/json"
	"maps"
	"math/big"
	"slices"
	"strconv"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// unique is uniqueItems. The library compares all items whose hashes are equal, and its hashes can be made equal: lists of thousands
// of texts take quadratic time.
type unique struct{ budget *budget }

// Validate implements jsonschema.SchemaExt.
func (u *unique) Validate(ctx *jsonschema.ValidatorContext, value any) {
	items, isList := value.([]any)
	if !isList || len(items) < 2 {
		return
	}
	first := make(map[string]int, len(items))
	var text []byte
	for i, item := range items {
		text = u.canonical(text[:0], item)
		if earlier, known := first[string(text)]; known {
			ctx.AddError(&kind.UniqueItems{Duplicates: [2]int{earlier, i}})
			return
		}
		first[string(text)] = i
	}
}

// canonical appends a text that is the same for equal values only.
func (u *unique) canonical(dst []byte, value any) []byte {
	switch value := value.(type) {
	case nil:
		dst = append(dst, 'n')
	case bool:
		dst = strconv.AppendBool(dst, value)
	case string:
		u.budget.spend(len(value) / bytesLooked)
		dst = append(strconv.AppendInt(append(dst, '"'), int64(len(value)), 10), ':')
		dst = append(dst, value...)
	case json.Number:
		u.budget.spend(numberSteps(value.String()))
		if exact, is := new(big.Rat).SetString(value.String()); is {
			dst = append(append(dst, exact.RatString()...), ';')
		}
	case []any:
		dst = append(strconv.AppendInt(append(dst, '['), int64(len(value)), 10), ':')
		for _, item := range value {
			dst = u.canonical(dst, item)
		}
	case map[string]any:
		u.budget.spend(len(value))
		dst = append(strconv.AppendInt(append(dst, '{'), int64(len(value)), 10), ':')
		for _, name := range slices.Sorted(maps.Keys(value)) {
			dst = u.canonical(u.canonical(dst, name), value[name])
		}
	}
	u.budget.spend(evaluation)
	return dst
}
