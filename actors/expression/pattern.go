package expression

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
)

// maxPattern bounds a pattern: matching takes up to its instructions times the length of the text.
const maxPattern = 500

// pattern is a regular expression with its cost.
type pattern struct {
	compiled *regexp.Regexp
	size     int // approximate number of instructions
}

// compilePattern checks the size before it compiles: ((a{100}){10}|…) of a few kilobytes would have hundreds of
// thousands of instructions.
func compilePattern(source string) (*pattern, error) {
	parsed, err := syntax.Parse(source, syntax.Perl)
	if err != nil {
		return nil, err
	}
	size := instructions(parsed)
	if size > maxPattern {
		return nil, fmt.Errorf("the pattern is too large: some %d instructions, at most %d", size, maxPattern)
	}
	compiled, err := regexp.Compile(source)
	if err != nil {
		return nil, err
	}
	return &pattern{compiled: compiled, size: size}, nil
}

// instructions estimates an upper bound. The depth of the parsed expression is bounded.
func instructions(of *syntax.Regexp) int {
	size := 1
	if of.Op == syntax.OpLiteral {
		size = len(of.Rune)
	}
	for _, part := range of.Sub {
		size += instructions(part)
	}
	if of.Op == syntax.OpRepeat {
		size = product(size+1, max(of.Min, of.Max, 1))
	}
	return size + 1
}

// match pays for each byte of the text as often as the pattern may examine it.
func match(m *meter, args []any) (any, error) {
	wanted, isPattern := args[1].(*pattern)
	if !isPattern {
		return nil, errors.New("matches needs a pattern that is written out")
	}
	const looksPerStep = 8
	size := 0
	switch text := args[0].(type) {
	case string:
		size = len(text)
	case []byte:
		size = len(text)
	}
	if err := m.spend(1 + product(wanted.size, size)/looksPerStep); err != nil {
		return nil, err
	}
	switch text := args[0].(type) {
	case nil:
		return false, nil
	case string:
		return wanted.compiled.MatchString(text), nil
	case []byte:
		return wanted.compiled.Match(text), nil
	default:
		return nil, fmt.Errorf("matches needs a text, not %T", args[0])
	}
}
