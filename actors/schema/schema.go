// Package schema checks JSON values against JSON Schemas (draft 2020-12 unless the schema names an older one). It is
// pure and bounded: references cannot leave the schema, sizes, depths and patterns are limited, and a check of a value ends after a
// number of steps, or with its context. It keeps no state between calls.
//
// A check takes up to some tenths of a second, so rules do not make one: who sends them a command does.
package schema

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	// A complete implementation of the drafts: references, conditionals, unevaluated properties.
	"github.com/santhosh-tekuri/jsonschema/v6"

	"parley/actors/core/pattern"
)

// Limits of schemas and values.
const (
	MaxSchemaBytes = 256 << 10
	MaxValueBytes  = 1 << 20
	MaxDepth       = 64 // of nested arrays and objects, in schema and value
	// MaxBriefBytes bounds schema and value of ValidateBriefly.
	MaxBriefBytes = 8 << 10
)

// ErrTooComplex is returned when checking the value would take too long, or the schema or the value is too large or
// too deep.
var ErrTooComplex = errors.New("too complex to check")

// location is the schema's URL inside the library. Without a scheme the library would look up the working directory.
const location = "parley:///schema"

// Checker checks the schemas of one document: a request, an agent, the list of a server. What their patterns and their sizes cost
// counts together. The zero value is ready. It is not safe for concurrent use.
type Checker struct {
	patterns pattern.Allowance
	work     int // squares of the numbers of values
}

// Check reports whether the text is a usable schema. An empty text is.
func (c *Checker) Check(schema []byte) error {
	if len(schema) == 0 {
		return nil
	}
	_, err := c.compile(schema)
	return err
}

// Check reports whether the text, a document of its own, is a usable schema. An empty text is.
func Check(schema []byte) error { return new(Checker).Check(schema) }

// Validate checks a value, one JSON text, against the schema. An empty schema accepts any JSON object. The error lists
// what is wrong with locations, in at most about a thousand bytes, and may be shown to a model; or it is the context's.
func Validate(ctx context.Context, schema, value []byte) error {
	return new(Checker).validate(ctx, schema, value, &budget{left: maxSteps})
}

// ValidateBriefly is Validate within some milliseconds: what is larger, or takes longer, is too complex.
func ValidateBriefly(schema, value []byte) error {
	if len(schema) > MaxBriefBytes || len(value) > MaxBriefBytes {
		return ErrTooComplex
	}
	brief := Checker{patterns: pattern.NewAllowance(maxBriefPatterns)}
	return brief.validate(context.Background(), schema, value, &budget{left: maxBriefSteps})
}

func (c *Checker) validate(ctx context.Context, schema, value []byte, within *budget) error {
	decoded, held, err := decode(value, MaxValueBytes, false)
	if err != nil {
		return fmt.Errorf("value: %w", err)
	}
	if len(schema) == 0 {
		if _, ok := decoded.(map[string]any); !ok {
			return errors.New("value: want a JSON object")
		}
		return nil
	}
	compiled, err := c.compile(schema)
	if err != nil {
		return err
	}
	err = within.within(ctx, compiled, decoded, held)
	if invalid, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		return errors.New(describe(invalid))
	}
	return err
}

// compiled is a schema for one check.
type compiled struct {
	schema   *jsonschema.Schema
	patterns *engine
}

func (c *Checker) compile(schema []byte) (*compiled, error) {
	decoded, held, err := decode(schema, MaxSchemaBytes, true)
	if err == nil {
		err = held.compilable()
	}
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	if c.work += held.values * held.values; c.work > maxWork {
		return nil, fmt.Errorf("schema: %w: the document's schemas are too large together", ErrTooComplex)
	}
	patterns := &engine{allowed: &c.patterns, known: map[string]*metered{}}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(nowhere{}) // the library's own reads files of this machine
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.UseRegexpEngine(patterns.compile)
	if err = compiler.AddResource(location, decoded); err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	made, err := compiler.Compile(location)
	if patterns.refused != nil {
		return nil, patterns.refusal(err)
	}
	if wrong, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
		if invalid, ok := errors.AsType[*jsonschema.ValidationError](wrong.Err); ok {
			return nil, fmt.Errorf("schema: %s", describe(invalid))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("schema: %s", shorten(err.Error()))
	}
	return &compiled{made, patterns}, nil
}

// nowhere is the loader of what a schema refers to outside its text: nothing is, whoever wrote it.
type nowhere struct{}

var errOutside = errors.New("references cannot leave the schema")

// Load implements jsonschema.URLLoader.
func (nowhere) Load(string) (any, error) { return nil, errOutside }

// decode parses one JSON text and looks at what it holds.
func decode(text []byte, maxBytes int, ofSchema bool) (value any, held *survey, err error) {
	if len(text) > maxBytes {
		return nil, nil, fmt.Errorf("%w: more than %d bytes", ErrTooComplex, maxBytes)
	}
	if !utf8.Valid(text) {
		return nil, nil, errors.New("not valid UTF-8")
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err = decoder.Decode(&value); err != nil {
		return nil, nil, errors.New("not valid JSON")
	}
	if _, err = decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, nil, errors.New("not valid JSON: text after the value")
	}
	held = &survey{ofSchema: ofSchema}
	return value, held, held.look(value, MaxDepth, 0)
}
