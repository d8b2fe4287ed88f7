package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSpecLedger keeps httpedge/SPEC.md and httpedge/clientapi/SPEC.md true: what they name exists, and no id stands twice.
func TestSpecLedger(t *testing.T) {
	t.Run("conversation server", func(t *testing.T) { ledgerIsTrue(t, "SPEC.md", 100, 60) })
	t.Run("Client API", func(t *testing.T) { ledgerIsTrue(t, filepath.Join("clientapi", "SPEC.md"), 60, 40) })
}

func ledgerIsTrue(t *testing.T, name string, tests, rows int) {
	t.Helper()
	ledger, err := os.ReadFile(filepath.Join("..", "..", "httpedge", name))
	require.NoError(t, err)
	files, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	var source strings.Builder
	for _, name := range files {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		source.Write(text)
	}
	named := regexp.MustCompile("`(Test\\w+)(?:/(\\w+))?`").FindAllStringSubmatch(string(ledger), -1)
	require.Greater(t, len(named), tests)
	for _, test := range named {
		require.Containsf(t, source.String(), "\nfunc "+test[1]+"(t *testing.T) {", "%s", test[0])
		if test[2] != "" {
			require.Containsf(t, source.String(), `"`+test[2]+`"`, "%s", test[0])
		}
	}
	seen := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| ([A-Z]{2}-\d+) \|.*$`).FindAllStringSubmatch(string(ledger), -1) {
		require.Falsef(t, seen[row[1]], "%s stands twice", row[1])
		seen[row[1]] = true
	}
	require.Greater(t, len(seen), rows)
}
