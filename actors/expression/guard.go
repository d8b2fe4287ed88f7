package expression

import (
	"errors"
	"fmt"
	"slices"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/builtin"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/vm/runtime"

	"parley/actors/core/pattern"
)

// function is a function of the language.
type function = func(args ...any) (any, error)

// paid is a function that pays from the evaluation's budget.
type paid = func(m *meter, args []any) (any, error)

// first returns a function that pays, then calls.
func first(pay charge, call function) paid {
	return func(m *meter, args []any) (any, error) {
		if err := pay(m, args); err != nil {
			return nil, err
		}
		return call(args...)
	}
}

// install adds the functions that protect inserts. Their names cannot be written in an expression.
func install(config *conf.Config) {
	define := func(name string, call paid, types ...any) {
		expr.Function(" "+name, func(args ...any) (any, error) {
			m, isMeter := args[0].(*meter)
			if !isMeter {
				return nil, fmt.Errorf("%s without a meter", name)
			}
			return call(m, args[1:])
		}, types...)(config)
	}
	verdict := new(func(any, any, any) bool)
	define("tick", tick)
	define("scalar", scalar)
	define("key", key)
	define("matches", match, verdict)
	define("..", span, new(func(any, any, any) []int))
	define("==", first(compare, equal), verdict)
	define("in", first(compare, in), verdict)
	define("+", first(add, func(args ...any) (any, error) { return runtime.Add(args[0], args[1]), nil }))
	for name, call := range map[string]func(a, b any) bool{
		"<": runtime.Less, "<=": runtime.LessOrEqual, ">": runtime.More, ">=": runtime.MoreOrEqual,
	} {
		define(name, first(order, func(args ...any) (any, error) { return call(args[0], args[1]), nil }), verdict)
	}
	for operator, named := range map[string]string{"contains": "indexOf", "startsWith": "hasPrefix", "endsWith": "hasSuffix"} {
		call := original(named)
		define(operator, first(search, func(args ...any) (any, error) {
			if args[0] == nil || args[1] == nil {
				return false, nil
			}
			found, err := call(args...)
			if position, isPosition := found.(int); isPosition {
				return position >= 0, err
			}
			return found, err
		}), verdict)
	}
	for name, pay := range charges() {
		if pay != nil {
			define(name, first(pay, original(name)))
		}
	}
}

// original returns the language's own function.
func original(name string) function {
	at, known := builtin.Index[name]
	if !known {
		return func(...any) (any, error) { return nil, fmt.Errorf("there is no function %s", name) }
	}
	switch of := builtin.Builtins[at]; {
	case of.Fast != nil:
		return func(args ...any) (any, error) { return of.Fast(args[0]), nil }
	case of.Safe != nil:
		return func(args ...any) (any, error) {
			made, _, err := of.Safe(args...)
			return made, err
		}
	default:
		return of.Func
	}
}

// guard makes the parts of one expression pay for their evaluation.
type guard struct {
	charges  map[string]charge
	closures map[string]int
	methods  []string
	patterns map[string]*pattern.Pattern
	allowed  pattern.Allowance // what the patterns of the expression may cost together
}

func newGuard() *guard {
	return &guard{charges: charges(), closures: closures(), methods: methods(), patterns: map[string]*pattern.Pattern{}}
}

// admit refuses expressions that cannot be bounded, before anything else traverses the tree.
func (g *guard) admit(node ast.Node, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("the expression is nested deeper than %d", maxDepth)
	}
	switch n := node.(type) {
	case *ast.IdentifierNode:
		if n.Value == "$env" {
			return errors.New("$env cannot be used in an expression")
		}
	case *ast.BuiltinNode:
		_, pays := g.charges[n.Name]
		if _, loops := g.closures[n.Name]; !pays && !loops {
			return fmt.Errorf("the function %s cannot be used in an expression", n.Name)
		}
		if n.Name == "date" && len(n.Arguments) > 2 {
			return errors.New("the function date cannot be used with a time zone in an expression")
		}
	case *ast.CallNode:
		if name, isName := n.Callee.(*ast.IdentifierNode); isName {
			return fmt.Errorf("unknown name %s", name.Value)
		}
		callee, isMember := n.Callee.(*ast.MemberNode)
		if !isMember {
			return fmt.Errorf("%s is no function", n.Callee.String())
		}
		name, isText := callee.Property.(*ast.StringNode)
		if !isText {
			return errors.New("what is called must be written out")
		}
		if !slices.Contains(g.methods, name.Value) {
			return fmt.Errorf("%s cannot be called in an expression", name.Value)
		}
	case *ast.BinaryNode:
		if err := g.admitPattern(n); err != nil {
			return err
		}
	}
	for _, part := range parts(node) {
		if err := g.admit(*part, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (g *guard) admitPattern(n *ast.BinaryNode) error {
	if n.Operator != "matches" {
		return nil
	}
	text, isText := n.Right.(*ast.StringNode)
	if !isText {
		return errors.New("the pattern of matches must be written out: it cannot be computed")
	}
	compiled, err := pattern.Compile(text.Value, maxPattern, &g.allowed)
	g.patterns[text.Value] = compiled
	return err
}

// parts returns the direct children of a node.
func parts(node ast.Node) []*ast.Node {
	var below []*ast.Node
	add := func(some ...*ast.Node) {
		for _, one := range some {
			if *one != nil {
				below = append(below, one)
			}
		}
	}
	all := func(list []ast.Node) {
		for i := range list {
			add(&list[i])
		}
	}
	switch n := node.(type) {
	case *ast.UnaryNode:
		add(&n.Node)
	case *ast.BinaryNode:
		add(&n.Left, &n.Right)
	case *ast.ChainNode:
		add(&n.Node)
	case *ast.MemberNode:
		add(&n.Node, &n.Property)
	case *ast.SliceNode:
		add(&n.Node, &n.From, &n.To)
	case *ast.CallNode:
		add(&n.Callee)
		all(n.Arguments)
	case *ast.BuiltinNode:
		all(n.Arguments)
	case *ast.PredicateNode:
		add(&n.Node)
	case *ast.VariableDeclaratorNode:
		add(&n.Value, &n.Expr)
	case *ast.SequenceNode:
		all(n.Nodes)
	case *ast.ConditionalNode:
		add(&n.Cond, &n.Exp1, &n.Exp2)
	case *ast.ArrayNode:
		all(n.Nodes)
	case *ast.MapNode:
		all(n.Pairs)
	case *ast.PairNode:
		add(&n.Key, &n.Value)
	}
	return below
}

// protect replaces a node, and all below it, by nodes that pay.
func (g *guard) protect(node ast.Node) ast.Node {
	for _, part := range parts(node) {
		*part = g.protect(*part)
	}
	switch n := node.(type) {
	case *ast.BinaryNode:
		return g.operator(n)
	case *ast.BuiltinNode:
		return g.builtin(n)
	case *ast.MemberNode:
		n.Property = onlyScalar(n.Property)
	case *ast.SliceNode:
		n.From, n.To = onlyScalar(n.From), onlyScalar(n.To)
	}
	return node
}

func onlyScalar(node ast.Node) ast.Node {
	if node == nil || isLiteral(node) {
		return node
	}
	return call("scalar", node, node)
}

func isLiteral(node ast.Node) bool {
	_, isText := node.(*ast.StringNode)
	return isText || isNumber(node)
}

func isNumber(node ast.Node) bool {
	switch node.(type) {
	case *ast.NilNode, *ast.BoolNode, *ast.IntegerNode, *ast.FloatNode:
		return true
	}
	return false
}

// call returns a call of an installed function that replaces a node.
func call(name string, where ast.Node, args ...ast.Node) ast.Node {
	made := &ast.CallNode{
		Callee:    &ast.IdentifierNode{Value: " " + name},
		Arguments: append([]ast.Node{&ast.IdentifierNode{Value: meterName}}, args...),
	}
	made.SetLocation(where.Location())
	made.Callee.SetLocation(where.Location())
	made.Arguments[0].SetLocation(where.Location())
	return made
}

// operator leaves operators alone whose work is bounded by a literal, or by nature.
func (g *guard) operator(n *ast.BinaryNode) ast.Node {
	switch n.Operator {
	case "matches":
		text, _ := n.Right.(*ast.StringNode)
		return call("matches", n, n.Left, &ast.ConstantNode{Value: g.patterns[text.Value]})
	case "==", "!=", "<", "<=", ">", ">=":
		if isLiteral(n.Left) || isLiteral(n.Right) {
			return n
		}
		if n.Operator != "!=" {
			return call(n.Operator, n, n.Left, n.Right)
		}
		not := &ast.UnaryNode{Operator: "not", Node: call("==", n, n.Left, n.Right)}
		not.SetLocation(n.Location())
		return not
	case "+":
		if isNumber(n.Left) || isNumber(n.Right) {
			return n
		}
		return call(n.Operator, n, n.Left, n.Right)
	case "..", "in", "contains", "startsWith", "endsWith":
		return call(n.Operator, n, n.Left, n.Right)
	}
	return n
}

func (g *guard) builtin(n *ast.BuiltinNode) ast.Node {
	if _, loops := g.closures[n.Name]; !loops {
		if g.charges[n.Name] == nil {
			return n
		}
		return call(n.Name, n, n.Arguments...)
	}
	if len(n.Arguments) == 1 && (n.Name == "count" || n.Name == "sum") {
		self := &ast.PredicateNode{Node: &ast.PointerNode{}}
		self.SetLocation(n.Location())
		self.Node.SetLocation(n.Location())
		n.Arguments = append(n.Arguments, self)
	}
	for _, argument := range n.Arguments {
		body, isClosure := argument.(*ast.PredicateNode)
		if !isClosure {
			continue
		}
		if n.Name == "sortBy" || n.Name == "groupBy" {
			body.Node = call("key", body.Node, body.Node)
		}
		body.Node = g.priced(body.Node, g.closures[n.Name])
	}
	return n
}

// priced puts a tick before a unit of evaluation: the body of a closure, or the whole expression.
func (g *guard) priced(body ast.Node, keeps int) ast.Node {
	steps, bytes := g.price(body)
	number := func(value int) ast.Node {
		made := &ast.IntegerNode{Value: value}
		made.SetLocation(body.Location())
		return made
	}
	made := &ast.SequenceNode{Nodes: []ast.Node{call("tick", body, number(steps), number(bytes+keeps)), body}}
	made.SetLocation(body.Location())
	return made
}

// price adds up the cost of a body, without the rounds of its closures, which pay for themselves. Starting a closure
// costs memory that the machine frees only at the end.
func (g *guard) price(node ast.Node) (steps, bytes int) {
	if _, isClosure := node.(*ast.PredicateNode); isClosure {
		return 1, 512
	}
	steps, bytes = weightOf(node)
	for _, part := range parts(node) {
		s, b := g.price(*part)
		steps, bytes = steps+s, bytes+b
	}
	return steps, bytes
}
