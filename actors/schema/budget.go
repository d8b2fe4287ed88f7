package schema

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	// maxSteps bounds the steps of one check of a value. A step takes some 20 to 80 ns.
	maxSteps = 4_000_000
	// Of ValidateBriefly.
	maxBriefSteps    = 20_000
	maxBriefPatterns = 2_000
	// lookEvery is after how many steps the context is looked at.
	lookEvery = 20_000

	evaluation  = 4  // steps for evaluating a subschema at a value
	chainLooks  = 32 // schemas for the same value that are looked through in a step, for cycles
	bytesLooked = 64 // of a text in a step
	comparisons = 8  // of other values than numbers in a step
)

// budget is what a check may still take. The library has no limits, and evaluates what is valid by itself without asking anyone. So
// each subschema pays, before it descends, for all that it will evaluate directly; a pattern pays for each match. What cannot
// be paid ends the check at once: with subschemas that refer to each other, a text of a few hundred bytes can make the number
// double at each level.
type budget struct {
	stopped func() error
	left    int
	unseen  int // steps since the context was looked at
}

// over ends a check from inside the library.
type over struct{ err error }

func (b *budget) spend(steps int) {
	if b.left -= min(steps, maxSteps+1); b.left < 0 {
		panic(over{ErrTooComplex}) //nolint:forbidigo // the library has no other way out of a check; within recovers
	}
	if b.unseen += steps; b.unseen < lookEvery {
		return
	}
	b.unseen = 0
	if err := b.stopped(); err != nil {
		panic(over{err}) //nolint:forbidigo // as above
	}
}

// within checks a value within the budget.
func (b *budget) within(ctx context.Context, of *compiled, value any, held *survey) (err error) {
	b.stopped = ctx.Err
	defer func() {
		switch caught := recover().(type) {
		case nil:
		case over:
			err = caught.err
		default:
			panic(caught) //nolint:forbidigo // a defect of the library stays one
		}
	}()
	of.patterns.budget = b
	b.charge(of.schema, held)
	return of.schema.Validate(value)
}

// charge makes every reachable subschema pay. The library asks for the format of a value before it descends.
func (b *budget) charge(root *jsonschema.Schema, held *survey) {
	p := &prices{all: map[*jsonschema.Schema]bool{}, number: held.number}
	reach(root, p.all)
	for one := range p.all {
		if len(selves(one)) > 0 {
			p.chain++
		}
		p.unevaluated = p.unevaluated || one.UnevaluatedItems != nil || one.UnevaluatedProperties != nil
	}
	b.spend(len(p.all) + p.of(root))
	for one := range p.all {
		b.hook(one, p)
	}
}

// hook makes a subschema pay for its direct evaluations.
func (b *budget) hook(one *jsonschema.Schema, p *prices) {
	if one.UniqueItems {
		one.UniqueItems = false
		one.Extensions = append(one.Extensions, &unique{b})
	}
	self := p.sum(selves(one))
	rounds := 0 // over the names or items of a value, to note which ones are evaluated
	if p.unevaluated {
		rounds = 1 + len(selves(one))
	}
	perName, perObject := p.object(one)
	perItem, perList := p.list(one)
	format := one.Format
	paying := &jsonschema.Format{Name: "counting"}
	if format != nil {
		paying.Name = format.Name
	}
	paying.Validate = func(value any) error {
		steps := self
		switch value := value.(type) {
		case map[string]any:
			steps += perObject + len(value)*(perName+rounds)
		case []any:
			steps += perList + len(value)*(perItem+rounds)
		case string:
			steps += len(value) / bytesLooked
		case json.Number:
			steps += 3 * numberSteps(value.String())
		}
		b.spend(steps)
		if format != nil {
			return format.Validate(value)
		}
		return nil
	}
	one.Format = paying
}

// prices are upper bounds for evaluating subschemas, without what they evaluate themselves.
type prices struct {
	all         map[*jsonschema.Schema]bool
	number      int  // for reading the number of the value that takes longest
	chain       int  // subschemas that may follow each other for the same value
	unevaluated bool // some subschema asks what the others have left
}

func (p *prices) of(one *jsonschema.Schema) int {
	if one == nil {
		return 0
	}
	price := evaluation + p.chain/chainLooks
	if one.Types != nil && slices.Contains(one.Types.ToStrings(), "integer") {
		price += p.number
	}
	if one.Enum != nil {
		price += p.comparing(one.Enum.Values)
	}
	if one.Const != nil {
		price += p.comparing(*one.Const)
	}
	return price
}

func (p *prices) sum(some []*jsonschema.Schema) (price int) {
	for _, one := range some {
		price += p.of(one)
	}
	return price
}

// comparing is the price of comparing a value with another: numbers are read exactly.
func (p *prices) comparing(with any) int {
	numbers, others := count(with, p.number)
	return numbers + others/comparisons + 1
}

func count(value any, number int) (numbers, others int) {
	switch value := value.(type) {
	case json.Number:
		return number + numberSteps(value.String()), 0
	case []any:
		for _, one := range value {
			n, o := count(one, number)
			numbers, others = numbers+n, others+o
		}
	case map[string]any:
		for _, one := range value {
			n, o := count(one, number)
			numbers, others = numbers+n, others+o
		}
	case string:
		others = len(value) / bytesLooked
	}
	return numbers, others + 1
}

// object returns the price of each name of an object, and of the object.
func (p *prices) object(of *jsonschema.Schema) (perName, once int) {
	for _, one := range of.Properties {
		perName = max(perName, p.of(one))
	}
	for _, one := range of.PatternProperties {
		perName += p.of(one)
	}
	perName += 1 + p.additional(of.AdditionalProperties) + p.of(of.UnevaluatedProperties)
	if of.PropertyNames != nil {
		perName += evaluation + p.of(of.PropertyNames)
	}
	once = len(of.Required) + len(of.Dependencies) + len(of.DependentSchemas) + len(of.DependentRequired)
	for _, one := range of.DependentRequired {
		once += len(one)
	}
	for _, one := range of.Dependencies {
		if names, are := one.([]string); are {
			once += len(names)
		}
	}
	return perName, once
}

// list returns the price of each item of a list, and of the list.
func (p *prices) list(of *jsonschema.Schema) (perItem, once int) {
	perItem = p.additional(of.AdditionalItems) + p.of(of.Contains) + p.of(of.Items2020) + p.of(of.UnevaluatedItems)
	if firsts, are := of.Items.([]*jsonschema.Schema); are {
		once = p.sum(firsts)
	} else {
		perItem += p.additional(of.Items)
	}
	return perItem, once + p.sum(of.PrefixItems)
}

func (p *prices) additional(value any) int {
	one, _ := value.(*jsonschema.Schema)
	return p.of(one)
}

// selves are the subschemas that are evaluated at the same value.
func selves(of *jsonschema.Schema) (some []*jsonschema.Schema) {
	for _, one := range []*jsonschema.Schema{of.Ref, of.RecursiveRef, of.Not, of.If, of.Then, of.Else, of.ContentSchema} {
		if one != nil {
			some = append(some, one)
		}
	}
	if of.DynamicRef != nil && of.DynamicRef.Ref != nil {
		some = append(some, of.DynamicRef.Ref)
	}
	some = slices.Concat(some, of.AllOf, of.AnyOf, of.OneOf)
	for _, one := range of.DependentSchemas {
		some = append(some, one)
	}
	for _, one := range of.Dependencies {
		if dependent, is := one.(*jsonschema.Schema); is {
			some = append(some, dependent)
		}
	}
	return some
}

// reach adds the schema and all schemas reachable from it.
func reach(schema *jsonschema.Schema, all map[*jsonschema.Schema]bool) {
	if schema == nil || all[schema] {
		return
	}
	all[schema] = true
	for _, one := range selves(schema) {
		reach(one, all)
	}
	for _, one := range []*jsonschema.Schema{
		schema.PropertyNames, schema.UnevaluatedProperties, schema.Contains, schema.Items2020, schema.UnevaluatedItems,
	} {
		reach(one, all)
	}
	for _, one := range schema.PrefixItems {
		reach(one, all)
	}
	for _, one := range schema.Properties {
		reach(one, all)
	}
	for _, one := range schema.PatternProperties {
		reach(one, all)
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
