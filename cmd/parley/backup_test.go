package main

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/actors/core/feature"
	"parley/cmd/parley/node"
	"parley/persistence"
)

// TestBackupOfALaterReleaseIsRefused: by its level, and by its format, before anything is made of it.
func TestBackupOfALaterReleaseIsRefused(t *testing.T) {
	later := uint32(feature.Newest) + 1
	for want, manifest := range map[string]node.Manifest{
		fmt.Sprintf("this release has feature level %d, the backup is at level %d: restore it with a newer release", feature.Newest, later): {
			Format: persistence.FormatAt(later), Level: later, Shards: 1, Parts: make([]node.Part, 2),
		},
		"it has format 3, this version reads up to 2": {Format: 3, Shards: 1, Parts: make([]node.Part, 2)},
		"it has format 0, this version reads up to 2": {Shards: 1, Parts: make([]node.Part, 2)},
	} {
		var text bytes.Buffer
		file := zip.NewWriter(&text)
		entry, err := file.Create(node.ManifestName)
		require.NoError(t, err)
		require.NoError(t, json.NewEncoder(entry).Encode(manifest))
		require.NoError(t, file.Close())
		name, to := filepath.Join(t.TempDir(), "backup.zip"), filepath.Join(t.TempDir(), "data")
		require.NoError(t, os.WriteFile(name, text.Bytes(), 0o600))
		require.ErrorContains(t, restoreFrom(t.Context(), name, to, surroundings{stdout: &text, stderr: &text}), want)
		require.NoDirExists(t, to)
	}
}
