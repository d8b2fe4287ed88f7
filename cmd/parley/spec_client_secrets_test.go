package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// notInFiles looks for secrets in every file of a data directory.
func notInFiles(t *testing.T, dir string, secrets ...string) {
	t.Helper()
	seen := 0
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		seen++
		for _, secret := range secrets {
			require.Falsef(t, bytes.Contains(text, []byte(secret)), "%s is in %s", secret, path)
		}
		return err
	}))
	require.Positive(t, seen)
}
