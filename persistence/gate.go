package persistence

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// gate stands between the storage engine and the file system. It turns the first failed write or sync into the failure
// of the store and lets nothing reach the disk after it: the kernel reports a failed sync once and then forgets it, so
// an engine that retried would believe that the data is safe. Reads pass through.
//
// After the failure, operations on tables return errors: tables are read back, so a flush or compaction must end
// without effect. Operations on everything else (log, manifest, markers, directories) report success and write nothing:
// where Pebble changes its log or manifest it cannot return an error, but ends the process, or panics after releasing a
// lock that a deferred call releases again. That false success is never trusted: the failure has been reported to the
// replica driver before the engine gets the success, and the driver checks for it after every commit. The disk stays as
// it was, and the next start recovers from that.
type gate struct {
	vfs.FS
	condition   *condition
	descriptors *descriptorReserve
}

// Bounds of the waits in gate. Descriptors become free when connections close. A failed engine retries its flush in a
// loop, which tableWait slows down.
const (
	descriptorRetries = 50
	descriptorWait    = 20 * time.Millisecond
	tableWait         = 100 * time.Millisecond
)

// Unwrap returns the underlying file system.
func (g *gate) Unwrap() vfs.FS { return g.FS }

// do runs an operation that changes the disk. forget is true when the store has failed and the caller must pretend that
// the operation succeeded.
func (g *gate) do(op, path string, f func() error) (forget bool, err error) {
	if err = g.condition.known(); err != nil {
		return !isTable(path), err
	}
	err = g.withDescriptor(f)
	if err == nil || !fatal(op, path, err) {
		return false, err
	}
	g.condition.fail(fmt.Errorf("%s %s: %w", op, path, err))
	return !isTable(path), err
}

// fatal decides whether an error is the failure of the store. A full disk is not fatal for a table, since the engine
// retries; it is for the log, once giving up the reserve has not helped.
func fatal(op, path string, err error) bool {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrExist):
		return false
	case errors.Is(err, syscall.ENOSPC), outOfDescriptors(err):
		return op == "sync" || !isTable(path)
	default:
		return true
	}
}

func isTable(path string) bool {
	return strings.HasSuffix(path, ".sst") || strings.HasSuffix(path, ".blob")
}

func outOfDescriptors(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// withDescriptor retries when the process has run out of file descriptors, first with the ones in reserve, then for a
// while: a burst of connections must not fail the store.
func (g *gate) withDescriptor(f func() error) error {
	err := f()
	for range descriptorRetries {
		if !outOfDescriptors(err) {
			break
		}
		if !g.descriptors.give() {
			time.Sleep(descriptorWait)
		}
		err = f()
	}
	return err
}

// Create creates a file. It delays table files while writes are refused, since Pebble repeats a failed flush at once.
func (g *gate) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if isTable(name) && g.condition.writable() != nil {
		time.Sleep(tableWait)
	}
	return g.file("create", name, func() (vfs.File, error) { return g.FS.Create(name, category) })
}

// OpenReadWrite opens a file for writing.
func (g *gate) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return g.file("open", name, func() (vfs.File, error) { return g.FS.OpenReadWrite(name, category, opts...) })
}

// OpenDir opens a directory for syncing.
func (g *gate) OpenDir(name string) (vfs.File, error) {
	return g.file("open", name, func() (vfs.File, error) { return g.FS.OpenDir(name) })
}

// ReuseForWrite renames a file and opens it for writing.
func (g *gate) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return g.file("reuse", newname, func() (vfs.File, error) { return g.FS.ReuseForWrite(oldname, newname, category) })
}

func (g *gate) file(op, name string, open func() (vfs.File, error)) (vfs.File, error) {
	f := &gatedFile{gate: g, name: name}
	forget, err := g.do(op, name, func() (err error) {
		f.File, err = open()
		return err
	})
	switch {
	case forget:
		f.File = vfs.NewMemFile(nil) // a placeholder; nothing is written to it
	case err != nil:
		return nil, err
	}
	return f, nil
}

// Open opens a file for reading.
func (g *gate) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	var f vfs.File
	err := g.withDescriptor(func() (err error) {
		f, err = g.FS.Open(name, opts...)
		return err
	})
	return f, err
}

// Link creates a hard link.
func (g *gate) Link(oldname, newname string) error {
	return g.change("link", newname, func() error { return g.FS.Link(oldname, newname) })
}

// Rename renames a file.
func (g *gate) Rename(oldname, newname string) error {
	return g.change("rename", newname, func() error { return g.FS.Rename(oldname, newname) })
}

// MkdirAll creates a directory.
func (g *gate) MkdirAll(dir string, perm os.FileMode) error {
	return g.change("mkdir", dir, func() error { return g.FS.MkdirAll(dir, perm) })
}

func (g *gate) change(op, path string, f func() error) error {
	forget, err := g.do(op, path, f)
	if forget {
		return nil
	}
	return err
}

// Remove removes a file. After a failure it does nothing, since the file may still be needed.
func (g *gate) Remove(name string) error {
	if g.condition.failure() == nil {
		return g.FS.Remove(name)
	}
	return nil
}

// RemoveAll removes a tree. After a failure it does nothing.
func (g *gate) RemoveAll(name string) error {
	if g.condition.failure() == nil {
		return g.FS.RemoveAll(name)
	}
	return nil
}

// gatedFile is a file whose writes pass through the gate.
type gatedFile struct {
	vfs.File
	gate *gate
	name string
}

// Write writes.
func (f *gatedFile) Write(p []byte) (n int, err error) {
	return f.write(p, f.File.Write)
}

// WriteAt writes at an offset.
func (f *gatedFile) WriteAt(p []byte, off int64) (n int, err error) {
	return f.write(p, func(p []byte) (int, error) { return f.File.WriteAt(p, off) })
}

func (f *gatedFile) write(p []byte, write func([]byte) (int, error)) (n int, err error) {
	forget, err := f.gate.do("write", f.name, func() (err error) {
		n, err = write(p)
		return err
	})
	if forget {
		return len(p), nil
	}
	return n, err
}

// Sync makes the file durable.
func (f *gatedFile) Sync() error { return f.gate.change("sync", f.name, f.File.Sync) }

// SyncData makes the file's data durable.
func (f *gatedFile) SyncData() error { return f.gate.change("sync", f.name, f.File.SyncData) }

// SyncTo makes a prefix of the file durable.
func (f *gatedFile) SyncTo(length int64) (fullSync bool, err error) {
	err = f.gate.change("sync", f.name, func() (err error) {
		fullSync, err = f.File.SyncTo(length)
		return err
	})
	return fullSync, err
}

// Close closes the file. Its error counts as a write error, since it may report an earlier write.
func (f *gatedFile) Close() error {
	err := f.File.Close()
	if err == nil {
		return nil
	}
	return f.gate.change("close", f.name, func() error { return err })
}
