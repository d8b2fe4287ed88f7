package machinetest

import (
	"flag"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/actors/kit"
)

// Table checks that the state table of the machine says what every command does in every phase, and that it is printed in a file.
// With -rewrite the file is written anew. Scripts and walks check besides that no step leads elsewhere than the table says.
func (s Suite) Table(t *testing.T, path string) {
	t.Helper()
	table, is := s.Machine.(kit.Table)
	require.True(t, is, "the machine has no state table")
	require.NoError(t, table.Check())
	if rewrite := flag.Lookup("rewrite"); rewrite != nil && rewrite.Value.String() == "true" {
		require.NoError(t, os.WriteFile(path, []byte(table.Markdown()), 0o600))
	}
	printed, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(printed), table.Markdown(), "the table has changed: run the test with -rewrite")
}
