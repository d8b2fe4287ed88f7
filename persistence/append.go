package persistence

import (
	"context"
	"fmt"
	"time"

	"parley/persistence/fsm"
	"parley/persistence/replica"
	"parley/proto/logpb"
)

// Append writes to one entity of a shard, all or nothing, and returns once that is durable and applied here. The
// result's outcome says whether the entity was where the writer believed; the append must not change meanwhile.
// Errors say that it did not come to a comparison, see the Err values.
func (s *Store) Append(ctx context.Context, group uint32, a *logpb.Append) (*logpb.Result, error) {
	if err := fsm.Validate(a); err != nil {
		return nil, fmt.Errorf("append to %s: %w", a.GetId(), err)
	}
	data, err := fsm.Encode(a)
	if err != nil {
		return nil, fmt.Errorf("append to %s: %w: %w", a.GetId(), ErrInvalid, err)
	}
	start := time.Now()
	result, err := s.propose(ctx, replica.GroupID(group), data)
	s.metrics.appended(result, err, time.Since(start))
	return result, err
}
