package fsm

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"parley/persistence/keys"
	"parley/persistence/replica"
	"parley/proto/logpb"
)

// head is the part of an entity's head that the machine compares.
type head struct {
	seq, epoch uint64
	exists     bool
	written    bool // by an entry of this batch: the database does not show it yet
}

// record names a directory record.
type record struct{ collection, key string }

// overlay holds the effects of earlier entries of the batch: the batch itself cannot be read, and an indexed batch
// costs more than everything else.
type overlay struct {
	heads   map[string]head
	counts  map[string]int64
	records map[record]uint64
	blobs   map[string]*blobState
	sums    map[sum][]int64
	packs   map[pack][]byte   // nil = removed
	trims   []*logpb.TrimSums // of sums that the database still shows
	packed  []*logpb.PackSums // the same
}

// keep bounds the maps that are reused; larger ones are dropped.
const keep = 4096

func newOverlay() overlay {
	return overlay{
		heads: map[string]head{}, counts: map[string]int64{}, records: map[record]uint64{}, blobs: map[string]*blobState{},
		sums: map[sum][]int64{}, packs: map[pack][]byte{},
	}
}

func (o *overlay) reset() {
	if len(o.heads) > keep || len(o.counts) > keep || len(o.records) > keep || len(o.blobs) > keep ||
		len(o.sums) > keep {
		*o = newOverlay()
		return
	}
	clear(o.heads)
	clear(o.counts)
	clear(o.records)
	clear(o.blobs)
	clear(o.sums)
	clear(o.packs)
	clear(o.trims)
	clear(o.packed)
	o.trims, o.packed = o.trims[:0], o.packed[:0]
}

func (m *Machine) head(group uint32, id string) (head, error) {
	if h, ok := m.seen.heads[id]; ok {
		return h, nil
	}
	m.key = keys.AppendHead(m.key[:0], group, id)
	var h head
	err := m.get(m.key, func(value []byte) (err error) {
		h.exists = true
		h.seq, h.epoch, err = keys.HeadFields(value)
		return err
	})
	if err != nil {
		return head{}, fmt.Errorf("read head: %w", err)
	}
	return h, nil
}

func (m *Machine) recordVersion(group uint32, r record) (uint64, error) {
	if v, ok := m.seen.records[r]; ok {
		return v, nil
	}
	m.key = keys.AppendRecord(m.key[:0], group, r.collection, r.key)
	var version uint64
	err := m.get(m.key, func(value []byte) (err error) {
		version, _, err = keys.RecordFields(value)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("read record: %w", err)
	}
	return version, nil
}

func (m *Machine) count(group uint32, name string, delta int64) error {
	n, ok := m.seen.counts[name]
	if !ok {
		m.key = keys.AppendCounter(m.key[:0], group, name)
		err := m.get(m.key, func(value []byte) (err error) {
			n, err = keys.CountField(value)
			return err
		})
		if err != nil {
			return fmt.Errorf("read counter: %w", err)
		}
	}
	m.seen.counts[name] = n + delta
	return nil
}

// writeCounts writes each counter once per batch, however often it changed.
func (m *Machine) writeCounts(batch *pebble.Batch, group replica.GroupID) error {
	if len(m.seen.counts) == 0 {
		return nil
	}
	names := make([]string, 0, len(m.seen.counts))
	for name := range m.seen.counts {
		names = append(names, name)
	}
	slices.Sort(names)
	var value [8]byte
	for _, name := range names {
		m.key = keys.AppendCounter(m.key[:0], uint32(group), name)
		var err error
		if n := m.seen.counts[name]; n == 0 {
			err = batch.Delete(m.key, nil)
		} else {
			err = batch.Set(m.key, keys.AppendCountValue(value[:0], n), nil)
		}
		if err != nil {
			return fmt.Errorf("write counter: %w", err)
		}
	}
	return nil
}

// get passes the value of a key to visit, which is not called if there is none.
func (m *Machine) get(key []byte, visit func(value []byte) error) error {
	value, closer, err := m.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(visit(value), closer.Close())
}
