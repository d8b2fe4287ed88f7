package fsm

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"parley/persistence/keys"
	"parley/proto/logpb"
)

// deleteScan is up to how many rows a deleted entity is removed row by row; a larger one gets a range tombstone. Range
// tombstones slow down neighbouring reads until compaction, so ordinary entities do without.
const deleteScan = 1000

func (m *Machine) append(batch *pebble.Batch, group uint32, a *logpb.Append, result *logpb.Result) error {
	if !valid(Validate(a)) {
		return nil
	}
	stored, err := m.head(group, a.GetId())
	if err != nil {
		return err
	}
	result.Seq, result.Epoch = stored.seq, stored.epoch
	if result.Outcome = compare(a, stored); result.GetOutcome() != logpb.Outcome_APPLIED {
		return nil
	}
	if result.Outcome, err = m.blobsFit(group, a); err != nil || result.GetOutcome() != logpb.Outcome_APPLIED {
		return err
	}
	first := a.GetExpectedSeq() + 1
	if a.GetCreate() {
		first = 0
	}
	events := uint64(len(a.GetEvents())) + uint64(a.GetUnkept())
	next := head{seq: first + events - 1, epoch: a.GetEpoch(), exists: true, written: true}
	if a.GetCreate() && events == 0 {
		next.seq = 0
	}
	result.Seq, result.Epoch = next.seq, next.epoch
	if a.GetDeleteEntity() {
		next = head{written: true} // as if it had never existed: results of later entries must not depend on the batch
		err = m.deleteEntity(batch, group, a.GetId(), stored)
	} else {
		err = m.writeEntity(batch, group, a, first, next.seq)
	}
	if err != nil {
		return err
	}
	m.seen.heads[a.GetId()] = next
	if err := m.changeBlobs(batch, group, a); err != nil {
		return err
	}
	if err := m.writeListings(batch, group, a.GetListings()); err != nil {
		return err
	}
	if err := m.addAll(group, a.GetSums()); err != nil {
		return err
	}
	for _, c := range a.GetCounts() {
		if err := m.count(group, c.GetName(), c.GetDelta()); err != nil {
			return err
		}
	}
	return nil
}

// compare checks whether the entity is where the owner expects it. The fence comes first: an owner that has been
// replaced must learn that, and not retry with a newer seq.
func compare(a *logpb.Append, stored head) logpb.Outcome {
	switch {
	case stored.exists && a.GetEpoch() < stored.epoch:
		return logpb.Outcome_FENCED
	case a.GetCreate() && stored.exists:
		return logpb.Outcome_EXISTS
	case !a.GetCreate() && (!stored.exists || a.GetExpectedSeq() != stored.seq):
		return logpb.Outcome_SEQ_MISMATCH
	default:
		return logpb.Outcome_APPLIED
	}
}

func (m *Machine) writeEntity(batch *pebble.Batch, group uint32, a *logpb.Append, first, last uint64) error {
	m.key = keys.AppendHead(m.key[:0], group, a.GetId())
	op := batch.SetDeferred(len(m.key), keys.HeadPrefix+len(a.GetHead()))
	copy(op.Key, m.key)
	keys.AppendHeadValue(op.Value[:0], last, a.GetEpoch(), a.GetHead())
	if err := op.Finish(); err != nil {
		return fmt.Errorf("write head: %w", err)
	}
	for i, event := range a.GetEvents() {
		m.key = keys.AppendEvent(m.key[:0], group, a.GetId(), first+uint64(i))
		if err := batch.Set(m.key, event, nil); err != nil {
			return fmt.Errorf("write event: %w", err)
		}
	}
	for _, item := range a.GetItems() {
		m.key = keys.AppendItem(m.key[:0], group, a.GetId(), uint8(item.GetTable()), item.GetKey())
		if err := set(batch, m.key, item.GetValue(), item.GetDelete()); err != nil {
			return fmt.Errorf("write item: %w", err)
		}
	}
	return nil
}

func (m *Machine) writeListings(batch *pebble.Batch, group uint32, listings []*logpb.Listing) error {
	for _, l := range listings {
		m.key = keys.AppendListing(m.key[:0], group, l.GetList(), l.GetScore(), l.GetMember())
		if err := set(batch, m.key, l.GetValue(), l.GetDelete()); err != nil {
			return fmt.Errorf("write listing: %w", err)
		}
	}
	return nil
}

func set(batch *pebble.Batch, key, value []byte, remove bool) error {
	if remove {
		return batch.Delete(key, nil)
	}
	return batch.Set(key, value, nil)
}

// deleteEntity removes all rows. Rows that this batch wrote cannot be listed, but a range tombstone also covers what
// precedes it in the batch.
func (m *Machine) deleteEntity(batch *pebble.Batch, group uint32, id string, stored head) (err error) {
	if err = m.deleteOwned(batch, group, id); err != nil {
		return err
	}
	start := keys.AppendEntity(nil, group, id)
	end := keys.Successor(start)
	if stored.written {
		return batch.DeleteRange(start, end, nil)
	}
	iter, err := m.db.NewIter(&pebble.IterOptions{LowerBound: start, UpperBound: end})
	if err != nil {
		return fmt.Errorf("list rows: %w", err)
	}
	defer func() { err = errors.Join(err, iter.Close()) }()
	var rows [][]byte
	for valid := iter.First(); valid; valid = iter.Next() {
		if len(rows) == deleteScan {
			return batch.DeleteRange(start, end, nil)
		}
		rows = append(rows, append([]byte(nil), iter.Key()...))
	}
	if err := iter.Error(); err != nil {
		return fmt.Errorf("list rows: %w", err)
	}
	for _, row := range rows {
		if err := batch.Delete(row, nil); err != nil {
			return fmt.Errorf("delete row: %w", err)
		}
	}
	return nil
}
