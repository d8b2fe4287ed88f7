package persistence_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/persistence"
)

// What reads cost that ask, on one node next to nothing, and those that may be stale; and a look at the replicas.
func BenchmarkFreshAndStale(b *testing.B) {
	s := benchStore(b)
	for i := range 1600 {
		require.NoError(b, create(b.Context(), s, i, 2))
	}
	list := persistence.ListQuery{List: "user/u1/updated", Limit: 20}
	group, id := benchID(5)
	for name, read := range map[string]func(ctx context.Context) error{
		"head": func(ctx context.Context) error { _, _, err := s.Head(ctx, group, id); return err },
		"list": func(ctx context.Context) error { _, err := s.List(ctx, list); return err },
	} {
		for kind, ctx := range map[string]context.Context{"fresh": b.Context(), "stale": persistence.WithStale(b.Context())} {
			b.Run(fmt.Sprintf("%s/%s", name, kind), func(b *testing.B) {
				b.ReportAllocs()
				for range b.N {
					require.NoError(b, read(ctx))
				}
			})
		}
	}
	b.Run("replicas", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			_, err := s.Replicas(b.Context())
			require.NoError(b, err)
		}
	})
}

// A backup of all shards and its restore, on the disk of the temporary directory.
func BenchmarkBackup(b *testing.B) {
	s := benchStore(b)
	for i := range 8_000 {
		require.NoError(b, create(b.Context(), s, i, 30))
	}
	dir := b.TempDir()
	name := func(group uint32) string { return filepath.Join(dir, fmt.Sprint(group)) }
	var bytesCopied uint64
	b.Run("backup", func(b *testing.B) {
		for range b.N {
			bytesCopied = 0
			for group := range uint32(17) {
				var out bytes.Buffer
				info, err := s.Backup(b.Context(), group, &out)
				require.NoError(b, err)
				require.NoError(b, os.WriteFile(name(group), out.Bytes(), 0o600))
				bytesCopied += info.Bytes
			}
			b.SetBytes(int64(bytesCopied))
		}
	})
	b.Run("restore", func(b *testing.B) {
		for range b.N {
			_, err := persistence.Restore(b.Context(), persistence.Options{Dir: b.TempDir()}, 16, func(group uint32) (io.ReadCloser, error) {
				return os.Open(name(group))
			})
			require.NoError(b, err)
			b.SetBytes(int64(bytesCopied))
		}
	})
}
