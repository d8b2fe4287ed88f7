package schema

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"parley/actors/core/pattern"
)

// engine compiles the patterns of one schema for the library.
type engine struct {
	allowed *pattern.Allowance
	known   map[string]*metered
	refused error   // the first pattern that was too large
	budget  *budget // of the check that goes on; nil = none does
}

var errLater = errors.New("not looked at")

// compile implements jsonschema.RegexpEngine. After a refusal nothing more is looked at: the schema is refused.
func (e *engine) compile(source string) (jsonschema.Regexp, error) {
	if known := e.known[source]; known != nil {
		return known, nil
	}
	if e.refused != nil {
		return nil, errLater
	}
	compiled, err := pattern.Compile(source, pattern.MaxSize, e.allowed)
	if err != nil {
		if errors.Is(err, pattern.ErrTooLarge) && e.budget == nil {
			e.refused = err
		}
		return nil, err
	}
	made := &metered{Pattern: compiled, engine: e}
	if e.budget == nil { // a value that is a pattern itself (format: regex) is not kept
		e.known[source] = made
	}
	return made, nil
}

// metered is a pattern that pays for its matches.
type metered struct {
	*pattern.Pattern
	engine *engine
}

// MatchString implements jsonschema.Regexp.
func (m *metered) MatchString(text string) bool {
	if m.engine.budget != nil {
		m.engine.budget.spend(m.Steps(len(text)))
	}
	return m.Pattern.MatchString(text)
}

// refusal is the error for a pattern that was too large, with its place in the schema.
func (e *engine) refusal(err error) error {
	place := ""
	if invalid, is := errors.AsType[*jsonschema.InvalidRegexError](err); is {
		_, place, _ = strings.Cut(invalid.URL, "#")
		if strings.HasSuffix(place, "/patternProperties") {
			place += "/" + invalid.Regex
		}
	} else if wrong, is := errors.AsType[*jsonschema.SchemaValidationError](err); is {
		if invalid, is := errors.AsType[*jsonschema.ValidationError](wrong.Err); is {
			_, place, _ = strings.Cut(wrong.URL, "#")
			place += e.placeOf(invalid)
		}
	}
	return fmt.Errorf("schema: %w: at '%s': %w", ErrTooComplex, shorten(place), e.refused)
}

// placeOf finds the pattern among the findings of the drafts' own schemas, which check patterns, too.
func (e *engine) placeOf(invalid *jsonschema.ValidationError) string {
	if format, is := invalid.ErrorKind.(*kind.Format); is && errors.Is(format.Err, e.refused) {
		return pointer(invalid.InstanceLocation)
	}
	for _, cause := range invalid.Causes {
		place := e.placeOf(cause)
		if place == "" {
			continue
		}
		if named, is := invalid.ErrorKind.(*kind.PropertyNames); is { // its causes do not know where they are
			return pointer(append(slices.Clone(invalid.InstanceLocation), named.Property))
		}
		return place
	}
	return ""
}

func pointer(to []string) string {
	place := ""
	for _, name := range to {
		place += "/" + strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
	}
	return cmp.Or(place, "/")
}
