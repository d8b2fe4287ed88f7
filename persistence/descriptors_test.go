package persistence_test

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// TestNoDescriptorsLeft takes all file descriptors of the process away from a store on a real disk, for longer than it
// waits for one: it goes on with those that it holds back.
func TestNoDescriptorsLeft(t *testing.T) {
	o := small(vfs.Default)
	o.Dir = filepath.Join(t.TempDir(), "data")
	o.SpareFiles, o.MaxOpenFiles = 16, 8
	s := start(t, o)
	defer s.Stop()
	book := newLedger()

	give := takeDescriptors(t)
	err := runScripts(s, 3, 80, book)
	give()
	require.NoError(t, err)
	require.NoError(t, s.Writable())
	verify(t, s, 3, book.copy())
}

// takeDescriptors leaves the process without a file descriptor until give.
func takeDescriptors(t *testing.T) (give func()) {
	t.Helper()
	var before syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before))
	highest := 0
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, entry := range entries {
		number, err := strconv.Atoi(entry.Name())
		require.NoError(t, err)
		highest = max(highest, number)
	}
	tight := before
	tight.Cur = uint64(highest) + 1
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &tight))
	var taken []*os.File
	give = func() {
		for _, file := range taken {
			_ = file.Close() // of nothing
		}
		taken = nil
		require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before))
	}
	t.Cleanup(give)
	for {
		file, err := os.Open(os.DevNull)
		if err != nil {
			require.ErrorIs(t, err, syscall.EMFILE)
			return give
		}
		taken = append(taken, file)
	}
}
