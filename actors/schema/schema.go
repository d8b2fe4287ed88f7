// Package schema checks JSON values against JSON Schemas (draft 2020-12 unless the schema names an older one). It is
// pure and bounded: references cannot leave the schema, sizes and depths are limited, and the evaluation of a schema
// that would explode (references that double at each level) is aborted. It keeps no state between calls, so anything
// may call it, including the rules.
package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	// A complete implementation of the drafts: references, conditionals, unevaluated properties.
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Limits of schemas and values.
const (
	MaxSchemaBytes = 256 << 10
	MaxValueBytes  = 1 << 20
	MaxDepth       = 64 // of nested arrays and objects, in schema and value

	maxSchemaValues = 10_000 // in the schema's text; the library's compiler takes quadratic time
)

// ErrTooComplex is returned when checking the value would take too long, or the schema or the value is too large or
// too deep.
var ErrTooComplex = errors.New("too complex to check")

// location is the schema's URL inside the library. Without a scheme the library would look up the working directory.
const location = "parley:///schema"

// Check reports whether the text is a usable schema. An empty text is.
func Check(schema []byte) error {
	if len(schema) == 0 {
		return nil
	}
	_, err := compile(schema)
	return err
}

// Validate checks a value, one JSON text, against the schema. An empty schema accepts any JSON object. The error lists
// what is wrong with locations, in at most about a thousand bytes, and may be shown to a model.
func Validate(schema, value []byte) error {
	decoded, nodes, err := decode(value, MaxValueBytes)
	if err != nil {
		return fmt.Errorf("value: %w", err)
	}
	if len(schema) == 0 {
		if _, ok := decoded.(map[string]any); !ok {
			return errors.New("value: want a JSON object")
		}
		return nil
	}
	compiled, err := compile(schema)
	if err != nil {
		return err
	}
	bound := limit(compiled, nodes)
	if bound.left <= 0 {
		return ErrTooComplex
	}
	err = compiled.Validate(decoded)
	if bound.left <= 0 {
		return ErrTooComplex
	}
	if invalid, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		return errors.New(describe(invalid))
	}
	return err
}

func compile(schema []byte) (*jsonschema.Schema, error) {
	decoded, nodes, err := decode(schema, MaxSchemaBytes)
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	if nodes > maxSchemaValues || dynamic(decoded) {
		return nil, fmt.Errorf("schema: %w", ErrTooComplex)
	}
	compiler := jsonschema.NewCompiler() // has no loader: nothing outside the text is loaded
	compiler.DefaultDraft(jsonschema.Draft2020)
	if err = compiler.AddResource(location, decoded); err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	compiled, err := compiler.Compile(location)
	if wrong, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
		if invalid, ok := errors.AsType[*jsonschema.ValidationError](wrong.Err); ok {
			return nil, fmt.Errorf("schema: %s", describe(invalid))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("schema: %s", shorten(err.Error()))
	}
	return compiled, nil
}

// dynamic reports whether a schema uses references that are resolved during validation: no tool needs them, and they
// cannot be bounded.
func dynamic(schema any) bool {
	switch schema := schema.(type) {
	case map[string]any:
		for key, child := range schema {
			if key == "$dynamicAnchor" || key == "$dynamicRef" || key == "$recursiveRef" || dynamic(child) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(schema, dynamic)
	}
	return false
}

// decode parses one JSON text and counts its values.
func decode(text []byte, maxBytes int) (value any, nodes int, err error) {
	if len(text) > maxBytes {
		return nil, 0, fmt.Errorf("%w: more than %d bytes", ErrTooComplex, maxBytes)
	}
	if !utf8.Valid(text) {
		return nil, 0, errors.New("not valid UTF-8")
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err = decoder.Decode(&value); err != nil {
		return nil, 0, errors.New("not valid JSON")
	}
	if _, err = decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, 0, errors.New("not valid JSON: text after the value")
	}
	nodes, err = measure(value, MaxDepth)
	return value, nodes, err
}

// measure counts the values and refuses those that would overload the library.
func measure(value any, depth int) (nodes int, err error) {
	if depth == 0 {
		return 0, fmt.Errorf("%w: nested deeper than %d", ErrTooComplex, MaxDepth)
	}
	nodes = 1
	add := func(child any) bool {
		var n int
		n, err = measure(child, depth-1)
		nodes += n
		return err == nil
	}
	switch value := value.(type) {
	case map[string]any:
		for _, child := range value {
			if !add(child) {
				return 0, err
			}
		}
	case []any:
		for _, child := range value {
			if !add(child) {
				return 0, err
			}
		}
	case json.Number:
		return 1, checkNumber(value.String())
	}
	return nodes, nil
}

// checkNumber refuses numbers whose exact form, which the library computes, is huge: 1e999999.
func checkNumber(text string) error {
	const maxDigits, maxExponent = 400, 400
	mantissa, exponent := text, 0
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		var err error
		mantissa = text[:i]
		if exponent, err = strconv.Atoi(text[i+1:]); err != nil {
			exponent = maxExponent + 1
		}
	}
	if len(mantissa) > maxDigits || exponent > maxExponent || exponent < -maxExponent {
		return fmt.Errorf("%w: a number is too large", ErrTooComplex)
	}
	return nil
}
