package config

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Limits of a document, so that a broken file causes an error instead of a busy process.
const (
	maxDocument = 1 << 20
	maxDepth    = 32
)

// binder copies a YAML document into the tree. It walks the document's nodes itself: a key without a value keeps its
// default, a scalar is parsed from its own text as in the environment, and every message has file, line and setting.
type binder struct {
	source   string
	problems []error
}

// bindDocument overlays a whole file on the configuration.
func bindDocument(c *Config, text []byte, source string) []error {
	b := &binder{source: source}
	if node := b.parse(text); node != nil {
		b.bind(reflect.ValueOf(c).Elem(), node, "")
	}
	return b.problems
}

// bindText sets one leaf from text outside a file: scalars as they are, lists of words split at commas, and
// everything else (and lists in brackets) as YAML.
func bindText(into reflect.Value, text, source string) []error {
	switch {
	case into.Kind() == reflect.Slice && into.Type().Elem().Kind() == reflect.String && !strings.HasPrefix(strings.TrimSpace(text), "["):
		words := splitList(text)
		list := reflect.MakeSlice(into.Type(), len(words), len(words))
		for i, word := range words {
			list.Index(i).SetString(word)
		}
		into.Set(list)
		return nil
	case into.Kind() == reflect.Slice || into.Kind() == reflect.Map:
		b := &binder{source: source}
		if node := b.parse([]byte(text)); node != nil {
			b.bind(into, node, "")
		}
		return b.problems
	}
	if err := parseScalar(into, text); err != nil {
		return []error{fmt.Errorf("%s: %w", source, err)}
	}
	return nil
}

func splitList(text string) []string {
	var list []string
	for word := range strings.SplitSeq(text, ",") {
		if word = strings.TrimSpace(word); word != "" {
			list = append(list, word)
		}
	}
	return list
}

// parse returns the document's node, or nil when it is empty or bad.
func (b *binder) parse(text []byte) (node ast.Node) {
	if len(text) > maxDocument {
		b.problems = append(b.problems, fmt.Errorf("%s: larger than 1MiB", b.source))
		return nil
	}
	// The parser is third-party: a panic on a hostile file must become an error.
	defer func() {
		if recover() != nil {
			node = nil
			b.problems = append(b.problems, fmt.Errorf("%s: not readable as YAML", b.source))
		}
	}()
	file, err := parser.ParseBytes(text, 0)
	if err != nil {
		b.syntax(err)
		return nil
	}
	for _, document := range file.Docs {
		if document.Body == nil {
			continue
		}
		if node != nil {
			b.problem(document.Body, "", "only one YAML document is read")
			return nil
		}
		node = document.Body
	}
	return node
}

// syntax reports a parser's error without the source lines that it quotes, which may hold a secret.
func (b *binder) syntax(err error) {
	var located yaml.Error
	if !errors.As(err, &located) || located.GetToken() == nil {
		b.problems = append(b.problems, fmt.Errorf("%s: not readable as YAML", b.source))
		return
	}
	position := located.GetToken().Position
	b.problems = append(b.problems,
		fmt.Errorf("%s:%d:%d: %s", b.source, position.Line, position.Column, located.GetMessage()))
}

func (b *binder) problem(at ast.Node, key, format string, args ...any) {
	where := b.source
	if at != nil {
		if t := at.GetToken(); t != nil && t.Position != nil {
			where = fmt.Sprintf("%s:%d", b.source, t.Position.Line)
		}
	}
	if key != "" {
		where += ": " + key
	}
	b.problems = append(b.problems, fmt.Errorf("%s: %w", where, fmt.Errorf(format, args...)))
}

func (b *binder) bind(into reflect.Value, node ast.Node, key string) {
	if tag, ok := node.(*ast.TagNode); ok {
		node = tag.Value
	}
	switch node.(type) {
	case nil, *ast.NullNode, *ast.CommentGroupNode:
		return
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
		b.problem(node, key, "anchors and aliases are not supported")
		return
	}
	switch into.Kind() {
	case reflect.Pointer:
		fresh := reflect.New(into.Type().Elem())
		b.bind(fresh.Elem(), node, key)
		into.Set(fresh)
	case reflect.Struct:
		b.bindStruct(into, node, key)
	case reflect.Slice:
		b.bindList(into, node, key)
	case reflect.Map:
		b.bindObject(into, node, key)
	default:
		b.bindScalar(into, node, key)
	}
}

func (b *binder) bindStruct(into reflect.Value, node ast.Node, key string) {
	pairs, ok := pairsOf(node)
	if !ok {
		b.problem(node, key, "needs settings (name: value lines)")
		return
	}
	fields := fieldsOf(into.Type())
	for _, pair := range pairs {
		name := scalarText(pair.Key)
		found := false
		for _, f := range fields {
			if f.key == name {
				b.bind(into.Field(f.index), pair.Value, join(key, name))
				found = true
				break
			}
		}
		if !found {
			b.problem(pair.Key, join(key, name), "unknown setting%s", suggestion(name, fields))
		}
	}
}

func (b *binder) bindList(into reflect.Value, node ast.Node, key string) {
	sequence, ok := node.(*ast.SequenceNode)
	if !ok {
		b.problem(node, key, "needs a list")
		return
	}
	if len(sequence.Values) == 0 {
		into.SetZero()
		return
	}
	list := reflect.MakeSlice(into.Type(), len(sequence.Values), len(sequence.Values))
	for i, item := range sequence.Values {
		b.bind(list.Index(i), item, fmt.Sprintf("%s[%d]", key, i))
	}
	into.Set(list)
}

// bindObject fills a map[string]any with values that only need a JSON form.
func (b *binder) bindObject(into reflect.Value, node ast.Node, key string) {
	value := b.value(node, key, 0)
	if object, ok := value.(map[string]any); ok {
		into.Set(reflect.ValueOf(object))
		return
	}
	b.problem(node, key, "needs an object")
}

func (b *binder) value(node ast.Node, key string, depth int) any {
	if depth > maxDepth {
		b.problem(node, key, "is nested deeper than %d levels", maxDepth)
		return nil
	}
	if pairs, ok := pairsOf(node); ok {
		object := make(map[string]any, len(pairs))
		for _, pair := range pairs {
			object[scalarText(pair.Key)] = b.value(pair.Value, key, depth+1)
		}
		return object
	}
	switch n := node.(type) {
	case nil, *ast.NullNode:
		return nil
	case *ast.SequenceNode:
		list := make([]any, 0, len(n.Values))
		for _, item := range n.Values {
			list = append(list, b.value(item, key, depth+1))
		}
		return list
	case *ast.BoolNode:
		return n.Value
	case *ast.IntegerNode:
		return n.Value
	case *ast.FloatNode:
		return n.Value
	case *ast.StringNode, *ast.LiteralNode:
		return scalarText(node)
	default:
		b.problem(node, key, "%s is not supported here", strings.ToLower(node.Type().String()))
		return nil
	}
}

func (b *binder) bindScalar(into reflect.Value, node ast.Node, key string) {
	if _, ok := node.(ast.ScalarNode); !ok {
		b.problem(node, key, "needs a single value")
		return
	}
	if err := parseScalar(into, scalarText(node)); err != nil {
		b.problem(node, key, "%w", err)
	}
}

// scalarText returns a scalar as it was written: 1.10 stays 1.10, whatever its YAML type.
func scalarText(node ast.Node) string {
	switch n := node.(type) {
	case *ast.StringNode:
		return n.Value
	case *ast.LiteralNode:
		return n.Value.Value
	case nil:
		return ""
	}
	if t := node.GetToken(); t != nil {
		return t.Value
	}
	return ""
}

func pairsOf(node ast.Node) ([]*ast.MappingValueNode, bool) {
	switch n := node.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	}
	return nil, false
}

func join(prefix, name string) string {
	if prefix == "" {
		return name
	}
	return prefix + "." + name
}

// suggestion returns a hint with the setting that was probably meant.
func suggestion(name string, fields []field) string {
	keys := make([]string, len(fields))
	for i, f := range fields {
		keys[i] = f.key
	}
	return DidYouMean(name, keys)
}

// editDistance counts the edits between two words; anything at or above limit is limit.
func editDistance(a, b string, limit int) int {
	if len(a) > len(b)+limit || len(b) > len(a)+limit {
		return limit
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			substitution := diagonal
			if a[i] != b[j] {
				substitution++
			}
			diagonal = row[j+1]
			row[j+1] = min(substitution, row[j]+1, row[j+1]+1)
		}
	}
	return min(row[len(b)], limit)
}
