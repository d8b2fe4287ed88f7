package fsm

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"parley/persistence/keys"
	"parley/persistence/replica"
	"parley/proto/logpb"
)

// put writes a directory record. Its version is the entry's index: it only grows, so a record that is deleted and
// made again never has a version it had before.
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
	result.Outcome = logpb.Outcome_APPLIED
	m.key = keys.AppendRecord(m.key[:0], uint32(group), r.collection, r.key)
	if p.GetDelete() {
		result.Seq = 0
		m.seen.records[r] = 0
		m.records.Delete(r.collection, r.key, index)
		return batch.Delete(m.key, nil)
	}
	result.Seq = index
	m.seen.records[r] = index
	op := batch.SetDeferred(len(m.key), 8+len(p.GetValue()))
	copy(op.Key, m.key)
	keys.AppendRecordValue(op.Value[:0], index, p.GetValue())
	if err := op.Finish(); err != nil {
		return fmt.Errorf("write record: %w", err)
	}
	m.records.Put(r.collection, r.key, index, p.GetValue())
	return nil
}
