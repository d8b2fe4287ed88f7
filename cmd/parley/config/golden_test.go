package config

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		require.NoError(t, os.WriteFile(path, got, 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}

// lines is the problems of an error, sorted: their order is of no account.
func lines(err error) string {
	problems := strings.Split(err.Error(), "\n")
	slices.Sort(problems)
	return "    " + strings.Join(problems, "\n    ") + "\n"
}

// What users read about the settings: names, comments, defaults.
func TestGoldenPrint(t *testing.T) {
	var printed, usage bytes.Buffer
	require.NoError(t, Default().Print(&printed))
	golden(t, "print.golden", printed.Bytes())
	require.NoError(t, WriteUsage(&usage))
	golden(t, "usage.golden", usage.Bytes())
}

// Which values every setting takes, and what is said about the others.
func TestGoldenBounds(t *testing.T) {
	values := map[string][]string{
		"NUMBER":   {"-1", "0", "1", "3", "50", "5000", "200000", "20000000"},
		"DURATION": {"0", "1ms", "50ms", "500ms", "30s", "2m", "11m", "2h", "200h", "9000h", "1000000h"},
		"SIZE":     {"0", "1", "100", "1KiB", "20KiB", "512KiB", "3MiB", "20MiB", "100MiB", "2GiB", "3GiB", "2TiB", "2000TiB"},
		"TEXT":     {"", "a", "/a/", "deny", "query"},
		"A,B":      {"", "a", "/a", "query, body"},
	}
	var out strings.Builder
	for _, s := range settings(Default()) {
		if strings.HasSuffix(s.key, "_file") {
			continue // names a file
		}
		for _, text := range values[strings.TrimSpace(s.metavar())] {
			args := []string{"--" + s.flag() + "=" + text}
			if s.key != "cluster.listen" && s.key != "join" {
				args = append(args, "--cluster-listen=127.0.0.1:7000")
			}
			if _, err := Load(args, nil); err != nil {
				fmt.Fprintf(&out, "%s=%s\n%s", s.key, text, lines(err))
			}
		}
	}
	_, err := Load([]string{"--cluster-election-timeout=1ms"}, nil)
	require.NoError(t, err, "settings of the cluster do not concern a node that is alone")
	golden(t, "bounds.golden", []byte(out.String()))
}

// The same for the items of lists, which have bounds and defaults of their own.
func TestGoldenItems(t *testing.T) {
	var out strings.Builder
	for _, item := range []string{
		"max_turns: 1001", "max_turns: -1",
		"model: {provider: scripted, max_output_tokens: -1}", "model: {provider: scripted, max_output_tokens: 10000001}",
		"model: {provider: scripted, context_tokens: 100000001}", "model: {provider: scripted, retries: 11}",
		"model: {provider: scripted, temperature: 2.5, top_p: 1.5}", "model: {provider: scripted, script: {tokens: 1000001}}",
		"model: {provider: x}", "model: {provider: scripted, script: {steps: [{error_code: x}]}}",
		"capabilities: {attachments: {max_files: 1001, retention_days: 36501}}",
		"experience: {feedback: {max_comment_length: 100001}, export: {formats: [md, doc]}}",
		"default_budget: {max_cost: 1, on_reach: x}",
		"tools: [{name: a, client: true, timeout: 16m, action_timeout: 9000h, max_result: 2MiB, approval: x}]",
		"tools: [{name: a, builtin: x}]", "tools: [{name: a, url: 'http://a.example', method: x}]",
		"tool_sources: [{name: a, mcp_url: 'http://a.example', policy: {timeout: 16m, approval: x}}]",
		"tool_sources: [{name: a, mcp_url: 'http://a.example', policies: [{tool: t, policy: {timeout: 16m, max_result: 2MiB}}]}]",
		"title_model: {provider: y, retries: 11}",
	} {
		if !strings.HasPrefix(item, "model:") {
			item = "model: {provider: scripted}\n    " + item
		}
		_, err := load(t, "agents:\n  - id: a\n    "+item+"\n", nil)
		require.Error(t, err)
		fmt.Fprintf(&out, "%s\n%s", strings.ReplaceAll(item, "\n    ", ", "), lines(err))
	}
	golden(t, "items.golden", []byte(out.String()))
}
