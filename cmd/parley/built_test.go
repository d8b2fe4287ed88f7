package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// builtFolder is where the tests find the commands that they start, and put them when they are not there. The gate sets GATE_BUILT
// and has them built before any test runs, so that no test waits for a compiler, or beside one.
var builtFolder = sync.OnceValues(func() (string, error) { // made once, by whoever needs it first
	if dir := os.Getenv("GATE_BUILT"); dir != "" {
		return dir, nil
	}
	return os.MkdirTemp("", "parley-test-")
})

// removeBuilt removes what was built for these tests alone.
func removeBuilt() {
	if os.Getenv("GATE_BUILT") != "" {
		return
	}
	if dir, err := builtFolder(); err == nil {
		_ = os.RemoveAll(dir) // of a temporary directory
	}
}

// built returns a command by its name, made by make when it is not there yet.
func built(name string, make func(binary string) (said []byte, err error)) (string, error) {
	dir, err := builtFolder()
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, name)
	if _, err = os.Stat(binary); err == nil {
		return binary, nil
	}
	if said, err := make(binary); err != nil {
		return "", fmt.Errorf("build %s: %w: %s", name, err, said)
	}
	return binary, nil
}

// TestCommandsAreBuilt builds all of them.
func TestCommandsAreBuilt(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: builds several commands")
	}
	for _, command := range []func() (string, error){builtBinary, goClient, oldBinary} {
		if _, err := command(); !errors.Is(err, errNoHistory) {
			require.NoError(t, err)
		}
	}
}
