package seal

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"parley/actors/machine"
	"parley/cmd/parley/config"
	"parley/proto/failurepb"
)

func sealerOf(t *testing.T, dir, secret string, alone bool) *Sealer {
	t.Helper()
	c := config.Default()
	c.DataDir, c.ProviderEncryptionSecret = dir, config.Secret(secret)
	s, err := New(c, alone)
	require.NoError(t, err)
	return s
}

func TestSealedSecrets(t *testing.T) {
	s, other := sealerOf(t, t.TempDir(), "one", false), sealerOf(t, t.TempDir(), "two", false)
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "secret")
		about := rapid.String().Draw(t, "about")
		sealed, err := s.Seal(secret, about)
		require.NoError(t, err)
		if len(secret) > 8 {
			require.NotContains(t, string(sealed), string(secret))
		}
		opened, err := s.Open(sealed, about)
		require.NoError(t, err)
		require.Equal(t, string(secret), string(opened))
		_, err = s.Open(sealed, about+"x")
		require.Error(t, err, "of something else")
		_, err = other.Open(sealed, about)
		require.Error(t, err, "under another secret")
		at := rapid.IntRange(0, len(sealed)-1).Draw(t, "at")
		sealed[at] ^= 1
		_, err = s.Open(sealed, about)
		require.Error(t, err, "damaged")
		_, err = s.Open(sealed[:at], about)
		require.Error(t, err, "cut")
	})
}

func TestKeptSecret(t *testing.T) {
	dir := t.TempDir()
	sealed, err := sealerOf(t, dir, "", true).Seal([]byte("key"), "x")
	require.NoError(t, err)
	info, err := os.Stat(filepath.Join(dir, keyFile))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	opened, err := sealerOf(t, dir, "", false).Open(sealed, "x")
	require.NoError(t, err, "a node that has joined others since")
	require.Equal(t, "key", string(opened))

	_, err = sealerOf(t, t.TempDir(), "", false).Seal([]byte("key"), "x")
	var failure *machine.Failure
	require.ErrorAs(t, err, &failure)
	require.Equal(t, failurepb.Code_SECRETS_UNAVAILABLE, failure.Code)

	require.NoError(t, os.WriteFile(filepath.Join(dir, keyFile), nil, 0o600))
	c := config.Default()
	c.DataDir = dir
	_, err = New(c, true)
	require.ErrorContains(t, err, "is empty")
}
