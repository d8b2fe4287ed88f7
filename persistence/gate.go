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
// failure of the store and lets nothing be written after it: the kernel reports a failed sync once and forgets it, so
// an engine that tries again would believe that all is well. Reads pass.
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
		return g.refuse(err)
	}
	return g.judge(op, path, withDescriptor(f))
}

// judge decides whether an error is the end.
func (g *gate) judge(op, path string, err error) error {
	if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) {
		return err
	}
	mild := errors.Is(err, syscall.ENOSPC) || outOfDescriptors(err)
	if mild && op != "sync" && !inRotation() {
		return err // a flush or compaction is tried again; a write to the log is fatal, and the engine says so
	}
	g.condition.fail(fmt.Errorf("%s %s: %w", op, path, err))
	return g.refuse(err)
}

// refuse returns the error, except where the engine would end the process on it: it changes its log file with a lock
// released that a deferred call releases again. There the goroutine waits for the end of the process, holding the lock
// of the commit pipeline, which nobody may use any more anyway.
func (g *gate) refuse(err error) error {
	if inRotation() {
		select {}
	}
	return err
}

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
	var f vfs.File
	err := g.do(op, name, func() (err error) {
		f, err = open()
		return err
	})
	if err != nil {
		return nil, err
	}
	return &gatedFile{File: f, gate: g, name: name}, nil
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
}

func (f *gatedFile) Write(p []byte) (n int, err error) {
	err = f.gate.do("write", f.name, func() (err error) {
		n, err = f.File.Write(p)
		return err
	})
	return n, err
}

func (f *gatedFile) WriteAt(p []byte, off int64) (n int, err error) {
	err = f.gate.do("write", f.name, func() (err error) {
		n, err = f.File.WriteAt(p, off)
		return err
	})
	return n, err
}

func (f *gatedFile) Sync() error {
	return f.gate.do("sync", f.name, f.File.Sync)
}

func (f *gatedFile) SyncData() error {
	return f.gate.do("sync", f.name, f.File.SyncData)
}

func (f *gatedFile) SyncTo(length int64) (fullSync bool, err error) {
	err = f.gate.do("sync", f.name, func() (err error) {
		fullSync, err = f.File.SyncTo(length)
		return err
	})
	return fullSync, err
}

// Close closes the file. After a failure it is also where a change of the log file is stopped.
func (f *gatedFile) Close() error {
	err := f.File.Close()
	if failure := f.gate.condition.failure(); failure != nil {
		return f.gate.refuse(errors.Join(failure, err))
	}
	return err
}
