package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// apidocsFolder has the linter, the generator of types and the compiler.
const apidocsFolder = "testdata/apidocs"

// TestAPIDocuments: a linter finds no error in the documents that are served, types can be made of them, and with these types the
// programs of README.md and the other documents compile.
func TestAPIDocuments(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: runs a process")
	}
	node := nodeWith(t, "apidocs", "openapi-typescript")
	p := newProcess(t, "")
	p.start()
	dir := t.TempDir()
	served := map[string]string{
		"conversations": "/api/agents/docs/openapi.json", "client-api": "/api/client/v1/openapi.json", "dashboard": "/api/openapi.json",
	}
	modules, err := filepath.Abs(apidocsFolder + "/node_modules")
	require.NoError(t, err)
	run := func(program string, args ...string) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		command := exec.CommandContext(ctx, node, append([]string{filepath.Join(modules, program)}, args...)...) //nolint:gosec // of this test
		command.Dir = dir
		command.Env = append(os.Environ(), "REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true")
		said, err := command.CombinedOutput()
		require.NoError(t, err, "%s", said)
	}
	lint := []string{"lint", "--config=redocly.yaml", "--format=stylish"}
	for name, path := range served {
		status, document := p.try("GET", "http://"+p.listen+path, nil)
		require.Equal(t, 200, status, path)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name+".json"), document, 0o600))
		lint = append(lint, name+".json")
		run("openapi-typescript/bin/cli.js", name+".json", "--output", name+".ts")
	}
	for _, name := range []string{"redocly.yaml", "tsconfig.json", "fetched.ts"} {
		text, err := os.ReadFile(filepath.Join(apidocsFolder, name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	run("@redocly/cli/bin/cli.js", lint...)
	compiled := 0
	for _, document := range documents(t) {
		for _, b := range readmeBlocks(t, document) {
			text := b.text
			switch b.language {
			case "js":
				text = typed(t, text)
			case "ts":
			default:
				continue
			}
			compiled++
			name := strings.NewReplacer("/", "-", ".md", "").Replace(document)
			require.NoError(t, os.WriteFile(filepath.Join(dir, name+".ts"), []byte(text), 0o600))
		}
	}
	require.Equal(t, 2, compiled, "of README.md in JavaScript, of docs/client-api.md in TypeScript")
	run("typescript/bin/tsc", "--project", "tsconfig.json")
}

// typed is a program in JavaScript whose function post sends and answers what the document says.
func typed(t *testing.T, program string) string {
	t.Helper()
	const plain = "const post = (path, body) =>"
	require.Contains(t, program, plain)
	return `import type { Answer, Body } from "./fetched"
declare const fetch: (address: string, given: object) => Promise<any>
` + strings.Replace(program, plain, "const post = <Path extends string>(path: Path, body: Body<Path>): Promise<Answer<Path>> =>", 1)
}
