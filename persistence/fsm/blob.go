package fsm

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"google.golang.org/protobuf/proto"

	"parley/persistence/blob"
	"parley/persistence/keys"
	"parley/proto/logpb"
)

// ListBlobsDue is the list of a shard's blobs that expire: score = the time of removal in Unix ms, member = id.
const ListBlobsDue = "blob/due"

// deletePieces is up to how many pieces a removed blob is deleted piece by piece; a larger one gets a range tombstone,
// which frees the space soonest.
const deletePieces = 16

// blobState is a blob as changed by the batch so far. Its head and its row in ListBlobsDue are written at the end, once
// for any number of pieces.
type blobState struct {
	head *logpb.BlobHead // nil = there is none
	was  bool            // it existed before the batch,
	due  int64           // with this time in ListBlobsDue; 0 = not in it
}

func (m *Machine) blob(group uint32, id string) (*blobState, error) {
	if b, ok := m.seen.blobs[id]; ok {
		return b, nil
	}
	b := &blobState{}
	m.key = keys.AppendBlobHead(m.key[:0], group, id)
	err := m.get(m.key, func(value []byte) error {
		b.head, b.was = &logpb.BlobHead{}, true
		return proto.Unmarshal(value, b.head)
	})
	if err != nil {
		return nil, fmt.Errorf("read blob: %w", err)
	}
	b.due = b.head.GetDue()
	m.seen.blobs[id] = b
	return b, nil
}

// chunk writes a piece.
func (m *Machine) chunk(batch *pebble.Batch, group uint32, c *logpb.BlobChunk, result *logpb.Result) error {
	if !valid(ValidateChunk(c)) {
		return nil
	}
	b, err := m.blob(group, c.GetId())
	if err != nil {
		return err
	}
	next := b.head
	if next == nil {
		next = &logpb.BlobHead{}
	}
	outcome, store := blob.Put(next, c)
	result.Outcome = outcome
	if !store {
		return nil
	}
	b.head = next
	m.key = keys.AppendChunk(m.key[:0], group, c.GetId(), c.GetIndex())
	if err := batch.Set(m.key, c.GetData(), nil); err != nil {
		return fmt.Errorf("write piece: %w", err)
	}
	m.pieces += len(c.GetData())
	return nil
}

// changeAlone commits or removes a blob that belongs to no entity.
func (m *Machine) changeAlone(batch *pebble.Batch, group uint32, c *logpb.BlobChange, result *logpb.Result) error {
	if !valid(ValidateBlob(c)) {
		return nil
	}
	var err error
	if result.Outcome, err = m.blobFits(group, c, ""); err != nil || result.GetOutcome() != logpb.Outcome_APPLIED {
		return err
	}
	return m.changeBlob(batch, group, c, "")
}

// blobsFit checks whether all of an append's blob changes can be made.
func (m *Machine) blobsFit(group uint32, a *logpb.Append) (logpb.Outcome, error) {
	for _, c := range a.GetBlobs() {
		if outcome, err := m.blobFits(group, c, a.GetId()); err != nil || outcome != logpb.Outcome_APPLIED {
			return outcome, err
		}
	}
	return logpb.Outcome_APPLIED, nil
}

func (m *Machine) blobFits(group uint32, c *logpb.BlobChange, owner string) (logpb.Outcome, error) {
	b, err := m.blob(group, c.GetId())
	if err != nil {
		return logpb.Outcome_OUTCOME_UNSPECIFIED, err
	}
	if c.GetDelete() {
		return blob.Removable(b.head, c, owner), nil
	}
	return blob.Commit(b.trial(), c, owner), nil
}

// trial returns a copy of the head to try a commit on.
func (b *blobState) trial() *logpb.BlobHead {
	if b.head == nil {
		return &logpb.BlobHead{} // an empty file has no pieces
	}
	return proto.CloneOf(b.head)
}

// changeBlobs makes an append's blob changes, which fit.
func (m *Machine) changeBlobs(batch *pebble.Batch, group uint32, a *logpb.Append) error {
	for _, c := range a.GetBlobs() {
		if err := m.changeBlob(batch, group, c, a.GetId()); err != nil {
			return err
		}
	}
	return nil
}

func (m *Machine) changeBlob(batch *pebble.Batch, group uint32, c *logpb.BlobChange, owner string) error {
	if c.GetDelete() {
		return m.removeBlob(batch, group, c.GetId())
	}
	b, err := m.blob(group, c.GetId())
	if err != nil {
		return err
	}
	b.head = b.trial()
	blob.Commit(b.head, c, owner)
	if owner == "" {
		return nil
	}
	m.key = append(keys.AppendOwned(m.key[:0], group, owner), c.GetId()...)
	if err := batch.Set(m.key, nil, nil); err != nil {
		return fmt.Errorf("write owner: %w", err)
	}
	return nil
}

func (m *Machine) removeBlob(batch *pebble.Batch, group uint32, id string) error {
	b, err := m.blob(group, id)
	if err != nil || b.head == nil {
		return err
	}
	old := b.head
	b.head = nil
	if old.GetOwner() != "" {
		m.key = append(keys.AppendOwned(m.key[:0], group, old.GetOwner()), id...)
		if err := batch.Delete(m.key, nil); err != nil {
			return fmt.Errorf("remove owner: %w", err)
		}
	}
	pieces := slices.Collect(blob.Stored(old))
	if len(pieces) > deletePieces {
		start := keys.AppendChunk(nil, group, id, 0)
		end := keys.AppendChunk(nil, group, id, blob.MaxChunks)
		return batch.DeleteRange(start, end, nil)
	}
	for _, index := range pieces {
		m.key = keys.AppendChunk(m.key[:0], group, id, index)
		if err := batch.Delete(m.key, nil); err != nil {
			return fmt.Errorf("remove piece: %w", err)
		}
	}
	return nil
}

// deleteOwned removes the blobs of an entity that is being deleted. The rows that name them are deleted with the
// entity's others.
func (m *Machine) deleteOwned(batch *pebble.Batch, group uint32, id string) error {
	ids, err := m.owned(group, id)
	if err != nil {
		return err
	}
	for _, one := range ids {
		b, err := m.blob(group, one)
		if err != nil {
			return err
		}
		if b.head.GetOwner() != id {
			continue // removed in this batch
		}
		if err := m.removeBlob(batch, group, one); err != nil {
			return err
		}
	}
	return nil
}

// owned returns the blobs that an entity owned when the batch began, and those that it has been given since.
func (m *Machine) owned(group uint32, id string) (ids []string, err error) {
	for one, b := range m.seen.blobs {
		if b.head.GetOwner() == id {
			ids = append(ids, one)
		}
	}
	start := keys.AppendOwned(nil, group, id)
	iter, err := m.db.NewIter(&pebble.IterOptions{LowerBound: start, UpperBound: keys.Successor(start)})
	if err != nil {
		return nil, fmt.Errorf("list blobs: %w", err)
	}
	defer func() { err = errors.Join(err, iter.Close()) }()
	for valid := iter.First(); valid; valid = iter.Next() {
		ids = append(ids, string(iter.Key()[len(start):]))
	}
	if err := iter.Error(); err != nil {
		return nil, fmt.Errorf("list blobs: %w", err)
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// writeBlobs writes the heads of the batch's blobs and their rows in ListBlobsDue.
func (m *Machine) writeBlobs(batch *pebble.Batch, group uint32) error {
	for _, id := range slices.Sorted(maps.Keys(m.seen.blobs)) {
		if err := m.writeBlob(batch, group, id, m.seen.blobs[id]); err != nil {
			return fmt.Errorf("write blob: %w", err)
		}
	}
	return nil
}

func (m *Machine) writeBlob(batch *pebble.Batch, group uint32, id string, b *blobState) (err error) {
	due := b.head.GetDue()
	if b.due != 0 && b.due != due {
		m.key = keys.AppendListing(m.key[:0], group, ListBlobsDue, b.due, id)
		err = batch.Delete(m.key, nil)
	}
	if due != 0 && due != b.due {
		m.key = keys.AppendListing(m.key[:0], group, ListBlobsDue, due, id)
		err = errors.Join(err, batch.Set(m.key, nil, nil))
	}
	m.key = keys.AppendBlobHead(m.key[:0], group, id)
	switch {
	case b.head != nil:
		value, failed := proto.MarshalOptions{Deterministic: true}.Marshal(b.head)
		return errors.Join(err, failed, batch.Set(m.key, value, nil))
	case b.was:
		err = errors.Join(err, batch.Delete(m.key, nil))
	}
	return err
}
