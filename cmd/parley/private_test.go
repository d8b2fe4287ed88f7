package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDataIsPrivate: nobody but its owner reads a data directory, nor writes there: of a new one, of one that a release before
// has left open, and of one that comes out of a backup, which is private itself.
func TestDataIsPrivate(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: runs real processes")
	}
	p := newProcess(t, testAgents)
	private := func(dir string) {
		t.Helper()
		found := 0
		require.NoError(t, filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := entry.Info()
			require.NoError(t, err)
			found++
			want := fs.FileMode(0o600)
			if entry.IsDir() {
				want = 0o700
			}
			require.Equal(t, want, info.Mode().Perm(), name)
			return nil
		}))
		require.Greater(t, found, 5)
	}
	p.start()
	p.send(p.create("quick"), "hello")
	private(p.dir)
	require.NoError(t, p.terminate())

	require.NoError(t, filepath.WalkDir(p.dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return os.Chmod(name, 0o644)
		}
		return os.Chmod(name, 0o755)
	}))
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	require.NoError(t, os.WriteFile(elsewhere, nil, 0o600))
	require.NoError(t, os.Chmod(elsewhere, 0o644))
	link := filepath.Join(p.dir, "link")
	require.NoError(t, os.Symlink(elsewhere, link))
	p.start()
	require.NoError(t, os.Remove(link))
	private(p.dir)
	info, err := os.Stat(elsewhere)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o644), info.Mode().Perm(), "what is not in the directory is not its business")

	file := filepath.Join(t.TempDir(), "backup.zip")
	got := runBinary(t, []string{"PARLEY_OPS=http://" + p.ops}, "backup", "--out", file)
	require.Equal(t, 0, got.code, got.stderr)
	info, err = os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode().Perm())
	restored := filepath.Join(t.TempDir(), "restored")
	got = runBinary(t, nil, "restore", "--from", file, "--data-dir", restored)
	require.Equal(t, 0, got.code, got.stderr)
	private(restored)
}
