package spool_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/actors/core/failure"
	"parley/cmd/parley/node/spool"
	"parley/proto/failurepb"
)

// TestUploadsHaveNoNames, are read as they were written, and give their room back.
func TestUploadsHaveNoNames(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "uploads")
	s := spool.New(folder, 1<<20)
	require.NoDirExists(t, folder, "nobody needed it")
	file, err := s.Create()
	require.NoError(t, err)
	_, err = io.Copy(file, bytes.NewReader(bytes.Repeat([]byte("abc"), 1000)))
	require.NoError(t, err)
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Empty(t, entries)
	got := make([]byte, 4)
	_, err = file.ReadAt(got, 2)
	require.NoError(t, err)
	require.Equal(t, "cabc", string(got))
	require.EqualValues(t, 3000, s.Bytes())
	require.NoError(t, file.Close())
	require.NoError(t, file.Close())
	require.Zero(t, s.Bytes())
	require.Zero(t, s.Files())
	_, err = file.ReadAt(got, 0)
	require.Error(t, err)
}

// TestUploadsAreBounded in number and in bytes, all of them together.
func TestUploadsAreBounded(t *testing.T) {
	s := spool.New(t.TempDir(), 100)
	first, err := s.Create()
	require.NoError(t, err)
	second, err := s.Create()
	require.NoError(t, err)
	_, err = first.Write(make([]byte, 60))
	require.NoError(t, err)
	_, err = second.Write(make([]byte, 41))
	refused(t, err)
	require.NoError(t, first.Close())
	_, err = second.Write(make([]byte, 100))
	require.NoError(t, err)
	require.NoError(t, second.Close())

	var held []*spool.File
	for {
		file, full := s.Create()
		if full != nil {
			refused(t, full)
			break
		}
		held = append(held, file)
	}
	require.Len(t, held, 64)
	for _, file := range held {
		require.NoError(t, file.Close())
	}
	again, err := s.Create()
	require.NoError(t, err)
	require.NoError(t, again.Close())
}

func refused(t *testing.T, err error) {
	t.Helper()
	var why *failure.Failure
	require.ErrorAs(t, err, &why)
	require.Equal(t, failurepb.Code_UNAVAILABLE, why.Code)
	require.Equal(t, failure.UploadsFull, why.Reason)
}
