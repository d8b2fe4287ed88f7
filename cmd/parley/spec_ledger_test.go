package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSpecLedger keeps SPEC.md of httpedge, httpedge/clientapi and httpedge/dashboard true: what they name exists, and no id stands twice.
func TestSpecLedger(t *testing.T) {
	t.Parallel()
	t.Run("conversation server", func(t *testing.T) { ledgerIsTrue(t, "SPEC.md", 100, 60) })
	t.Run("Client API", func(t *testing.T) { ledgerIsTrue(t, filepath.Join("clientapi", "SPEC.md"), 60, 40) })
	t.Run("accounts", func(t *testing.T) { ledgerIsTrue(t, filepath.Join("dashboard", "SPEC.md"), 15, 12) })
}

// testSources are the sources of all tests of the product.
func testSources(t *testing.T) string {
	t.Helper()
	var source strings.Builder
	require.NoError(t, filepath.WalkDir(filepath.Join("..", ".."), func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "node_modules" || entry.Name() == ".git"):
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		source.Write(text)
		return err
	}))
	return source.String()
}

func ledgerIsTrue(t *testing.T, name string, tests, rows int) {
	t.Helper()
	ledger, err := os.ReadFile(filepath.Join("..", "..", "httpedge", name))
	require.NoError(t, err)
	source := testSources(t)
	named := regexp.MustCompile("`(Test\\w+)(?:/(\\w+))?`").FindAllStringSubmatch(string(ledger), -1)
	require.Greater(t, len(named), tests)
	for _, test := range named {
		require.Containsf(t, source, "\nfunc "+test[1]+"(t *testing.T) {", "there is no %s", test[0])
		if test[2] != "" {
			require.Containsf(t, source, `"`+test[2]+`"`, "there is no %s", test[0])
		}
	}
	seen := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| ([A-Z]{2}-\d+) \|.*$`).FindAllStringSubmatch(string(ledger), -1) {
		require.Falsef(t, seen[row[1]], "%s stands twice", row[1])
		seen[row[1]] = true
	}
	require.Greater(t, len(seen), rows)
}
