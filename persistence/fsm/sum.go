package fsm

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"parley/persistence/index"
	"parley/persistence/keys"
	"parley/proto/logpb"
)

// sum names a row of numbers.
type sum struct{ name, member string }

// sumsAlone adds sums that belong to no append.
func (m *Machine) sumsAlone(group uint32, s *logpb.Sums, result *logpb.Result) error {
	if !valid(ValidateSums(s.GetSums())) {
		return nil
	}
	result.Outcome = logpb.Outcome_APPLIED
	return m.addAll(group, s.GetSums())
}

func (m *Machine) addAll(group uint32, sums []*logpb.Sum) error {
	for _, s := range sums {
		if err := m.add(group, sum{s.GetName(), s.GetMember()}, s.GetDeltas()); err != nil {
			return err
		}
	}
	return nil
}

func (m *Machine) add(group uint32, to sum, deltas []int64) error {
	numbers, ok := m.seen.sums[to]
	if !ok && !m.seen.gone(to) {
		m.key = keys.AppendSum(m.key[:0], group, to.name, to.member)
		err := m.get(m.key, func(value []byte) (err error) {
			numbers, err = keys.SumFields(make([]int64, 0, MaxDeltas), value)
			return err
		})
		if err != nil {
			return fmt.Errorf("read sum: %w", err)
		}
	}
	m.seen.sums[to] = keys.AddNumbers(numbers, deltas)
	return nil
}

// trimSums removes rows and packs from the database, and drops those of this batch.
func (m *Machine) trimSums(batch *pebble.Batch, group uint32, t *logpb.TrimSums, result *logpb.Result) error {
	if !valid(ValidateTrim(t)) {
		return nil
	}
	err := index.SumNames(m.db, group, t.GetPrefix(), func(name, first string) error {
		if first >= t.GetBefore() {
			return nil
		}
		return batch.DeleteRange(keys.AppendSums(nil, group, name), keys.AppendSum(nil, group, name, t.GetBefore()), nil)
	})
	if err != nil {
		return fmt.Errorf("trim sums: %w", err)
	}
	if err := m.trimPacks(batch, group, t); err != nil {
		return fmt.Errorf("trim sums: %w", err)
	}
	for row := range m.seen.sums {
		if trims(t, row) {
			m.seen.sums[row] = nil
		}
	}
	m.seen.trims = append(m.seen.trims, t)
	result.Outcome = logpb.Outcome_APPLIED
	return nil
}

func trims(t *logpb.TrimSums, row sum) bool {
	return strings.HasPrefix(row.name, t.GetPrefix()) && row.member < t.GetBefore()
}

// gone reports whether an entry of this batch removed the row that the database still shows.
func (o *overlay) gone(row sum) bool {
	return slices.ContainsFunc(o.trims, func(t *logpb.TrimSums) bool { return trims(t, row) }) ||
		slices.ContainsFunc(o.packed, func(p *logpb.PackSums) bool { return packs(p, row) })
}

// writeSums writes each row once per batch, however often it was added to, without trailing zeros.
func (m *Machine) writeSums(batch *pebble.Batch, group uint32) error {
	if len(m.seen.sums) == 0 {
		return nil
	}
	rows := make([]sum, 0, len(m.seen.sums))
	for row := range m.seen.sums {
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b sum) int { return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.member, b.member)) })
	var value []byte
	for _, row := range rows {
		m.key = keys.AppendSum(m.key[:0], group, row.name, row.member)
		numbers := index.WithoutZeros(m.seen.sums[row])
		var err error
		if len(numbers) == 0 {
			err = batch.Delete(m.key, nil)
		} else {
			value = keys.AppendSumValue(value[:0], numbers)
			err = batch.Set(m.key, value, nil)
		}
		if err != nil {
			return fmt.Errorf("write sum: %w", err)
		}
	}
	return nil
}
