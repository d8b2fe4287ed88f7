package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/bench"
)

// releaseBefore is the file that names the commit of the release before this one. Whoever makes a release writes its commit there.
const releaseBefore = "testdata/release-before"

// oldBinary is the command of the release before, built once for all tests of the package from the repository's own history.
var oldBinary = sync.OnceValues(func() (string, error) { // built once, by whoever needs it first
	text, err := os.ReadFile(releaseBefore)
	if err != nil {
		return "", err
	}
	ctx, commit := context.Background(), strings.TrimSpace(string(text))
	output, err := exec.CommandContext(ctx, "git", "cat-file", "-e", commit+"^{commit}").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: commit %s: %w: %s", errNoHistory, commit, err, output)
	}
	return built("parley-release-before", func(binary string) ([]byte, error) {
		dir, err := os.MkdirTemp("", "parley-release-before-")
		if err != nil {
			return nil, err
		}
		defer func() { _ = os.RemoveAll(dir) }() // what is left of a temporary folder harms nobody
		// -trimpath: packages that are the same in both releases come from the build cache, wherever the source is.
		const script = `git -C "$(git rev-parse --show-toplevel)" archive "$2" | tar x -C "$1" &&
			cd "$1" && go build -trimpath -ldflags='-s -w' -o "$3" ./cmd/parley`
		return exec.CommandContext(ctx, "bash", "-o", "pipefail", "-c", script, "bash", dir, commit, binary).CombinedOutput()
	})
})

// errNoHistory says that the repository does not hold the release before, as in a shallow clone.
var errNoHistory = errors.New("the history of the repository is not here")

// TestRollingUpgrade is the short form of `parley bench upgrade`: three nodes of the release before are restarted one by one
// into this one, back, and into this one again, while turns, streams, tasks and runs go on. None may fail or be lost.
func TestRollingUpgrade(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: runs several real processes")
	}
	old, err := oldBinary()
	if errors.Is(err, errNoHistory) {
		t.Skip(err)
	}
	require.NoError(t, err)
	binary, err := builtBinary()
	require.NoError(t, err)
	var stdout, stderr bytes.Buffer
	args := []string{"upgrade", "-from", old, "-binary", binary, "-quiet", "-rate", "40", "-records", "40", "-followers", "40"}
	code := bench.Main(t.Context(), args, &stdout, &stderr, nil)
	t.Log(stdout.String())
	require.Zero(t, code, stderr.String())
}
