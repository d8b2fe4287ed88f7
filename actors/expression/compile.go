package expression

import (
	"errors"
	"fmt"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/checker"
	"github.com/expr-lang/expr/compiler"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/vm"
)

const (
	// maxSource bounds an expression, in bytes.
	maxSource = 8 << 10
	// maxNodes bounds the nodes of an expression: names, values, operators, calls.
	maxNodes = 1000
	// maxDepth bounds their nesting. `a or b or c` is nested, too.
	maxDepth = 250
	// maxText bounds the text of an error.
	maxText = 500
)

// Program is a compiled expression. It can be evaluated any number of times, also concurrently.
type Program struct {
	code *vm.Program
}

// Condition compiles an expression with a boolean result over named values: names maps each name to a value of its
// type. The error is for the expression's author.
func Condition(source string, names map[string]any) (*Program, error) {
	return compile(source, names, expr.AsBool())
}

// Approval compiles the condition under which a call of a tool needs a person's approval. It is over args, the
// arguments of the call.
func Approval(source string) (*Program, error) {
	return Condition(source, map[string]any{"args": map[string]any{}})
}

// compile is expr.Compile without constant folding, and with charges for every part. The types are checked as the
// author wrote them, before anything is inserted.
func compile(source string, names map[string]any, result expr.Option) (*Program, error) {
	if len(source) > maxSource {
		return nil, fmt.Errorf("an expression has at most %d bytes", maxSource)
	}
	config := conf.CreateNew()
	expr.Env(withMeter(names, (*meter)(nil)))(config)
	result(config)
	config.Optimize, config.MaxNodes = false, maxNodes
	install(config)
	tree, err := parser.ParseWithConfig(source, config)
	if err != nil {
		return nil, shortened(err)
	}
	guard := newGuard()
	if err = guard.admit(tree.Node, 0); err != nil {
		return nil, shortened(err)
	}
	if _, err = checker.Check(tree, config); err != nil {
		return nil, shortened(err)
	}
	tree.Node = guard.priced(guard.protect(tree.Node), 0)
	if _, err = checker.Check(tree, config); err != nil {
		return nil, shortened(err)
	}
	code, err := compiler.Compile(tree, config)
	if err != nil {
		return nil, shortened(err)
	}
	return &Program{code: code}, nil
}

// meterName cannot be written in an expression.
const meterName = " meter"

func withMeter(names map[string]any, m *meter) map[string]any {
	all := make(map[string]any, len(names)+1)
	for name, value := range names {
		all[name] = value
	}
	all[meterName] = m
	return all
}

// shortened keeps the first line of an error, which may quote the source or values.
func shortened(err error) error {
	text, _, _ := strings.Cut(err.Error(), "\n")
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + " ..."
	}
	if detail, is := strings.CutPrefix(text, ErrBudget.Error()); is && errors.Is(err, ErrBudget) {
		return fmt.Errorf("%w%s", ErrBudget, detail)
	}
	return errors.New(text)
}

// weightOf returns the cost of evaluating a node once, except for what depends on its operands.
func weightOf(node ast.Node) (steps, bytes int) {
	switch n := node.(type) {
	case *ast.ArrayNode:
		return 1, 64 + 2*elementBytes*len(n.Nodes)
	case *ast.MapNode:
		return 1, 64 + 2*entryBytes*len(n.Pairs)
	case *ast.BuiltinNode:
		return 2, 0
	case *ast.CallNode:
		return 3, 0
	}
	return 1, 0
}
