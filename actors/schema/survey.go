package schema

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// What the library's compiler can be made to do by a schema of some kilobytes.
const (
	maxSchemaValues = 10_000 // in the schema's text; it takes quadratic time
	// maxPathBytes bounds the lengths of the paths to all values together: it makes and copies them for each.
	maxPathBytes = 1 << 20
	// maxTargets bounds values times the places that are only known to be schemas by a reference, and times the schemas with ids:
	// all that it knows is copied, or searched, for each.
	maxTargets = 500_000
	// maxWork bounds the squares of the numbers of values in the schemas of one document: four of the largest.
	maxWork = 4 * maxSchemaValues * maxSchemaValues
)

// survey is what a JSON value holds.
type survey struct {
	values   int
	paths    int             // bytes of the paths to all values
	ids      int             // subschemas with an id of their own
	targets  map[string]bool // of references to elsewhere than definitions
	defs     map[string]bool // of references to $defs
	old      bool            // it is, in part, of a draft that has no $defs
	dynamic  bool            // it has references that are resolved during validation
	number   int             // steps for reading the number that takes longest
	ofSchema bool            // what only schemas have is looked for
}

// look adds up a value at a path of some length and refuses what would overload the library.
func (s *survey) look(value any, depth, path int) (err error) {
	if depth == 0 {
		return fmt.Errorf("%w: nested deeper than %d", ErrTooComplex, MaxDepth)
	}
	s.values++
	s.paths += path
	switch value := value.(type) {
	case map[string]any:
		for key, child := range value {
			if s.ofSchema {
				s.keyword(key, child)
			}
			if err = s.look(child, depth-1, path+1+len(key)+strings.Count(key, "/")+strings.Count(key, "~")); err != nil {
				return err
			}
		}
	case []any:
		for _, child := range value {
			if err = s.look(child, depth-1, path+6); err != nil {
				return err
			}
		}
	case json.Number:
		if err = checkNumber(value.String()); err != nil {
			return err
		}
		s.number = max(s.number, numberSteps(value.String()))
	}
	return nil
}

func (s *survey) keyword(key string, value any) {
	text, isText := value.(string)
	switch key {
	case "$dynamicAnchor", "$dynamicRef", "$recursiveRef":
		s.dynamic = true // no tool needs them, and they cannot be bounded
	case "$id", "id":
		if isText {
			s.ids++
		}
	case "$schema":
		s.old = s.old || strings.Contains(text, "draft-0")
	case "$ref":
		s.reference(text)
	}
}

func (s *survey) reference(to string) {
	if s.targets == nil {
		s.targets, s.defs = map[string]bool{}, map[string]bool{}
	}
	if name, in := strings.CutPrefix(to, "#/$defs/"); in && !strings.Contains(name, "/") {
		s.defs[to] = true
		return
	}
	name, in := strings.CutPrefix(to, "#/definitions/")
	if to != "#" && (!in || strings.Contains(name, "/")) {
		s.targets[to] = true
	}
}

// compilable refuses what the library's compiler would take too long for.
func (s *survey) compilable() error {
	targets := len(s.targets)
	if s.old {
		targets += len(s.defs)
	}
	switch {
	case s.values > maxSchemaValues:
		return fmt.Errorf("%w: more than %d values", ErrTooComplex, maxSchemaValues)
	case s.dynamic:
		return fmt.Errorf("%w: references that are resolved while a value is checked", ErrTooComplex)
	case s.paths > maxPathBytes:
		return fmt.Errorf("%w: long names in many places", ErrTooComplex)
	case s.values*targets > maxTargets:
		return fmt.Errorf("%w: too many references to what is not in $defs", ErrTooComplex)
	case s.values*s.ids > maxTargets:
		return fmt.Errorf("%w: too many schemas with an id", ErrTooComplex)
	}
	return nil
}

// checkNumber refuses numbers whose exact form, which the library computes, is huge: 1e999999.
func checkNumber(text string) error {
	const maxDigits, maxExponent = 400, 400
	mantissa, exponent := exponentOf(text)
	if len(mantissa) > maxDigits || exponent > maxExponent || exponent < -maxExponent {
		return fmt.Errorf("%w: a number is too large", ErrTooComplex)
	}
	return nil
}

func exponentOf(text string) (mantissa string, exponent int) {
	i := strings.IndexAny(text, "eE")
	if i < 0 {
		return text, 0
	}
	exponent, err := strconv.Atoi(text[i+1:])
	if err != nil {
		return text[:i], 1 << 20
	}
	return text[:i], exponent
}

// numberSteps is what reading a number exactly takes.
func numberSteps(text string) int {
	mantissa, exponent := exponentOf(text)
	return 4 + (len(mantissa)+max(exponent, -exponent))/4
}
