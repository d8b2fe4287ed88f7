package expression

import (
	"errors"
	"fmt"

	"parley/actors/core/pattern"
)

// maxPattern bounds a pattern: matching takes up to its instructions times the length of the text.
const maxPattern = 500

// match pays for each byte of the text as often as the pattern may examine it.
func match(m *meter, args []any) (any, error) {
	wanted, isPattern := args[1].(*pattern.Pattern)
	if !isPattern {
		return nil, errors.New("matches needs a pattern that is written out")
	}
	size := 0
	switch text := args[0].(type) {
	case string:
		size = len(text)
	case []byte:
		size = len(text)
	}
	if err := m.spend(wanted.Steps(size)); err != nil {
		return nil, err
	}
	switch text := args[0].(type) {
	case nil:
		return false, nil
	case string:
		return wanted.MatchString(text), nil
	case []byte:
		return wanted.Match(text), nil
	default:
		return nil, fmt.Errorf("matches needs a text, not %T", args[0])
	}
}
