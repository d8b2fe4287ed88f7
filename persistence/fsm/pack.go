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

// pack names a pack: that of a name whose span ends before a member.
type pack struct{ name, to string }

func packs(p *logpb.PackSums, row sum) bool {
	return row.name == p.GetName() && row.member >= p.GetFrom() && row.member < p.GetTo()
}

// packSums moves the rows of a span into the pack of that span.
func (m *Machine) packSums(batch *pebble.Batch, group uint32, p *logpb.PackSums, result *logpb.Result) error {
	if !valid(ValidatePack(p)) {
		return nil
	}
	result.Outcome = logpb.Outcome_SEQ_MISMATCH
	stored, free, err := m.packOf(group, p)
	if err != nil {
		return fmt.Errorf("read pack: %w", err)
	}
	if !free {
		return nil
	}
	rows, shown, err := m.rowsOf(group, p)
	if err != nil {
		return fmt.Errorf("read sums: %w", err)
	}
	added := len(rows)
	if added > MaxPacked { // these are not all
		return nil
	}
	if rows, err = addPacked(rows, stored); err != nil {
		return fmt.Errorf("read pack: %w", err)
	}
	if len(rows) > MaxPacked {
		return nil
	}
	result.Outcome = logpb.Outcome_APPLIED
	if added == 0 {
		return nil
	}
	if err := m.unpacked(batch, group, p, shown); err != nil {
		return fmt.Errorf("pack sums: %w", err)
	}
	m.seen.packed = append(m.seen.packed, p)
	key, to := keys.AppendPack(nil, group, p.GetName(), p.GetTo()), pack{p.GetName(), p.GetTo()}
	if len(rows) == 0 {
		m.seen.packs[to] = nil
		return batch.Delete(key, nil)
	}
	m.seen.packs[to] = keys.AppendPackValue(nil, p.GetFrom(), int(p.GetHead()), rows)
	return batch.Set(key, m.seen.packs[to], nil)
}

// packScan is up to how many rows are removed one by one, as in deleteScan: most projects have few in a day, and a range tombstone for
// each would slow down all reads.
const packScan = 64

// unpacked removes rows that go into a pack: those that the database shows, and those of this batch.
func (m *Machine) unpacked(batch *pebble.Batch, group uint32, p *logpb.PackSums, shown []string) error {
	for row := range m.seen.sums {
		if packs(p, row) {
			m.seen.sums[row] = nil
		}
	}
	if len(shown) > packScan {
		start, end := keys.AppendSum(nil, group, p.GetName(), p.GetFrom()), keys.AppendSum(nil, group, p.GetName(), p.GetTo())
		return batch.DeleteRange(start, end, nil)
	}
	for _, member := range shown {
		m.key = keys.AppendSum(m.key[:0], group, p.GetName(), member)
		if err := batch.Delete(m.key, nil); err != nil {
			return err
		}
	}
	return nil
}

// rowsOf is the rows of a span that are in no pack, by member, and which of them the database shows. It ends beyond the limit.
func (m *Machine) rowsOf(group uint32, p *logpb.PackSums) (rows []keys.NumberedMember, shown []string, err error) {
	err = index.VisitRows(m.db, group, index.SumQuery{Name: p.GetName(), From: p.GetFrom(), To: p.GetTo()}, func(member []byte, values []int64) error {
		row := sum{p.GetName(), string(member)}
		if _, newer := m.seen.sums[row]; newer || m.seen.gone(row) {
			return nil
		}
		shown = append(shown, row.member)
		if rows = append(rows, keys.NumberedMember{Member: row.member, Values: slices.Clone(values)}); len(rows) > MaxPacked {
			return index.ErrEnough
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	for row, values := range m.seen.sums {
		if packs(p, row) && len(index.WithoutZeros(values)) > 0 {
			rows = append(rows, keys.NumberedMember{Member: row.member, Values: values})
		}
	}
	slices.SortFunc(rows, byMember)
	return rows, shown, nil
}

func byMember(x, y keys.NumberedMember) int { return cmp.Compare(x.Member, y.Member) }

// addPacked adds the rows of a pack to others. What is zero then is left out.
func addPacked(rows []keys.NumberedMember, stored []byte) ([]keys.NumberedMember, error) {
	all := slices.Clone(rows)
	if stored != nil {
		r, err := keys.ReadPack(stored)
		if err != nil {
			return nil, err
		}
		if err := r.Each(func(head, tail []byte, values []int64) error {
			row := keys.NumberedMember{Member: string(head) + string(tail), Values: slices.Clone(values)}
			if i, both := slices.BinarySearchFunc(rows, row, byMember); both {
				all[i].Values = keys.AddNumbers(row.Values, rows[i].Values)
				return nil
			}
			all = append(all, row)
			return nil
		}); err != nil {
			return nil, err
		}
	}
	for i := range all {
		all[i].Values = index.WithoutZeros(all[i].Values)
	}
	all = slices.DeleteFunc(all, func(row keys.NumberedMember) bool { return len(row.Values) == 0 })
	slices.SortFunc(all, byMember)
	return all, nil
}

// packOf is the pack of a span as it is at this point of the batch, nil if there is none. The span is not free if another pack holds a
// part of it.
func (m *Machine) packOf(group uint32, p *logpb.PackSums) (value []byte, free bool, err error) {
	free = true
	look := func(r *keys.PackReader, to string, found []byte) {
		switch {
		case to == p.GetTo() && string(r.From) == p.GetFrom():
			value = slices.Clone(found)
		case to > p.GetFrom() && string(r.From) < p.GetTo():
			free = false
		}
	}
	span := index.SumQuery{Name: p.GetName(), From: p.GetFrom(), To: p.GetTo()}
	err = index.VisitPacks(m.db, group, span, func(r *keys.PackReader, to string, found []byte) error {
		if _, newer := m.seen.packs[pack{p.GetName(), to}]; !newer && !m.trimmed(pack{p.GetName(), to}) {
			look(r, to, found)
		}
		return nil
	})
	for of, found := range m.seen.packs {
		if err != nil || found == nil || of.name != p.GetName() {
			continue
		}
		var r *keys.PackReader
		if r, err = keys.ReadPack(found); err == nil {
			look(r, of.to, found)
		}
	}
	return value, free, err
}

// trimmed reports whether an entry of this batch removed the pack that the database still shows.
func (m *Machine) trimmed(of pack) bool {
	return slices.ContainsFunc(m.seen.trims, func(t *logpb.TrimSums) bool { return trimsPack(t, of) })
}

func trimsPack(t *logpb.TrimSums, of pack) bool {
	return strings.HasPrefix(of.name, t.GetPrefix()) && of.to <= t.GetBefore()
}

// trimPacks removes the packs that are old as a whole.
func (m *Machine) trimPacks(batch *pebble.Batch, group uint32, t *logpb.TrimSums) error {
	err := index.PackNames(m.db, group, t.GetPrefix(), func(name, first string) error {
		if first > t.GetBefore() {
			return nil
		}
		return batch.DeleteRange(keys.AppendPacks(nil, group, name), keys.AppendPack(nil, group, name, t.GetBefore()+"\x00"), nil)
	})
	for of := range m.seen.packs {
		if err == nil && trimsPack(t, of) {
			m.seen.packs[of] = nil
			err = batch.Delete(keys.AppendPack(nil, group, of.name, of.to), nil)
		}
	}
	return err
}
