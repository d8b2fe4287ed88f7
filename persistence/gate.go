package persistence

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// gate stands between the storage engine and the file system. It turns the first failed write or sync into the
// failure of the store and lets nothing reach the disk after it: the kernel reports a failed sync once and forgets it,
// so an engine that tries again would believe that all is well. Reads pass.
//
// What it answers after the failure depends on the file. Tables and the manifest get the error: a flush or compaction
// then ends without effect, and the memory it would have freed is still read. The write-ahead log gets success, for
// bytes that go nowhere: Pebble cannot return an error where it changes its log file, it panics there with a lock
// released that a deferred call releases again, which no recover survives. Nobody takes that success for one: the
// failure is recorded, and the replica driver has it, before the log hears of success, and the driver asks for it
// after every commit.
type gate struct {
	vfs.FS
	condition *condition
}

// Bounds of the waits in gate: descriptors come back when connections close, space when something is removed.
const (
	descriptorRetries = 50
	descriptorWait    = 20 * time.Millisecond
	fullWait          = 100 * time.Millisecond
)

// Unwrap gives the file system below.
func (g *gate) Unwrap() vfs.FS { return g.FS }

// do runs an operation that changes the disk.
func (g *gate) do(op, path string, f func() error) error {
	if err := g.condition.failure(); err != nil {
		return err
	}
	return g.judge(op, path, withDescriptor(f))
}

// judge decides whether an error is the end. A full disk is not, for a flush or compaction, which is tried again; for
// the log it is, after the reserve has been given up in vain.
func (g *gate) judge(op, path string, err error) error {
	if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) {
		return err
	}
	mild := errors.Is(err, syscall.ENOSPC) || outOfDescriptors(err)
	if !mild || op == "sync" || isLog(path) || inRotation() {
		g.condition.fail(fmt.Errorf("%s %s: %w", op, path, err))
	}
	return err
}

func isLog(path string) bool { return strings.HasSuffix(path, ".log") }

// inRotation says whether Pebble is changing its log file on this goroutine.
func inRotation() bool {
	return onStack(func(function string) bool { return strings.HasSuffix(function, "pebble/v2.(*DB).rotateWAL") })
}

// onStack says whether a function of the calling goroutine's stack matches. It is for paths that happen once.
func onStack(match func(function string) bool) bool {
	pcs := make([]uintptr, 128)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	for {
		frame, more := frames.Next()
		if match(frame.Function) {
			return true
		}
		if !more {
			return false
		}
	}
}

func outOfDescriptors(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// withDescriptor tries again for a while when the process has no file descriptor left: a burst of connections must not
// be the end of the store.
func withDescriptor(f func() error) error {
	err := f()
	for range descriptorRetries {
		if !outOfDescriptors(err) {
			break
		}
		time.Sleep(descriptorWait)
		err = f()
	}
	return err
}

// Create makes a file. While the disk is full it waits a little: the engine repeats a failed flush at once.
func (g *gate) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if g.condition.full.Load() {
		time.Sleep(fullWait)
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
	f := &gatedFile{gate: g, name: name, log: isLog(name)}
	err := g.do(op, name, func() (err error) {
		f.File, err = open()
		return err
	})
	if err != nil {
		if !f.log || g.condition.failure() == nil {
			return nil, err
		}
		f.File = vfs.NewMemFile(nil) // stands in for the log; nothing is written to it
	}
	return f, nil
}

// Open opens a file for reading.
func (g *gate) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	var f vfs.File
	err := withDescriptor(func() (err error) {
		f, err = g.FS.Open(name, opts...)
		return err
	})
	return f, err
}

// Link makes a hard link.
func (g *gate) Link(oldname, newname string) error {
	return g.do("link", newname, func() error { return g.FS.Link(oldname, newname) })
}

// Rename renames a file.
func (g *gate) Rename(oldname, newname string) error {
	return g.do("rename", newname, func() error { return g.FS.Rename(oldname, newname) })
}

// MkdirAll makes a directory.
func (g *gate) MkdirAll(dir string, perm os.FileMode) error {
	return g.do("mkdir", dir, func() error { return g.FS.MkdirAll(dir, perm) })
}

// Remove removes a file; not after a failure, when nobody knows what is still needed.
func (g *gate) Remove(name string) error {
	if err := g.condition.failure(); err != nil {
		return err
	}
	return g.FS.Remove(name)
}

// RemoveAll removes a tree; not after a failure.
func (g *gate) RemoveAll(name string) error {
	if err := g.condition.failure(); err != nil {
		return err
	}
	return g.FS.RemoveAll(name)
}

// gatedFile is a file that is written through the gate.
type gatedFile struct {
	vfs.File
	gate *gate
	name string
	log  bool // of the write-ahead log
}

// do runs an operation on the file, see gate.
func (f *gatedFile) do(op string, run func() error) error {
	err := f.gate.do(op, f.name, run)
	if err != nil && f.gate.condition.failure() != nil && (f.log || inRotation()) {
		return nil
	}
	return err
}

func (f *gatedFile) Write(p []byte) (n int, err error) {
	err = f.do("write", func() (err error) {
		n, err = f.File.Write(p)
		return err
	})
	if err == nil {
		n = len(p)
	}
	return n, err
}

func (f *gatedFile) WriteAt(p []byte, off int64) (n int, err error) {
	err = f.do("write", func() (err error) {
		n, err = f.File.WriteAt(p, off)
		return err
	})
	if err == nil {
		n = len(p)
	}
	return n, err
}

func (f *gatedFile) Sync() error { return f.do("sync", f.File.Sync) }

func (f *gatedFile) SyncData() error { return f.do("sync", f.File.SyncData) }

func (f *gatedFile) SyncTo(length int64) (fullSync bool, err error) {
	err = f.do("sync", func() (err error) {
		fullSync, err = f.File.SyncTo(length)
		return err
	})
	return fullSync, err
}

func (f *gatedFile) Close() error {
	err := f.File.Close()
	if err != nil && f.log {
		return f.do("close", func() error { return err })
	}
	return err
}
