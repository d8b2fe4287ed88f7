// Package parley holds no code: its test keeps the shape of the repository as architecture demands it.
package parley_test

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

type goPackage struct {
	Dir, ImportPath, Name  string
	GoFiles, Imports, Deps []string
}

func packages(t *testing.T) []goPackage {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", "list", "-json=Dir,ImportPath,Name,GoFiles,Imports,Deps", "./...")
	command.Stderr = os.Stderr
	output, err := command.Output()
	require.NoError(t, err)
	var all []goPackage
	decoder := json.NewDecoder(strings.NewReader(string(output)))
	for {
		var p goPackage
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		if len(p.GoFiles) > 0 {
			all = append(all, p)
		}
	}
}

func TestEveryPackageHasOneDocComment(t *testing.T) {
	for _, p := range packages(t) {
		if strings.HasPrefix(p.ImportPath, "parley/proto/") {
			continue // generated; the .proto files carry the text
		}
		var documented []string
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.ParseComments|parser.PackageClauseOnly)
			require.NoError(t, err)
			if words(file.Doc) >= 10 {
				documented = append(documented, name)
			}
		}
		require.Lenf(t, documented, 1, "%s: exactly one file states the package's job, found %v", p.ImportPath, documented)
	}
}

func words(doc *ast.CommentGroup) int {
	if doc == nil {
		return 0
	}
	return len(strings.Fields(doc.Text()))
}

func TestRootPackagesHaveADesign(t *testing.T) {
	for _, root := range []string{"actors", "bench", "cluster", "cmd/parley", "httpedge", "persistence"} {
		text, err := os.ReadFile(filepath.Join(root, "DESIGN.md"))
		require.NoError(t, err)
		require.Containsf(t, strings.ToLower(string(text)), "## decisions and trade-offs", "%s/DESIGN.md", root)
		require.Lessf(t, len(strings.Fields(string(text))), 1600, "%s/DESIGN.md is longer than two pages", root)
	}
}

func TestPackageNames(t *testing.T) {
	forbidden := []string{"util", "utils", "common", "base", "helpers", "types", "models", "manager", "service", "impl", "misc", "tools"}
	for _, p := range packages(t) {
		require.NotContainsf(t, forbidden, p.Name, "%s: name a package for what it holds", p.ImportPath)
		for _, name := range p.GoFiles {
			require.NotContainsf(t, forbidden, strings.TrimSuffix(name, ".go"), "%s/%s", p.ImportPath, name)
		}
	}
}

// TestRulesStayPure looks at what a rule package brings in by itself and through others.
func TestRulesStayPure(t *testing.T) {
	pure := []string{"parley/actors/machine", "parley/actors/core/access", "parley/actors/core/expected", "parley/actors/core/failure", "parley/actors/core/feature", "parley/actors/schema", "parley/actors/conversation", "parley/actors/delivery", "parley/cluster/shard"}
	engines := []string{"asynkron/protoactor-go", "cockroachdb/pebble", "valyala/fasthttp", "net/http", "os/exec", "go.etcd.io/raft", "log/slog"}
	seen := 0
	for _, p := range packages(t) {
		if !slices.Contains(pure, p.ImportPath) {
			continue
		}
		seen++
		for _, dependency := range p.Deps {
			for _, engine := range engines {
				require.NotContainsf(t, dependency, engine, "%s reaches %s", p.ImportPath, dependency)
			}
		}
	}
	require.Len(t, pure, seen)
}

// TestSidesMeetInNode: the four sides never import each other; only cmd/parley/node joins them.
func TestSidesMeetInNode(t *testing.T) {
	sides := []string{"parley/httpedge", "parley/actors", "parley/cluster", "parley/persistence"}
	side := func(path string) string {
		for _, s := range sides {
			if path == s || strings.HasPrefix(path, s+"/") {
				return s
			}
		}
		return ""
	}
	for _, p := range packages(t) {
		from := side(p.ImportPath)
		if from == "" {
			continue
		}
		for _, imported := range p.Imports {
			to := side(imported)
			shared := strings.HasPrefix(imported, "parley/actors/core/") || // pure, for every side
				imported == "parley/actors/machine" || imported == "parley/actors/machine/rawjson"
			if to == "" || to == from || shared {
				continue
			}
			require.Failf(t, "sides meet", "%s imports %s", p.ImportPath, imported)
		}
	}
}

// TestNoSleepInTests: a test that sleeps is slow and flaky at once. In a synctest bubble time is virtual, and sleeping
// is how it passes.
func TestNoSleepInTests(t *testing.T) {
	err := filepath.WalkDir(".", func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") || path == "structure_test.go" {
			return err
		}
		text, err := os.ReadFile(path)
		if !strings.Contains(string(text), `"testing/synctest"`) {
			require.NotContainsf(t, string(text), "time.Sleep(", "%s", path)
		}
		return err
	})
	require.NoError(t, err)
}
