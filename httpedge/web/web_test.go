package web

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/actors/core/guardrail"
	"parley/actors/core/moderate"
)

func TestFiles(t *testing.T) {
	site, version, err := Files(`/api/"agents"`)
	require.NoError(t, err)
	index, err := fs.ReadFile(site, "index.html")
	require.NoError(t, err)
	require.Contains(t, string(index), `content="/api/&#34;agents&#34;"`)
	require.NotContains(t, string(index), basePathMark)
	require.Contains(t, string(index), `src="v/`+version+`/app.js"`)
	require.NotContains(t, string(index), versionMark)
	entries, err := fs.ReadDir(site, ".")
	require.NoError(t, err)
	require.Greater(t, len(entries), 5)
	for _, entry := range entries {
		name := entry.Name()
		if entry.IsDir() { // vendored
			continue
		}
		text, unread := fs.ReadFile(site, name)
		require.NoError(t, unread)
		require.NotEmpty(t, text)
		if name != "icon.svg" {
			require.LessOrEqual(t, strings.Count(string(text), "\n"), 400, name)
		}
		// What an answer says never becomes HTML; the page's policy says so, too.
		require.NotRegexp(t, `innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser`, string(text), name)
		// The page must work with no network, and under a policy that allows no inline script.
		require.NotContains(t, strings.NewReplacer("http://www.w3.org/2000/svg", "", "http://www.w3.org/1998/Math/MathML", "").Replace(string(text)), "://", name)
	}
	require.NotContains(t, string(index), "<script>")
	require.NotContains(t, string(index), "style=")
	_, err = fs.ReadFile(site, "absent")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// TestConsoleFiles: modules of one screen each, no text that becomes HTML, nothing from elsewhere, and a page that names those it needs.
func TestConsoleFiles(t *testing.T) {
	site, version, err := Files("/api/agents")
	require.NoError(t, err)
	page, err := fs.ReadFile(site, ConsoleFile)
	require.NoError(t, err)
	require.NotContains(t, string(page), preloadMark)
	require.NotContains(t, string(page), "style=")
	modules := 0
	err = fs.WalkDir(site, "dashboard", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(site, name)
		require.NoError(t, err)
		require.LessOrEqual(t, strings.Count(string(text), "\n"), 300, name)
		require.NotRegexp(t, `innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser`, string(text), name)
		require.NotContains(t, string(text), "://", name)
		modules++
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, modules, 30)
	require.Contains(t, string(page), `href="/v/`+version+`/dashboard/shell.js"`)
	require.NotContains(t, string(page), "waterfall.js", "only some pages need it")
	require.Contains(t, ConsolePaths(), "/dashboard/{a}/{b}")
}

// TestGuardrailsOfThePage: the form offers all that guardrails know.
func TestGuardrailsOfThePage(t *testing.T) {
	site, _, err := Files("/api/agents")
	require.NoError(t, err)
	text, err := fs.ReadFile(site, "dashboard/guardrails/rules.js")
	require.NoError(t, err)
	for _, name := range slices.Concat(guardrail.Actions(), guardrail.Categories(), moderate.Categories()) {
		require.Contains(t, string(text), "'"+name+"'")
	}
}

// TestLean: what is served has no comments, is otherwise what is written, and can be read.
func TestLean(t *testing.T) {
	const text = "// one\nconst a = 'http://b'; // two\n/** three\n * four\n */\n  /* five */\n  /** @type {x} */ let b; /* six */\nf(`x // seven`, {}); // isn't\n"
	require.Equal(t, "const a = 'http://b';\n/** @type {x} */ let b; /* six */\nf(`x // seven`, {}); // isn't\n", string(lean([]byte(text))))
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("no node in PATH: `make page-tools` installs it")
	}
	site, _, err := Files("")
	require.NoError(t, err)
	modules, err := fs.Glob(site, "*.js")
	require.NoError(t, err)
	sources := map[string]string{}
	for _, name := range modules {
		source, unread := fs.ReadFile(site, name)
		require.NoError(t, unread)
		sources[name] = string(source)
	}
	all, err := json.Marshal(sources)
	require.NoError(t, err)
	const read = `const { SourceTextModule } = require('vm'); for (const [identifier, source] of Object.entries(JSON.parse(require('fs').readFileSync(0)))) new SourceTextModule(source, { identifier })`
	command := exec.CommandContext(t.Context(), node, "--no-warnings", "--experimental-vm-modules", "-e", read)
	command.Stdin = bytes.NewReader(all)
	said, err := command.CombinedOutput()
	require.NoError(t, err, string(said))
}

// TestModules runs the tests of the page's modules, in testdata, by the runner of Node.js.
func TestModules(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("no node in PATH: `make page-tools` installs it")
	}
	files, err := filepath.Glob("testdata/*.test.js")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	output, err := exec.CommandContext(t.Context(), node, append([]string{"--test"}, files...)...).CombinedOutput()
	require.NoError(t, err, string(output))
}

func TestClusterRoute(t *testing.T) {
	view := View{Node: "n1", Owner: "n2", Epoch: 7, Nodes: []NodeView{{Name: "n1", State: NodeUp, Leads: 8, Replicas: 17}}}
	asked := ""
	route := ClusterRoute(func(_ context.Context, id string) View { asked = id; return view })
	require.True(t, route.Hidden)
	handler := clusterHandler{func(_ context.Context, id string) View { asked = id; return View{Node: "n1"} }}
	got, err := handler.getCluster(t.Context(), &clusterIn{Conversation: "conv_x"})
	require.NoError(t, err)
	require.Equal(t, "conv_x", asked)
	text, err := json.Marshal(got)
	require.NoError(t, err)
	require.JSONEq(t, `{"node":"n1","nodes":[]}`, string(text))
	text, err = json.Marshal(view)
	require.NoError(t, err)
	require.JSONEq(t, `{"node":"n1","owner":"n2","epoch":7,"nodes":[{"name":"n1","state":"up","leads":8,"replicas":17}]}`, string(text))
}
