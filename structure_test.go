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
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
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
		if p.ImportPath == "parley/httpedge/clientapi/models" {
			continue // it holds a resource of that name
		}
		require.NotContainsf(t, forbidden, p.Name, "%s: name a package for what it holds", p.ImportPath)
		for _, name := range p.GoFiles {
			require.NotContainsf(t, forbidden, strings.TrimSuffix(name, ".go"), "%s/%s", p.ImportPath, name)
		}
	}
}

// lintConfig is what the tests read of .golangci.yml.
type lintConfig struct {
	Linters struct {
		Settings struct {
			Depguard struct {
				Rules map[string]struct {
					Files []string `yaml:"files"`
				} `yaml:"rules"`
			} `yaml:"depguard"`
		} `yaml:"settings"`
		Exclusions struct {
			Rules []struct {
				PathExcept string `yaml:"path-except"`
			} `yaml:"rules"`
		} `yaml:"exclusions"`
	} `yaml:"linters"`
}

func readLintConfig(t *testing.T) (config lintConfig) {
	t.Helper()
	text, err := os.ReadFile(".golangci.yml")
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &config))
	return config
}

// rulesPackages are the packages with rules and what all sides share besides actors/core, which is all pure: those that .golangci.yml
// keeps from I/O. TestRulesAreListed fails while a package with rules is missing there.
func (c *lintConfig) rulesPackages() (dirs []string) {
	for _, pattern := range c.Linters.Settings.Depguard.Rules["pure-no-io"].Files {
		if dir, is := strings.CutPrefix(pattern, "**/"); is {
			dirs = append(dirs, strings.TrimSuffix(dir, "/*.go"))
		}
	}
	return dirs
}

// clockless matches the packages in which .golangci.yml forbids clocks and randomness.
func (c *lintConfig) clockless(t *testing.T) *regexp.Regexp {
	t.Helper()
	for _, rule := range c.Linters.Exclusions.Rules {
		if rule.PathExcept != "" {
			return regexp.MustCompile(rule.PathExcept)
		}
	}
	require.Fail(t, "no path-except in .golangci.yml")
	return nil
}

// coordinated lists packages that are pure in what they import, but keep the time for workers.
func coordinated() []string { return []string{"actors/background", "actors/kit"} }

// hasRules reports whether a package implements machine.Machine, by itself or as a table of package kit.
func hasRules(files []*ast.File) bool {
	found := false
	for _, file := range files {
		ast.Inspect(file, func(node ast.Node) bool {
			switch n := node.(type) {
			case *ast.FuncDecl:
				found = found || n.Recv != nil && n.Name.Name == "Decide" && n.Type.Results.NumFields() == 2 &&
					selected(n.Type.Results.List[0].Type, "machine") == "Decision"
			case *ast.SelectorExpr:
				found = found || selected(n, "kit") == "Rules"
			}
			return !found
		})
	}
	return found
}

// TestRulesAreListed: whatever has rules is held to be pure by TestRulesStayPure and by the linters; nothing is listed that is gone.
func TestRulesAreListed(t *testing.T) {
	config := readLintConfig(t)
	rules, clockless := config.rulesPackages(), config.clockless(t)
	require.NotEmpty(t, rules)
	packages := map[string][]*ast.File{}
	for path, file := range sources(t, false) {
		packages[filepath.ToSlash(filepath.Dir(path))] = append(packages[filepath.ToSlash(filepath.Dir(path))], file)
	}
	for dir, files := range packages {
		if hasRules(files) && !slices.Contains(coordinated(), dir) && dir != "actors/machine/machinetest" {
			require.Containsf(t, rules, dir, "%s has rules: list it in pure-no-io of .golangci.yml", dir)
		}
		if strings.HasPrefix(dir, "actors/core/") || slices.Contains(rules, dir) {
			require.Truef(t, clockless.MatchString(dir+"/x.go"), "%s is missing in path-except of .golangci.yml", dir)
		}
	}
	for _, dir := range slices.Concat(rules, coordinated()) {
		require.NotEmptyf(t, packages[dir], "%s is listed, but gone", dir)
	}
	for _, pattern := range config.Linters.Settings.Depguard.Rules["pure-machines"].Files {
		if dir, is := strings.CutPrefix(pattern, "**/"); is {
			dir, _, _ = strings.Cut(dir, "/*")
			require.DirExistsf(t, dir, "%s in .golangci.yml names nothing", pattern)
		}
	}
	alternatives := regexp.MustCompile(`[a-z]+(/\([a-z|]+\)|/[a-z]+)`).FindAllString(clockless.String(), -1)
	require.NotEmpty(t, alternatives)
	for _, alternative := range alternatives {
		root, names, _ := strings.Cut(alternative, "/")
		for _, name := range strings.Split(strings.Trim(names, "()"), "|") {
			require.DirExistsf(t, root+"/"+name, "path-except in .golangci.yml names nothing")
		}
	}
}

// TestRulesStayPure looks at what a pure package brings in by itself and through others.
func TestRulesStayPure(t *testing.T) {
	config := readLintConfig(t)
	pure := slices.Concat(config.rulesPackages(), coordinated())
	engines := []string{"asynkron/protoactor-go", "cockroachdb/pebble", "valyala/fasthttp", "net/http", "os/exec", "go.etcd.io/raft", "log/slog"}
	seen := 0
	for _, p := range packages(t) {
		dir := strings.TrimPrefix(p.ImportPath, "parley/")
		if !strings.HasPrefix(dir, "actors/core/") && !slices.Contains(pure, dir) {
			continue
		}
		seen++
		for _, dependency := range p.Deps {
			for _, engine := range engines {
				require.NotContainsf(t, dependency, engine, "%s reaches %s", p.ImportPath, dependency)
			}
		}
	}
	require.Greater(t, seen, len(pure))
}

// TestSidesMeetInPurePackages: the four sides never import each other's machinery. What several need is pure and lies in
// actors/core, or is a package with rules that is named here; the rest is joined in cmd/parley/node.
func TestSidesMeetInPurePackages(t *testing.T) {
	sides := []string{"parley/httpedge", "parley/actors", "parley/cluster", "parley/persistence"}
	side := func(path string) string {
		for _, s := range sides {
			if path == s || strings.HasPrefix(path, s+"/") {
				return s
			}
		}
		return ""
	}
	shared := []string{"parley/actors/machine", "parley/actors/machine/rawjson"}
	for _, p := range packages(t) {
		from := side(p.ImportPath)
		if from == "" {
			continue
		}
		for _, imported := range p.Imports {
			to := side(imported)
			pure := strings.HasPrefix(imported, "parley/actors/core/") || slices.Contains(shared, imported)
			if to == "" || to == from || pure {
				continue
			}
			require.Failf(t, "sides meet", "%s imports %s", p.ImportPath, imported)
		}
	}
}

// TestOnlyTheNodeJoinsSides: what joins machinery of two sides is in cmd/parley/node or a package below it.
func TestOnlyTheNodeJoinsSides(t *testing.T) {
	joining := 0
	for _, p := range packages(t) {
		if !strings.HasPrefix(p.ImportPath, "parley/cmd/") {
			continue
		}
		sides := map[string]bool{}
		for _, imported := range p.Imports {
			parts := strings.Split(imported, "/")
			machinery := len(parts) > 1 && parts[0] == "parley" && slices.Contains([]string{"httpedge", "actors", "cluster", "persistence"}, parts[1])
			if machinery && !strings.HasPrefix(imported, "parley/actors/core/") {
				sides[parts[1]] = true
			}
		}
		if len(sides) > 1 && p.ImportPath != "parley/cmd/parley" {
			joining++
			require.Truef(t, strings.HasPrefix(p.ImportPath+"/", "parley/cmd/parley/node/"), "%s joins %v", p.ImportPath, sides)
		}
	}
	require.Positive(t, joining)
}

// TestSurfacesDoNotMeet: no surface imports another one. What two of them need lies beside them in httpedge, or in actors/core.
func TestSurfacesDoNotMeet(t *testing.T) {
	surfaces := []string{"parley/httpedge/clientapi", "parley/httpedge/convapi", "parley/httpedge/dashboard", "parley/httpedge/gateway", "parley/httpedge/opsapi"}
	surface := func(path string) string {
		for _, s := range surfaces {
			if path == s || strings.HasPrefix(path, s+"/") {
				return s
			}
		}
		return ""
	}
	seen := map[string]bool{}
	for _, p := range packages(t) {
		from := surface(p.ImportPath)
		seen[from] = true
		for _, imported := range p.Imports {
			if to := surface(imported); from != "" && to != "" {
				require.Equalf(t, from, to, "%s imports %s", p.ImportPath, imported)
			}
			if strings.HasPrefix(p.ImportPath, "parley/httpedge/") && from == "" {
				require.Emptyf(t, surface(imported), "%s is for all surfaces and imports %s", p.ImportPath, imported)
			}
		}
	}
	for _, s := range surfaces {
		require.Truef(t, seen[s], "%s is gone", s)
	}
}

// TestResourcesDoNotMeet: the resources of the Client API do not import each other, so that each is read and added by itself.
func TestResourcesDoNotMeet(t *testing.T) {
	const surface = "parley/httpedge/clientapi/"
	shared := []string{surface + "handler", surface + "render"}
	seen := 0
	for _, p := range packages(t) {
		if !strings.HasPrefix(p.ImportPath, surface) {
			continue
		}
		seen++
		for _, imported := range p.Imports {
			if strings.HasPrefix(imported, surface) && !slices.Contains(shared, imported) {
				require.Failf(t, "resources meet", "%s imports %s: what both need belongs to handler or render", p.ImportPath, imported)
			}
		}
	}
	require.Greater(t, seen, len(shared))
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
