package parley_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// maxFields is how many fields a struct may have by hand. A larger one mixes concerns: split it by what its fields are for, or by which
// goroutine owns them.
const maxFields = 20

// largeStructs are the exceptions: plain data whose fields are those of a document or a record.
func largeStructs() map[string]string {
	const (
		settings = "settings: one field for each, documented side by side"
		body     = "a JSON body of the API: its fields are the document's"
		record   = "one record that is passed as a whole"
	)
	return map[string]string{
		"actors/turn.Config":                               settings,
		"actors/turn/model.Config":                         settings,
		"bench.Options":                                    settings,
		"cluster/peer.Config":                              settings,
		"cluster/placement.Config":                         settings,
		"cmd/parley/config.Agent":                          settings,
		"cmd/parley/config.Config":                         settings,
		"httpedge/endpoint.MuxConfig":                      settings,
		"persistence.Options":                              settings,
		"persistence/replica.Config":                       settings,
		"httpedge/clientapi/responses.createResponseIn":    body,
		"httpedge/clientapi/responses.wholeResponseSchema": body,
		"httpedge/clientapi/auditlog.rowSchema":            body,
		"httpedge/gateway.chatInput":                       body,
		"actors/conversation.StartTurn":                    record,
		"actors/turn.Job":                                  record,
		"httpedge/endpoint.Route":                          "one route with everything that is declared of it",
	}
}

func TestStructsHaveOneConcern(t *testing.T) {
	expected, found := largeStructs(), map[string]int{}
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, ".pb.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(node ast.Node) bool {
			spec, ok := node.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if body, ok := spec.Type.(*ast.StructType); ok && fields(body) > maxFields {
				found[filepath.ToSlash(filepath.Dir(path))+"."+spec.Name.Name] = fields(body)
			}
			return true
		})
		return nil
	})
	require.NoError(t, err)
	for name, reason := range expected {
		if found[name] == 0 && reason == "to be split" {
			delete(expected, name) // whoever split it need not know this list
		}
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(expected)), slices.Collect(maps.Keys(found)), "structs above %d fields: %v", maxFields, found)
}

// fields counts the fields; an embedded type is one.
func fields(body *ast.StructType) int {
	n := 0
	for _, field := range body.Fields.List {
		n += max(len(field.Names), 1)
	}
	return n
}

// maxFile is how large a file of the repository may be, in bytes: more than that is something that was built or recorded, and is kept out.
const maxFile = 500 << 10

func TestNothingBuiltIsCommitted(t *testing.T) {
	listed, err := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	require.NoError(t, err, "the tests run in a git checkout")
	for path := range strings.SplitSeq(strings.TrimRight(string(listed), "\x00"), "\x00") {
		info, err := os.Lstat(path)
		if os.IsNotExist(err) {
			continue // removed, not committed yet
		}
		require.NoError(t, err)
		require.LessOrEqual(t, info.Size(), int64(maxFile), "%s: builds go to bin/, recordings are made by a script", path)
	}
}
