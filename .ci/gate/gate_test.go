package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// run makes a module with one package of tests and runs the gate over it. The tests may use the folder that the variable GATE_TEST names.
func run(t *testing.T, tests string) (ok bool, said string) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: builds test binaries")
	}
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example\n\ngo 1.26\n"), 0o600))
	text := "package example\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nvar mark = os.Getenv(\"GATE_TEST\") + \"/mark\"\n\n" + tests
	require.NoError(t, os.WriteFile(filepath.Join(dir, "example_test.go"), []byte(text), 0o600))
	t.Chdir(dir)
	t.Setenv("GATE_TEST", dir)
	var out bytes.Buffer
	g := gate{out: &out, dir: filepath.Join(dir, "gate"), again: 2, flaky: 1}
	ok, err := g.run(context.Background(), nil)
	require.NoError(t, err, out.String())
	return ok, out.String()
}

// once fails the first time that it runs.
const once = `{
	if _, err := os.Stat(mark + t.Name()); err != nil {
		_ = os.WriteFile(mark+t.Name(), nil, 0o600)
		t.Fatal("the first time")
	}
}
`

func TestGreen(t *testing.T) {
	ok, said := run(t, "func TestA(t *testing.T) { t.Run(\"sub\", func(t *testing.T) {}); _ = mark }\nfunc TestB(t *testing.T) { t.Skip(\"no reason\") }\n")
	require.True(t, ok)
	require.Contains(t, said, "\n1 passed, 0 failed, 1 skipped\n")
	require.Regexp(t, `skipped: example.TestB: \d+: no reason`, said)
}

func TestFlaky(t *testing.T) {
	ok, said := run(t, "func TestA(t *testing.T) "+once)
	require.True(t, ok, said)
	require.Contains(t, said, "example.TestA (flaky)\n")
	require.Contains(t, said, "the first time")
	require.Contains(t, said, "\n1 passed, 0 failed, 0 skipped\n")
}

func TestTooFlaky(t *testing.T) {
	ok, said := run(t, "func TestA(t *testing.T) "+once+"func TestB(t *testing.T) "+once)
	require.False(t, ok)
	require.Contains(t, said, "2 tests passed only when they were run again, more than 1")
}

func TestRed(t *testing.T) {
	for name, tests := range map[string]string{
		"failure":     "func TestA(t *testing.T) { t.Error(mark) }",
		"subtest":     "func TestA(t *testing.T) { t.Run(\"sub\", func(t *testing.T) { t.Error(mark) }) }",
		"panic":       "func TestA(t *testing.T) { if _, err := os.Stat(mark); err != nil { _ = os.WriteFile(mark, nil, 0o600); panic(\"x\") } }",
		"golden file": "func TestA(t *testing.T) { if _, err := os.Stat(mark); err != nil { _ = os.WriteFile(mark, nil, 0o600); t.Fatal(\"run with -rewrite\") } }",
		"main":        "func TestMain(m *testing.M) { m.Run(); os.Exit(1) }\nfunc TestA(t *testing.T) { _ = mark }",
		"death":       "func TestA(t *testing.T) { if _, err := os.Stat(mark); err != nil { _ = os.WriteFile(mark, nil, 0o600); os.Exit(1) } }\nfunc TestB(t *testing.T) {}",
		"exit":        "func TestA(t *testing.T) { _ = mark; os.Exit(0) }",
	} {
		t.Run(name, func(t *testing.T) {
			ok, said := run(t, tests)
			require.False(t, ok, said)
			require.Contains(t, said, "\nFAIL\texample")
			require.Contains(t, said, "1 failed, 0 skipped\n")
		})
	}
}

func TestTiers(t *testing.T) {
	dir := t.TempDir()
	for name, test := range map[string]string{"a_test.go": "TestA", "b_browser_linux_test.go": "TestB", "c_machine_test.go": "ExampleC"} {
		text := "package main\n\nfunc " + test + "() {}\n\nfunc Testing() {}\n"
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	byTier, err := split(processPackage, dir, []string{"a_test.go", "b_browser_linux_test.go", "c_machine_test.go"})
	require.NoError(t, err)
	require.Equal(t, map[string][]string{processes: {"TestA"}, browsers: {"TestB"}, machines: {"ExampleC"}}, byTier)
	byTier, err = split("parley/actors", dir, []string{"a_test.go"})
	require.NoError(t, err)
	require.Equal(t, map[string][]string{inProcess: nil}, byTier, "all of a package: no names")
	require.Equal(t, nodes, tierOf("parley/bench/nodes", "a_test.go"))
	require.Equal(t, inProcess, tierOf("parley/persistence/keys", "a_test.go"))
}

// TestShown: what is printed of a failed test are its own words and those of the subtests that failed.
func TestShown(t *testing.T) {
	_, said := run(t, `func TestA(t *testing.T) {
	_ = mark
	t.Run("good", func(t *testing.T) { t.Log("all is well") })
	t.Run("bad", func(t *testing.T) { t.Error("this is wrong") })
}
`)
	require.Contains(t, said, "this is wrong")
	require.NotContains(t, said, "all is well")
}
