package persistence

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

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

// Packing says how the store keeps sums whose time is over: those of a span of members in one row, a pack, which is a fraction of the size
// and of the time to read. Nobody sees a difference, and what is added later still counts. Releases before feature level PackedUsage
// cannot read packs.
type Packing struct {
	Prefix string                                // of the names
	Before string                                // spans that end after this member are left alone
	Span   func(member string) (from, to string) // that a member belongs to; spans do not overlap
	Parts  func(from string) []string            // the inner bounds of a span, at which it is cut when it has too many rows for a pack
	Head   int                                   // bytes at the beginning of a member that tell members of a span apart that are otherwise alike
}

// sweepSums removes old sums from a shard that this node leads, and packs others. trimmed and packed remember, by shard, up to which
// member that has been done.
func (s *Store) sweepSums(ctx context.Context, group uint32, trimmed, packed map[uint32]string) error {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	if s.opts.OldSums != nil {
		if prefix, before := s.opts.OldSums(s.opts.Now()); before != "" && before != trimmed[group] {
			if err := s.trimSums(ctx, group, prefix, before); err != nil {
				return err
			}
			trimmed[group] = before
		}
	}
	if s.opts.PackSums == nil {
		return nil
	}
	how := s.opts.PackSums(s.opts.Now())
	if how.Before == "" || how.Before == packed[group] {
		return nil
	}
	switch err := s.PackSums(ctx, group, how); {
	case errors.Is(err, context.DeadlineExceeded): // the next sweep goes on with it
	case err != nil:
		return err
	default:
		packed[group] = how.Before
	}
	return nil
}

func (s *Store) trimSums(ctx context.Context, group uint32, prefix, before string) error {
	old, err := s.hasSums(ctx, group, prefix, before)
	if err != nil || !old {
		return err
	}
	data, err := fsm.EncodeTrim(&logpb.TrimSums{Prefix: prefix, Before: before})
	if err != nil {
		return fmt.Errorf("trim sums: %w: %w", ErrInvalid, err)
	}
	if _, err = s.propose(ctx, replica.GroupID(group), data); err != nil {
		return fmt.Errorf("trim sums: %w", err)
	}
	return nil
}

// hasSums reports whether there are sums below a member, or packs of nothing else.
func (s *Store) hasSums(ctx context.Context, group uint32, prefix, before string) (found bool, err error) {
	r, err := s.begin(ctx, group)
	if err != nil {
		return false, err
	}
	err = errors.Join(
		index.SumNames(r.from, group, prefix, func(_, first string) error {
			found = found || first < before
			return nil
		}),
		index.PackNames(r.from, group, prefix, func(_, first string) error {
			found = found || first <= before
			return nil
		}),
	)
	if err != nil {
		return false, r.end(readError("sums", err))
	}
	return found, r.end(nil)
}

// PackSums packs the sums of a shard that this node leads, name by name and span by span.
func (s *Store) PackSums(ctx context.Context, group uint32, how Packing) error {
	r, err := s.begin(ctx, group)
	if err != nil {
		return err
	}
	first := map[string]string{}
	err = index.SumNames(r.from, group, how.Prefix, func(name, member string) error {
		if member < how.Before {
			first[name] = member
		}
		return nil
	})
	if err != nil {
		return r.end(readError("sums", err))
	}
	if err := r.end(nil); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(first)) {
		if err := s.packName(ctx, group, name, first[name], how); err != nil {
			return err
		}
	}
	return nil
}

// packName packs the spans of a name from that of a member on.
func (s *Store) packName(ctx context.Context, group uint32, name, member string, how Packing) error {
	for found := true; found; {
		from, to := how.Span(member)
		if to > how.Before || to <= from {
			return nil
		}
		packed, err := s.packSpan(ctx, group, &logpb.PackSums{Name: name, From: from, To: to, Head: uint32(how.Head)})
		for i, cuts := 0, append(how.Parts(from), to); err == nil && !packed && i < len(cuts); i++ {
			// A part that is too large even so stays as it is: it is read more slowly.
			_, err = s.packSpan(ctx, group, &logpb.PackSums{Name: name, From: from, To: cuts[i], Head: uint32(how.Head)})
			from = cuts[i]
		}
		if err != nil {
			return err
		}
		if member, found, err = s.firstSum(ctx, group, name, to); err != nil {
			return err
		}
	}
	return nil
}

// packSpan packs a span. It is refused when it has too many rows, or is packed in parts.
func (s *Store) packSpan(ctx context.Context, group uint32, p *logpb.PackSums) (packed bool, err error) {
	data, err := fsm.EncodePack(p)
	if err != nil {
		return false, fmt.Errorf("pack sums: %w: %w", ErrInvalid, err)
	}
	result, err := s.propose(ctx, replica.GroupID(group), data)
	if err != nil {
		return false, fmt.Errorf("pack sums: %w", err)
	}
	return result.GetOutcome() == logpb.Outcome_APPLIED, nil
}

// firstSum is the first member from one on that is in no pack.
func (s *Store) firstSum(ctx context.Context, group uint32, name, from string) (member string, found bool, err error) {
	r, err := s.begin(ctx, group)
	if err != nil {
		return "", false, err
	}
	err = index.VisitRows(r.from, group, SumQuery{Name: name, From: from}, func(first []byte, _ []int64) error {
		member, found = string(first), true
		return index.ErrEnough
	})
	if err != nil {
		return "", false, r.end(readError("sums", err))
	}
	return member, found, r.end(nil)
}

// SumVisitor is shown rows of numbers.
type SumVisitor = index.SumVisitor

// VisitSums visits rows of numbers of the given shards, which must be distinct (nil = all of conversations), shard by shard. It ends with ctx.
func (s *Store) VisitSums(ctx context.Context, groups []uint32, q SumQuery, visitor SumVisitor) error {
	if groups == nil {
		groups = s.groups
	}
	r, err := s.begin(ctx, groups...)
	if err != nil {
		return err
	}
	if err = index.VisitSums(r.from, groups, q, visitor, every(ctx)); err != nil {
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
