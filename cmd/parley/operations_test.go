package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestStatusTellsThePlacersSteps: whichever node is asked, what the placement loop did is shown, and a placer that does
// not answer costs no more than that.
func TestStatusTellsThePlacersSteps(t *testing.T) {
	serving := func(text string) *httptest.Server {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }))
		t.Cleanup(server.Close)
		return server
	}
	placer := serving(`{"node":"n2","placer":"n2","steps":[{"at":"2026-01-01T10:00:02Z","step":"shard 1: promote n3"}]}`)
	asked := serving(fmt.Sprintf(`{"node":"n1","placer":"n2","nodes":[{"name":"n1","ops":"unused"},{"name":"n2","ops":%q}],
		"steps":[{"at":"2026-01-01T10:00:01Z","step":"shard 1: add_learner n3"}]}`, placer.Listener.Addr()))
	show := func() string {
		var out, problems bytes.Buffer
		code := status(t.Context(), []string{"-ops", asked.URL}, surroundings{stdout: &out, stderr: &problems})
		require.Equal(t, exitOK, code, problems.String())
		return out.String()
	}
	require.Regexp(t, `(?s)last steps.*add_learner n3.*promote n3`, show())
	placer.Close()
	require.Contains(t, show(), "add_learner n3")
}

// TestCompletion: what may come next, and the script of bash with it.
func TestCompletion(t *testing.T) {
	next := func(words ...string) []string {
		var out, problems bytes.Buffer
		require.Equal(t, exitOK, run(t.Context(), append([]string{"completion", "words"}, words...), surroundings{stdout: &out, stderr: &problems}))
		require.Empty(t, problems.String())
		return strings.Fields(out.String())
	}
	require.Subset(t, next(), []string{"serve", "token", "completion", "help"})
	require.Contains(t, next("serve"), "--ops-listen")
	require.Contains(t, next("serve", "--data-dir", "x"), "--log-level")
	require.Equal(t, []string{"list", "create", "delete"}, next("token"))
	require.Equal(t, []string{"--expires-in", "--label", "--ops", "--project", "--quiet", "--scope", "--user"}, next("token", "create"))
	require.Contains(t, next("node", "drain"), "--wait")
	require.Empty(t, next("fly"))
	if testing.Short() {
		t.Skip("-short: builds the binary")
	}
	binary, err := builtBinary()
	require.NoError(t, err)
	said, err := exec.CommandContext(t.Context(), "bash", "-c", `source <("$0" completion bash)
COMP_WORDS=("$0" token create --ex) COMP_CWORD=3
_parley
echo "${COMPREPLY[@]}"`, binary).CombinedOutput()
	require.NoError(t, err, "%s", said)
	require.Equal(t, "--expires-in\n", string(said))
}
