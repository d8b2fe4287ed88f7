package persistence_test

import (
	"context"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// ctx is for helpers that serve tests and properties alike.
var ctx = context.Background()

// eventuallyError calls f until it returns an error.
func eventuallyError(f func() error) error {
	for {
		if err := f(); err != nil {
			return err
		}
	}
}

// eventuallyNil calls f until it returns no error.
func eventuallyNil(f func() error) error {
	deadline := time.Now().Add(60 * time.Second)
	for {
		err := f()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		<-time.After(time.Millisecond)
	}
}

// crashable is a file system in memory whose crash clones may be taken while log files are reused: as it comes it locks
// twice for that, and stops for ever when a clone waits in between.
type crashable struct{ *vfs.MemFS }

// ReuseForWrite renames a file and opens it for writing.
func (c crashable) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := c.Rename(oldname, newname); err != nil {
		return nil, err
	}
	return c.OpenReadWrite(newname, category)
}
