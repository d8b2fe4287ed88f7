package persistence

import (
	"context"
	"fmt"

	"parley/persistence/fsm"
	"parley/persistence/index"
	"parley/persistence/replica"
	"parley/proto/logpb"
)

// Limits of AddSums.
const (
	MaxSums   = fsm.MaxSums
	MaxDeltas = fsm.MaxDeltas
)

// SumQuery selects rows of numbers.
type SumQuery = index.SumQuery

// SumRow is a row of numbers.
type SumRow = index.SumRow

// AddSums adds to rows of numbers of a shard, all or nothing. It is for numbers that belong to no entity; those that
// come with an entity's change go into its append. Errors: ErrInvalid above the limits, and those of every write; after
// ErrOutcomeUnknown a repeat may add twice.
func (s *Store) AddSums(ctx context.Context, group uint32, sums []*logpb.Sum) error {
	if err := fsm.ValidateSums(sums); err != nil {
		return fmt.Errorf("add to sums: %w", err)
	}
	data, err := fsm.EncodeSums(sums)
	if err != nil {
		return fmt.Errorf("add to sums: %w: %w", ErrInvalid, err)
	}
	if _, err = s.propose(ctx, replica.GroupID(group), data); err != nil {
		return fmt.Errorf("add to sums: %w", err)
	}
	return nil
}

// Sums reads rows of numbers by member, each added up over the given shards, which must be distinct.
func (s *Store) Sums(ctx context.Context, groups []uint32, q SumQuery) ([]SumRow, error) {
	r, err := s.begin(ctx, groups...)
	if err != nil {
		return nil, err
	}
	rows, err := index.Sums(r.from, groups, q)
	if err != nil {
		return nil, r.end(readError("sums", err))
	}
	return rows, r.end(nil)
}

// sweepSums removes old sums from a shard that this node leads. trimmed remembers, by shard, up to which member they
// have been removed.
func (s *Store) sweepSums(ctx context.Context, group uint32, trimmed map[uint32]string) error {
	if s.opts.OldSums == nil {
		return nil
	}
	prefix, before := s.opts.OldSums(s.opts.Now())
	if before == "" || before == trimmed[group] {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	old, err := s.hasSums(ctx, group, prefix, before)
	if err != nil {
		return err
	}
	if old {
		data, err := fsm.EncodeTrim(&logpb.TrimSums{Prefix: prefix, Before: before})
		if err != nil {
			return fmt.Errorf("trim sums: %w: %w", ErrInvalid, err)
		}
		if _, err = s.propose(ctx, replica.GroupID(group), data); err != nil {
			return fmt.Errorf("trim sums: %w", err)
		}
	}
	trimmed[group] = before
	return nil
}

// hasSums reports whether there are sums below a member.
func (s *Store) hasSums(ctx context.Context, group uint32, prefix, before string) (found bool, err error) {
	r, err := s.begin(ctx, group)
	if err != nil {
		return false, err
	}
	err = index.SumNames(r.from, group, prefix, func(_, first string) error {
		found = found || first < before
		return nil
	})
	if err != nil {
		return false, r.end(readError("sums", err))
	}
	return found, r.end(nil)
}

// VisitSums visits rows of numbers of the given shards, which must be distinct (nil = all of conversations), shard by shard: each adds to what others have under
// the same member. Member and values are valid until visit returns. It ends with ctx.
func (s *Store) VisitSums(ctx context.Context, groups []uint32, q SumQuery, visit func(member []byte, values []int64)) error {
	if groups == nil {
		groups = s.groups
	}
	r, err := s.begin(ctx, groups...)
	if err != nil {
		return err
	}
	goesOn := every(ctx)
	err = index.VisitSums(r.from, groups, q, func(member []byte, values []int64) error {
		visit(member, values)
		return goesOn()
	})
	if err != nil {
		return r.end(readError("sums", err))
	}
	return r.end(nil)
}

// SpreadQuery selects rows of a list by their score.
type SpreadQuery = index.SpreadQuery

// Spread counts rows of a list of the given shards, which must be distinct (nil = all of conversations). It ends with ctx.
func (s *Store) Spread(ctx context.Context, groups []uint32, q SpreadQuery) (map[int64]int64, error) {
	if groups == nil {
		groups = s.groups
	}
	if q.Unit <= 0 {
		return nil, fmt.Errorf("count list by %d: %w", q.Unit, ErrInvalid)
	}
	r, err := s.begin(ctx, groups...)
	if err != nil {
		return nil, err
	}
	counts, err := index.Spread(r.from, groups, q, every(ctx))
	if err != nil {
		return nil, r.end(readError("list", err))
	}
	return counts, r.end(nil)
}

// every looks after a context while rows are read, once in many rows.
func every(ctx context.Context) func() error {
	const rows = 4096
	n := 0
	return func() error {
		if n++; n%rows == 0 {
			return context.Cause(ctx)
		}
		return nil
	}
}
