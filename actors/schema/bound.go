package schema

import (
	"errors"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	// evaluationsPerValue is how many subschemas may be evaluated for each value of a document, on average.
	evaluationsPerValue = 64
	minEvaluations      = 20_000
	// maxComparisons bounds values times the longest enum or list of patterns.
	maxComparisons = 4_000_000
)

// bound counts the evaluations of subschemas in one check. With subschemas that refer to each other, a text of a few
// hundred bytes can make the number double at each level.
type bound struct {
	left int
}

// limit makes every subschema count its evaluations, and fail when there have been too many. The library has no such
// limit, but it checks the format of a subschema before it descends.
func limit(schema *jsonschema.Schema, nodes int) *bound {
	b := &bound{left: max(minEvaluations, evaluationsPerValue*nodes)}
	all := map[*jsonschema.Schema]bool{}
	reach(schema, all)
	for one := range all {
		longest := len(one.PatternProperties)
		if one.Enum != nil {
			longest = max(longest, len(one.Enum.Values))
		}
		if longest*nodes > maxComparisons {
			b.left = 0
		}
		one.Format = b.count(one.Format)
	}
	return b
}

var errTired = errors.New("given up")

func (b *bound) count(format *jsonschema.Format) *jsonschema.Format {
	counting := &jsonschema.Format{Name: "counting"}
	if format != nil {
		counting.Name = format.Name
	}
	counting.Validate = func(value any) error {
		if b.left--; b.left <= 0 {
			return errTired
		}
		if format != nil {
			return format.Validate(value)
		}
		return nil
	}
	return counting
}

// reach adds the schema and all schemas reachable from it.
func reach(schema *jsonschema.Schema, all map[*jsonschema.Schema]bool) {
	if schema == nil || all[schema] {
		return
	}
	all[schema] = true
	for _, one := range []*jsonschema.Schema{
		schema.Ref, schema.RecursiveRef, schema.Not, schema.If, schema.Then, schema.Else, schema.PropertyNames,
		schema.UnevaluatedProperties, schema.Contains, schema.Items2020, schema.UnevaluatedItems, schema.ContentSchema,
	} {
		reach(one, all)
	}
	if schema.DynamicRef != nil {
		reach(schema.DynamicRef.Ref, all)
	}
	for _, list := range [][]*jsonschema.Schema{schema.AllOf, schema.AnyOf, schema.OneOf, schema.PrefixItems} {
		for _, one := range list {
			reach(one, all)
		}
	}
	for _, one := range schema.Properties {
		reach(one, all)
	}
	for _, one := range schema.PatternProperties {
		reach(one, all)
	}
	for _, one := range schema.DependentSchemas {
		reach(one, all)
	}
	for _, one := range schema.Dependencies {
		reachAny(one, all)
	}
	reachAny(schema.AdditionalProperties, all)
	reachAny(schema.Items, all)
	reachAny(schema.AdditionalItems, all)
}

// reachAny is reach for keywords that are not always schemas.
func reachAny(value any, all map[*jsonschema.Schema]bool) {
	switch value := value.(type) {
	case *jsonschema.Schema:
		reach(value, all)
	case []*jsonschema.Schema:
		for _, one := range value {
			reach(one, all)
		}
	}
}
