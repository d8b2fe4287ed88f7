package parley_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const failureDir = "actors/core/failure"

// sources parses all code by hand that is no test, by path.
func sources(t *testing.T, tests bool) map[string]*ast.File {
	t.Helper()
	files := map[string]*ast.File{}
	set := token.NewFileSet()
	require.NoError(t, filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (strings.HasPrefix(entry.Name(), ".") && path != "." || entry.Name() == "testdata" || entry.Name() == "bin"):
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, ".pb.go") || strings.HasSuffix(path, "_test.go") != tests:
			return nil
		}
		files[filepath.ToSlash(path)], err = parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		return err
	}))
	return files
}

// failureUse is one place where a failure is made for a reason.
type failureUse struct {
	where  string
	params []string // by Param
	given  []string // by Param and With; "field" by In
}

type failureTable struct {
	values map[string]string       // reason -> its text on the wire
	words  map[string][]string     // reason -> templates, the default words first
	uses   map[string][]failureUse // reason -> where it is given
}

// selected returns X of an expression pkg.X.
func selected(expression ast.Expr, pkg string) string {
	if selector, ok := expression.(*ast.SelectorExpr); ok {
		if ident, ok := selector.X.(*ast.Ident); ok && ident.Name == pkg {
			return selector.Sel.Name
		}
	}
	return ""
}

func literal(expression ast.Expr) string {
	if basic, ok := expression.(*ast.BasicLit); ok && basic.Kind == token.STRING {
		text, _ := strconv.Unquote(basic.Value)
		return text
	}
	return ""
}

// readTable reads the reasons, their words on all surfaces, and where they are given.
func readTable(t *testing.T, files map[string]*ast.File) *failureTable {
	t.Helper()
	table := &failureTable{values: map[string]string{}, words: map[string][]string{}, uses: map[string][]failureUse{}}
	for path, file := range files {
		if filepath.Dir(path) == failureDir {
			table.readReasons(file)
		}
	}
	for path, file := range files {
		table.readWords(file, filepath.Dir(path) == failureDir)
	}
	helpers := map[string][]string{}
	for path, file := range files {
		readHelpers(file, filepath.Dir(path), helpers)
	}
	for path, file := range files {
		if filepath.Dir(path) != failureDir {
			table.readUses(path, file, helpers)
		}
	}
	return table
}

func (table *failureTable) readReasons(file *ast.File) {
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "Reason" {
			table.values[spec.Names[0].Name] = literal(spec.Values[0])
		}
		return true
	})
}

// readWords reads the cases that return a template for a reason.
func (table *failureTable) readWords(file *ast.File, inside bool) {
	ast.Inspect(file, func(node ast.Node) bool {
		clause, ok := node.(*ast.CaseClause)
		if !ok || len(clause.Body) != 1 {
			return true
		}
		returned, ok := clause.Body[0].(*ast.ReturnStmt)
		if !ok || len(returned.Results) != 1 || literal(returned.Results[0]) == "" {
			return true
		}
		for _, expression := range clause.List {
			name := selected(expression, "failure")
			if ident, ok := expression.(*ast.Ident); ok && inside {
				name = ident.Name
			}
			if _, known := table.values[name]; !known {
				continue
			}
			words := literal(returned.Results[0])
			if inside {
				table.words[name] = slices.Insert(table.words[name], 0, words)
			} else {
				table.words[name] = append(table.words[name], words)
			}
		}
		return true
	})
}

// chain returns the names that are set by the calls that follow a call: New(...).In(...).Param("name", ...).With("other", ...).
func chain(stack []ast.Node) (params, given []string) {
	for i := len(stack) - 1; i >= 1; i -= 2 {
		selector, ok := stack[i].(*ast.SelectorExpr)
		if !ok {
			break
		}
		call, ok := stack[i-1].(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			break
		}
		switch selector.Sel.Name {
		case "In":
			given = append(given, "field")
		case "Param":
			params = append(params, literal(call.Args[0]))
			given = append(given, literal(call.Args[0]))
		case "With":
			given = append(given, literal(call.Args[0]))
		default:
			return params, given
		}
	}
	return params, given
}

// inspect visits all nodes of a file with those that they stand in, the outermost first.
func inspect(file ast.Node, visit func(node ast.Node, stack []ast.Node)) {
	var stack []ast.Node
	ast.Inspect(file, func(node ast.Node) bool {
		if node == nil {
			stack = stack[:len(stack)-1]
			return true
		}
		visit(node, stack)
		stack = append(stack, node)
		return true
	})
}

// readHelpers finds the functions that make a failure for a reason that they are given, and what they set.
func readHelpers(file *ast.File, dir string, helpers map[string][]string) {
	for _, declaration := range file.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if !ok || function.Body == nil {
			continue
		}
		inspect(function, func(node ast.Node, stack []ast.Node) {
			call, ok := node.(*ast.CallExpr)
			if !ok || selected(call.Fun, "failure") != "New" || len(call.Args) != 2 {
				return
			}
			if _, ok := call.Args[1].(*ast.Ident); ok {
				_, given := chain(stack)
				helpers[dir+"."+function.Name.Name] = append(helpers[dir+"."+function.Name.Name], given...)
			}
		})
	}
}

func (table *failureTable) readUses(path string, file *ast.File, helpers map[string][]string) {
	inspect(file, func(node ast.Node, stack []ast.Node) {
		selector, ok := node.(*ast.SelectorExpr)
		if !ok {
			return
		}
		reason := selected(selector, "failure")
		if _, known := table.values[reason]; !known {
			return
		}
		use := failureUse{where: path}
		switch parent := stack[len(stack)-1].(type) {
		case *ast.BinaryExpr, *ast.CaseClause:
			return // it is compared
		case *ast.CallExpr:
			use.params, use.given = chain(stack[:len(stack)-1])
			if helper, ok := parent.Fun.(*ast.Ident); ok {
				use.given = append(use.given, helpers[filepath.Dir(path)+"."+helper.Name]...)
			}
		}
		table.uses[reason] = append(table.uses[reason], use)
	})
}

// TestFailureTable: every reason is used and has words, on each surface the words need nothing that is not given where the
// failure is made, and no parameter is given in vain.
func TestFailureTable(t *testing.T) {
	table := readTable(t, sources(t, false))
	require.Greater(t, len(table.values), 150)
	placeholder := regexp.MustCompile(`\{([a-zA-Z]+)(:[qc])?\}`)
	taken := map[string]string{}
	for _, reason := range slices.Sorted(maps.Keys(table.values)) {
		value := table.values[reason]
		require.Regexpf(t, `^[a-z0-9]+(_[a-z0-9]+)*$`, value, "%s", reason)
		require.Emptyf(t, taken[value], "%s and %s have one name", reason, taken[value])
		taken[value] = reason
		if reason == "Literal" {
			continue
		}
		assert.NotEmptyf(t, table.words[reason], "%s has no words", reason)
		assert.NotEmptyf(t, table.uses[reason], "%s is not used", reason)
		var needed []string
		for _, words := range table.words[reason] {
			for _, found := range placeholder.FindAllStringSubmatch(strings.ReplaceAll(words, "{{", ""), -1) {
				if found[1] != "conversation" {
					needed = append(needed, found[1])
				}
			}
		}
		for _, use := range table.uses[reason] {
			assert.Subsetf(t, use.given, needed, "%s gives %s without what its words need", use.where, reason)
			assert.Subsetf(t, needed, use.params, "%s gives %s what no words have", use.where, reason)
		}
	}
}

// TestFailuresAreNotRead: no code takes a failure's words for data. Words are made where an answer leaves the product, and words
// that are finished are given only where they come from outside.
func TestFailuresAreNotRead(t *testing.T) {
	words := []string{"DefaultText", "Text", "Error", "GetMessage"}
	search := []string{"HasPrefix", "HasSuffix", "Contains", "ContainsAny", "EqualFold", "Cut", "CutPrefix", "CutSuffix", "Index", "Replace", "ReplaceAll", "Split", "TrimPrefix", "TrimSuffix", "MatchString"}
	for path, file := range sources(t, false) {
		edge := slices.ContainsFunc([]string{"httpedge/", "cmd/parley/node/", "cluster/"}, func(dir string) bool { return strings.HasPrefix(path, dir) })
		inspect(file, func(node ast.Node, stack []ast.Node) {
			switch n := node.(type) {
			case *ast.SelectorExpr:
				if n.Sel.Name == "DefaultText" {
					assert.Containsf(t, defaultWords(), path, "%s takes a failure's default words: a surface words it, others pass it on", path)
				}
				if selected(n, "failure") == "Verbatim" {
					assert.Containsf(t, foreignWords(), path, "%s gives a failure finished words: give it a reason", path)
				}
			case *ast.CallExpr:
				selector, ok := n.Fun.(*ast.SelectorExpr)
				if !ok || !edge || !slices.Contains(words, selector.Sel.Name) || len(n.Args) > 1 {
					return
				}
				for _, around := range stack {
					if call, ok := around.(*ast.CallExpr); ok {
						if called, ok := call.Fun.(*ast.SelectorExpr); ok {
							assert.NotContainsf(t, search, called.Sel.Name, "%s reads the words of a failure", path)
						}
					}
				}
			case *ast.BinaryExpr:
				for _, side := range []ast.Expr{n.X, n.Y} {
					if call, ok := side.(*ast.CallExpr); ok && n.Op == token.EQL {
						if selector, ok := call.Fun.(*ast.SelectorExpr); ok && selector.Sel.Name == "DefaultText" {
							require.Equalf(t, failureDir+"/wire.go", path, "%s reads the words of a failure", path)
						}
					}
				}
			}
		})
	}
}

// defaultWords lists the files that may take a failure's default words: for a log, a stored text, or an operator.
func defaultWords() []string {
	return []string{
		failureDir + "/failure.go", failureDir + "/wire.go", "actors/machine/machinetest/script.go", "actors/run/worker.go",
		"actors/run/taskrun.go", "actors/turn/railed.go", "httpedge/opsapi/guard.go",
	}
}

// foreignWords lists the files that pass on words from outside: an application's answers to hooks and authentication, what a project's
// guardrail says where it blocks.
func foreignWords() []string {
	return []string{"httpedge/hook/context.go", "httpedge/auth/callout.go", "actors/guard/rails.go"}
}
