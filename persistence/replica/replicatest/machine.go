// Package replicatest helps to test replicated state: it has a small state machine and a network in memory that can be
// cut, slowed down and made to lose messages. It knows nothing of raft.
package replicatest

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"parley/persistence/replica"
)

// Machine is a key-value state: an entry made by Put sets a key. It counts the entries of each group in its state, so
// that an entry applied twice is detected.
type Machine struct {
	DB *pebble.DB
	// OnApply is called at the start of every Apply; its error becomes Apply's.
	OnApply func(group replica.GroupID, entries []replica.Entry) error
}

// Put is a proposal that sets key to value.
func Put(key, value string) []byte {
	b := binary.AppendUvarint(nil, uint64(len(key)))
	return append(append(b, key...), value...)
}

// Apply implements replica.StateMachine; the result of an entry is its index.
func (m *Machine) Apply(batch *pebble.Batch, group replica.GroupID, entries []replica.Entry) ([]any, error) {
	if m.OnApply != nil {
		if err := m.OnApply(group, entries); err != nil {
			return nil, err
		}
	}
	count, err := m.Count(group)
	if err != nil {
		return nil, err
	}
	results := make([]any, len(entries))
	for i, e := range entries {
		n, used := binary.Uvarint(e.Data)
		if used <= 0 || n > uint64(len(e.Data)-used) {
			return nil, fmt.Errorf("entry %d is not a put", e.Index)
		}
		key, value := e.Data[used:used+int(n)], e.Data[used+int(n):]
		if err := batch.Set(Key(group, string(key)), value, nil); err != nil {
			return nil, err
		}
		results[i] = e.Index
	}
	row := binary.BigEndian.AppendUint64(nil, count+uint64(len(entries)))
	return results, batch.Set(countKey(group), row, nil)
}

// Span implements replica.StateMachine.
func (m *Machine) Span(group replica.GroupID) (start, end []byte) {
	return groupPrefix(group), groupPrefix(group + 1)
}

// Count is how many entries of a group were applied.
func (m *Machine) Count(group replica.GroupID) (uint64, error) {
	row, closer, err := m.DB.Get(countKey(group))
	if errors.Is(err, pebble.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	n := binary.BigEndian.Uint64(row)
	return n, closer.Close()
}

// Value returns the value of a key of a group, "" if it is not set.
func (m *Machine) Value(group replica.GroupID, key string) (string, error) {
	row, closer, err := m.DB.Get(Key(group, key))
	if errors.Is(err, pebble.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	value := string(row)
	return value, closer.Close()
}

// Rows returns all keys and values of a group.
func (m *Machine) Rows(group replica.GroupID) (map[string]string, error) {
	start, end := m.Span(group)
	it, err := m.DB.NewIter(&pebble.IterOptions{LowerBound: start, UpperBound: end})
	if err != nil {
		return nil, err
	}
	rows := make(map[string]string)
	for ok := it.First(); ok; ok = it.Next() {
		rows[string(it.Key())] = string(it.Value())
	}
	return rows, errors.Join(it.Error(), it.Close())
}

// Key returns the database key of a key of a group.
func Key(group replica.GroupID, key string) []byte {
	return append(append(groupPrefix(group), 'k'), key...)
}

func countKey(group replica.GroupID) []byte { return append(groupPrefix(group), 'c') }

func groupPrefix(group replica.GroupID) []byte {
	return binary.BigEndian.AppendUint32([]byte{'s'}, uint32(group))
}
