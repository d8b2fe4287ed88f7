// Package spool keeps uploads on disk while their requests last: what is too large for memory, and needed more than once.
//
// A file loses its name as soon as it is made, so that it is gone with the process whatever becomes of that. Both the number of files
// and their bytes in all are bounded; what exceeds them is refused, not queued: whoever waits holds a connection.
package spool

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"parley/actors/core/failure"
	"parley/proto/failurepb"
)

// maxFiles bounds the files at a time: each needs a descriptor.
const maxFiles = 64

// Spool is a folder of uploads. It is safe for concurrent use.
type Spool struct {
	folder string
	most   int64

	mu    sync.Mutex
	files int
	bytes int64
}

// New returns a spool in a folder of its own, which is made when it is first needed, for so many bytes in all.
func New(folder string, most int64) *Spool { return &Spool{folder: folder, most: most} }

// Bytes is how much is kept.
func (s *Spool) Bytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
}

// Files is how many uploads are kept.
func (s *Spool) Files() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.files
}

// Create makes an empty file.
func (s *Spool) Create() (*File, error) {
	if !s.take(1, 0) {
		return nil, full()
	}
	file, err := s.create()
	if err != nil {
		s.give(1, 0)
		return nil, err
	}
	return &File{spool: s, file: file}, nil
}

func (s *Spool) create() (*os.File, error) {
	if err := os.MkdirAll(s.folder, 0o700); err != nil {
		return nil, broken(err)
	}
	file, err := os.CreateTemp(s.folder, "upload-*")
	if err != nil {
		return nil, broken(err)
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, errors.Join(broken(err), file.Close())
	}
	return file, nil
}

// take takes room; false = there is none.
func (s *Spool) take(files int, bytes int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.files+files > maxFiles || s.bytes+bytes > s.most {
		return false
	}
	s.files, s.bytes = s.files+files, s.bytes+bytes
	return true
}

func (s *Spool) give(files int, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files, s.bytes = s.files-files, s.bytes-bytes
}

func full() error { return failure.New(failurepb.Code_UNAVAILABLE, failure.UploadsFull) }

// broken is an error of the disk, which the caller is told of without its details.
func broken(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return failure.New(failurepb.Code_STORAGE_FULL, failure.DiskFull)
	}
	return fmt.Errorf("keep an upload: %w", err)
}

// File is an upload. One goroutine writes it; then it may be read by several.
type File struct {
	spool *Spool
	file  *os.File
	bytes int64

	closing sync.Once
	err     error
}

// Write implements io.Writer.
func (f *File) Write(p []byte) (int, error) {
	if !f.spool.take(0, int64(len(p))) {
		return 0, full()
	}
	f.bytes += int64(len(p))
	n, err := f.file.Write(p)
	if err != nil {
		return n, broken(err)
	}
	return n, nil
}

// ReadAt implements io.ReaderAt. After Close it fails.
func (f *File) ReadAt(p []byte, offset int64) (int, error) { return f.file.ReadAt(p, offset) }

// Close gives the room back. It may be called twice.
func (f *File) Close() error {
	f.closing.Do(func() {
		f.err = f.file.Close()
		f.spool.give(1, f.bytes)
	})
	return f.err
}
