// Package pattern is the one door for regular expressions that come from outside: of JSON Schemas, of expressions, of whatever a
// stranger may write. The standard library bounds what matching takes (size times text), but not the size itself: `a{1000}b{1000}`
// of some kilobytes expands to 128 MB, and one class with case folding takes milliseconds to be read. Here the size is found before
// anything is expanded, and the patterns of one document share an Allowance. It is pure.
//
// TestPatternsHaveOneDoor, at the root of the repository, finds code that compiles text from elsewhere without this package.
package pattern

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// Limits of patterns.
const (
	// MaxBytes bounds the text of one pattern.
	MaxBytes = 4 << 10
	// MaxSize bounds the size of one pattern.
	MaxSize = 10_000
	// MaxTotal bounds what the patterns of one document cost together: 200 to 500 bytes each while they are compiled.
	MaxTotal = 40_000
)

// What reading some parts costs, before their size is known.
const (
	readClass    = 100    // \pL: a table of hundreds of ranges
	readWideFold = 10_000 // a range of a class beyond ASCII under (?i): each character of it is folded
	rangesPerOne = 16     // of a class, that cost as much as an instruction
	looksPerStep = 8
)

// ErrTooLarge is the error of patterns that are too large, alone or together.
var ErrTooLarge = errors.New("too large")

// Allowance is what the patterns of one document may still cost. The zero value is a whole one, of MaxTotal. It is not safe for
// concurrent use.
type Allowance struct{ spent int }

// NewAllowance returns a smaller one.
func NewAllowance(total int) Allowance { return Allowance{spent: MaxTotal - total} }

func (a *Allowance) spend(cost int) error {
	if a.spent = min(a.spent, MaxTotal) + min(cost, MaxTotal+1); a.spent > MaxTotal {
		return fmt.Errorf("the patterns of the document are %w together: at most %d instructions", ErrTooLarge, MaxTotal)
	}
	return nil
}

// Pattern is a compiled regular expression. It is safe for concurrent use.
type Pattern struct {
	compiled *regexp.Regexp
	size     int
}

// Compile compiles a pattern of at most so many instructions out of a document's allowance. The error is for the author.
func Compile(source string, maxSize int, from *Allowance) (*Pattern, error) {
	if len(source) > MaxBytes {
		return nil, fmt.Errorf("the pattern is %w: %d bytes, at most %d", ErrTooLarge, len(source), MaxBytes)
	}
	if err := from.spend(toRead(source)); err != nil {
		return nil, err
	}
	parsed, err := syntax.Parse(source, syntax.Perl)
	if err != nil {
		return nil, err
	}
	size := measure(parsed)
	if size.instructions > maxSize {
		return nil, fmt.Errorf("the pattern is %w: some %d instructions, at most %d", ErrTooLarge, size.instructions, maxSize)
	}
	if err = from.spend(size.cost); err != nil {
		return nil, err
	}
	compiled, err := regexp.Compile(source)
	if err != nil {
		return nil, err
	}
	return &Pattern{compiled: compiled, size: size.instructions}, nil
}

// toRead is the cost of parsing, which expands classes.
func toRead(source string) int {
	cost := 1 + len(source)/rangesPerOne
	cost += readClass * (strings.Count(source, `\p`) + strings.Count(source, `\P`))
	if folds(source) {
		cost += readWideFold * wideRanges(source)
	}
	return cost
}

// folds reports whether a pattern may have (?i), also among other flags.
func folds(source string) bool {
	for {
		_, flags, found := strings.Cut(source, "(?")
		if !found {
			return false
		}
		end := strings.IndexAny(flags, ":)")
		if end < 0 {
			end = len(flags)
		}
		if strings.Contains(flags[:end], "i") {
			return true
		}
		source = flags
	}
}

// wideRanges counts what may be a range to a character beyond ASCII.
func wideRanges(source string) (count int) {
	for {
		_, rest, found := strings.Cut(source, "-")
		if !found {
			return count
		}
		if strings.HasPrefix(rest, `\x{`) || rest != "" && rest[0] >= utf8.RuneSelf {
			count++
		}
		source = rest
	}
}

// size is an upper bound of a compiled pattern.
type size struct {
	instructions int // matching takes up to these times the length of the text
	cost         int // instructions, with the tables of the classes that each has
}

// measure estimates. The depth of the parsed expression is bounded.
func measure(of *syntax.Regexp) size {
	all := size{1, 1}
	switch of.Op { //nolint:exhaustive // the others are of one instruction, and their parts
	case syntax.OpLiteral:
		all = size{len(of.Rune), len(of.Rune)}
	case syntax.OpCharClass:
		all.cost += len(of.Rune) / rangesPerOne
	}
	for _, part := range of.Sub {
		one := measure(part)
		all.instructions += one.instructions
		all.cost += one.cost
	}
	if of.Op == syntax.OpRepeat {
		times := max(of.Min, of.Max, 1)
		all.instructions = product(all.instructions+1, times)
		all.cost = product(all.cost+1, times)
	}
	all.instructions++
	all.cost++
	return all
}

// product multiplies two numbers that an attacker may have chosen; an overflow becomes more than any limit.
func product(a, b int) int {
	const tooMuch = 1 << 40
	if a > tooMuch/b {
		return tooMuch
	}
	return a * b
}

// Steps is what matching a text of some length may take, in steps of some 50 to 100 ns.
func (p *Pattern) Steps(length int) int { return 1 + p.size*length/looksPerStep }

// MatchString reports whether a text contains a match.
func (p *Pattern) MatchString(text string) bool { return p.compiled.MatchString(text) }

// Match is MatchString for bytes.
func (p *Pattern) Match(text []byte) bool { return p.compiled.Match(text) }

// String returns the source.
func (p *Pattern) String() string { return p.compiled.String() }
