package reads

import (
	"context"
	"errors"
	"fmt"

	"parley/actors/core/failure"
	"parley/persistence"
	"parley/proto/failurepb"
)

// readFault turns a failed read into what the caller should see: a failure for temporary errors and damaged data.
func readFault(what string, err error) error {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: %w: %w", what, failure.New(failurepb.Code_UNAVAILABLE, failure.ReadTooSlow), err)
	case errors.Is(err, persistence.ErrNotLeader), errors.Is(err, persistence.ErrStopped), errors.Is(err, persistence.ErrBusy):
		return fmt.Errorf("%s: %w: %w", what, failure.New(failurepb.Code_UNAVAILABLE, failure.OwnerNotAvailable), err)
	case errors.Is(err, persistence.ErrCorrupt):
		return fmt.Errorf("%s: %w: %w", what, failure.New(failurepb.Code_STORAGE_FAILED, failure.DataDamaged), err)
	}
	return fmt.Errorf("%s: %w", what, err)
}
