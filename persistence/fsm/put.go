package fsm

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"parley/persistence/keys"
	"parley/persistence/replica"
	"parley/proto/logpb"
)

// put writes a directory record, and its guard if it has one. Its version is the entry's index: it only grows, so a
// record that is deleted and created again never repeats a version.
func (m *Machine) put(batch *pebble.Batch, group replica.GroupID, index uint64, p *logpb.Put, result *logpb.Result) error {
	if group != Directory || !valid(ValidatePut(p)) {
		return nil
	}
	r := record{p.GetCollection(), p.GetKey()}
	stored, err := m.recordVersion(uint32(group), r)
	if err != nil {
		return err
	}
	result.Seq = stored
	if stored != p.GetExpectedVersion() {
		result.Outcome = logpb.Outcome_SEQ_MISMATCH
		if p.GetExpectedVersion() == 0 {
			result.Outcome = logpb.Outcome_EXISTS
		}
		return nil
	}
	guard := p.GetGuard()
	if guard != nil {
		if stored, err = m.recordVersion(uint32(group), record{guard.GetCollection(), guard.GetKey()}); err != nil {
			return err
		}
		if stored != guard.GetExpectedVersion() {
			result.Outcome = logpb.Outcome_SEQ_MISMATCH
			return nil
		}
	}
	result.Outcome = logpb.Outcome_APPLIED
	if p.GetDelete() {
		result.Seq = 0
		err = m.deleteRecord(batch, r, index)
	} else {
		result.Seq = index
		err = m.writeRecord(batch, r, index, p.GetValue())
	}
	if err != nil || guard == nil {
		return err
	}
	// Last, so that whoever reads the guard's new version in memory finds the record there.
	return m.writeRecord(batch, record{guard.GetCollection(), guard.GetKey()}, index, nil)
}

func (m *Machine) deleteRecord(batch *pebble.Batch, r record, index uint64) error {
	m.key = keys.AppendRecord(m.key[:0], uint32(Directory), r.collection, r.key)
	m.seen.records[r] = 0
	m.records.Delete(r.collection, r.key, index)
	return batch.Delete(m.key, nil)
}

func (m *Machine) writeRecord(batch *pebble.Batch, r record, index uint64, value []byte) error {
	m.key = keys.AppendRecord(m.key[:0], uint32(Directory), r.collection, r.key)
	m.seen.records[r] = index
	op := batch.SetDeferred(len(m.key), 8+len(value))
	copy(op.Key, m.key)
	keys.AppendRecordValue(op.Value[:0], index, value)
	if err := op.Finish(); err != nil {
		return fmt.Errorf("write record: %w", err)
	}
	m.records.Put(r.collection, r.key, index, value)
	return nil
}
