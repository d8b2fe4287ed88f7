package persistence_test

import (
	"context"
	"time"
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
