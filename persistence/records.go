package persistence

import (
	"context"

	"parley/persistence/fsm"
)

// AwaitRecords returns once this node's directory holds everything up to a version, which is a place in the directory's
// log. Errors: the context's, and ErrStopped.
func (s *Store) AwaitRecords(ctx context.Context, version uint64) error {
	return s.directory.Await(ctx, version, func() (bool, error) {
		// The loop knows of an installed state only after the directory was told that its memory is void; the database
		// would show it a moment before.
		groups, err := s.driver.Status(ctx)
		if err != nil {
			return false, err
		}
		for _, group := range groups {
			if group.Group == fsm.Directory {
				return group.Applied >= version, nil
			}
		}
		return false, nil
	})
}
