package parley_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// patternDoor is the package that compiles patterns from elsewhere, within limits.
const patternDoor = "actors/core/pattern/"

// TestPatternsHaveOneDoor: what a stranger wrote is compiled as a regular expression by one package only. Everybody else compiles
// literals; a library that compiles patterns by itself is given the door (UseRegexpEngine), or is not asked to.
func TestPatternsHaveOneDoor(t *testing.T) {
	through := 0
	for path, file := range sources(t, false) {
		if strings.HasPrefix(path, patternDoor) {
			through++
			continue
		}
		for _, where := range compiledText(file) {
			require.Failf(t, "a second door for patterns", "%s: %s: text that is no literal is compiled by %s", path, where, patternDoor)
		}
		if imports(file, "github.com/santhosh-tekuri/jsonschema/v6") && calls(file, "NewCompiler") {
			require.Truef(t, calls(file, "UseRegexpEngine"), "%s: the compiler of schemas compiles patterns by itself", path)
		}
		if imports(file, "github.com/expr-lang/expr/parser") {
			require.Truef(t, calls(file, "admit"), "%s: the compiler of expressions compiles patterns by itself", path)
		}
	}
	require.Positive(t, through, "the door is gone")
}

// TestPatternDoorIsFound: the test above sees what it is to find.
func TestPatternDoorIsFound(t *testing.T) {
	for text, found := range map[string]int{
		"import \"regexp\"\nvar a = regexp.MustCompile(`a` + \"b\")":                                0,
		"import \"regexp\"\nvar a, _ = regexp.Compile(text)":                                        1,
		"import \"regexp\"\nvar a, _ = regexp.MatchString(text, `a`)":                               1,
		"import \"regexp\"\nvar a = regexp.MustCompilePOSIX(`a` + text)":                            1,
		"import \"regexp\"\nvar a = regexp.QuoteMeta(text)":                                         0,
		"import \"regexp\"\nvar compile = regexp.Compile":                                           1,
		"import other \"regexp\"\nvar a = other.MustCompile(text)":                                  1,
		"import . \"regexp\"\nvar a = MustCompile(text)":                                            1,
		"import \"regexp/syntax\"\nvar a, _ = syntax.Parse(`a`, syntax.Perl)":                       1,
		"import \"github.com/dlclark/regexp2\"\nvar a = regexp2.MustCompile(`a`, 0)":                1,
		"import \"regexp\"\nfunc f(r *regexp.Regexp) { r.UnmarshalText(text); new(regexp.Regexp) }": 1,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "p.go", "package p\n"+text, parser.SkipObjectResolution)
		require.NoError(t, err, text)
		require.Lenf(t, compiledText(file), found, "%s", text)
	}
}

// compiledText names what a file compiles as a pattern that is no literal.
func compiledText(file *ast.File) (found []string) {
	name := ""
	for _, imported := range file.Imports {
		path, _ := strconv.Unquote(imported.Path.Value)
		switch {
		case path == "regexp":
			name = "regexp"
			if imported.Name != nil {
				name = imported.Name.Name
			}
			if name == "." {
				found = append(found, "regexp without its name")
			}
		case strings.Contains(path, "regexp"), strings.HasSuffix(path, "/re2"):
			found = append(found, path)
		}
	}
	if name == "" {
		return found
	}
	literals := map[ast.Expr]bool{} // functions that are called with literals
	ast.Inspect(file, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.CallExpr:
			literals[n.Fun] = len(n.Args) > 0 && isLiteralText(n.Args[0])
		case *ast.SelectorExpr:
			used := selected(n, name)
			compiles := strings.Contains(used, "Compile") || strings.HasPrefix(used, "Match")
			if compiles && !literals[n] || n.Sel.Name == "UnmarshalText" {
				found = append(found, name+"."+n.Sel.Name)
			}
		}
		return true
	})
	return found
}

func isLiteralText(expression ast.Expr) bool {
	switch e := expression.(type) {
	case *ast.BasicLit:
		return e.Kind == token.STRING
	case *ast.BinaryExpr:
		return isLiteralText(e.X) && isLiteralText(e.Y)
	}
	return false
}

func imports(file *ast.File, path string) bool {
	for _, imported := range file.Imports {
		if is, _ := strconv.Unquote(imported.Path.Value); is == path {
			return true
		}
	}
	return false
}

func calls(file *ast.File, method string) (found bool) {
	ast.Inspect(file, func(node ast.Node) bool {
		if call, is := node.(*ast.CallExpr); is {
			selector, is := call.Fun.(*ast.SelectorExpr)
			found = found || is && selector.Sel.Name == method
		}
		return !found
	})
	return found
}
