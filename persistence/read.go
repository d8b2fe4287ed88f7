package persistence

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"parley/persistence/keys"
)

// FromStart is the value of after with which Events begins at the first event, whose seq is 0.
const FromStart uint64 = math.MaxUint64

// Head is an entity's newest state.
type Head struct {
	Seq   uint64
	Epoch uint64 // of the owner that wrote it
	Value []byte
}

// ItemQuery selects items of one table by key.
type ItemQuery struct {
	Table      uint8
	From, To   []byte // From inclusive, To exclusive; nil is open
	Descending bool
	Limit      int // 0 = all
}

// Head returns an entity's head. The caller may keep the value.
func (s *Store) Head(ctx context.Context, group uint32, id string) (head Head, found bool, err error) {
	r, err := s.begin(ctx, group)
	if err != nil {
		return Head{}, false, err
	}
	var scratch [keyBytes]byte
	found, err = r.get(keys.AppendHead(scratch[:0], group, id), "head", func(value []byte) (err error) {
		head, err = decodeHead(value)
		head.Value = bytes.Clone(head.Value)
		return err
	})
	return head, found, r.end(err)
}

// Entity names an entity of a shard.
type Entity struct {
	Group uint32
	ID    string
}

// Heads visits the heads of several entities, in the given order, until visit returns false. It costs one round trip
// for all of them, where Head costs one each. The head's value is valid only during the call.
func (s *Store) Heads(ctx context.Context, entities []Entity, visit func(i int, head Head, found bool) (more bool)) error {
	groups := make([]uint32, 0, len(entities))
	for _, e := range entities {
		groups = append(groups, e.Group)
	}
	slices.Sort(groups)
	if groups = slices.Compact(groups); len(groups) == 0 {
		return nil
	}
	r, err := s.begin(ctx, groups...)
	if err != nil {
		return err
	}
	var key []byte
	more := true
	for i := 0; i < len(entities) && more; i++ {
		key = keys.AppendHead(key[:0], entities[i].Group, entities[i].ID)
		found, err := r.get(key, "head", func(value []byte) error {
			head, err := decodeHead(value)
			if err == nil {
				more = visit(i, head, true)
			}
			return err
		})
		if err != nil {
			return r.end(err)
		}
		if !found {
			more = visit(i, Head{}, false)
		}
	}
	return r.end(nil)
}

// Item returns one item. The caller may keep the value.
func (s *Store) Item(ctx context.Context, group uint32, id string, table uint8, key []byte) (item []byte, found bool, err error) {
	r, err := s.begin(ctx, group)
	if err != nil {
		return nil, false, err
	}
	var scratch [keyBytes]byte
	found, err = r.get(keys.AppendItem(scratch[:0], group, id, table, key), "item", func(value []byte) error {
		item = append([]byte{}, value...)
		return nil
	})
	return item, found, r.end(err)
}

// keyBytes is room for most keys on the stack.
const keyBytes = 96

func decodeHead(value []byte) (Head, error) {
	seq, epoch, err := keys.HeadFields(value)
	if err != nil {
		return Head{}, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return Head{Seq: seq, Epoch: epoch, Value: value[keys.HeadPrefix:]}, nil
}

// Events visits the events of an entity with a seq above after, oldest first, until visit returns false. The value is
// valid only during the call.
func (s *Store) Events(ctx context.Context, group uint32, id string, after uint64, visit func(seq uint64, value []byte) (more bool)) error {
	v, err := s.View(ctx, group)
	if err != nil {
		return err
	}
	return errors.Join(v.Events(id, after, 0, visit), v.Close())
}

// Items visits the items of an entity's table in key order. Key and value are valid only during the call.
func (s *Store) Items(ctx context.Context, group uint32, id string, q ItemQuery, visit func(key, value []byte) (more bool)) error {
	v, err := s.View(ctx, group)
	if err != nil {
		return err
	}
	return errors.Join(v.Items(id, q, visit), v.Close())
}

// View returns a consistent snapshot of a shard that includes everything acknowledged before the call. It holds
// resources until Close. It is for one goroutine, and for no longer than a request.
func (s *Store) View(ctx context.Context, group uint32) (*View, error) {
	r, err := s.begin(ctx, group)
	if err != nil {
		return nil, err
	}
	start, end := keys.Span(group)
	iter, err := r.from.NewIter(&pebble.IterOptions{LowerBound: start, UpperBound: end})
	if err != nil {
		return nil, r.end(readError("shard", err))
	}
	return &View{reading: r, group: group, iter: iter}, nil
}

// View is a consistent snapshot of a shard. It is one iterator of the database, so it needs no database snapshot, and
// it reads an entity's rows, which are adjacent, with one seek and some steps.
type View struct {
	reading reading
	group   uint32
	iter    *pebble.Iterator
	key     []byte
	end     []byte
}

// Close releases the view. It may be called twice.
func (v *View) Close() error {
	if v.iter == nil {
		return nil
	}
	err := v.iter.Close()
	v.iter = nil
	if err != nil {
		err = readError("shard", err)
	}
	return v.reading.end(err)
}

// Head returns an entity's head. The value is valid until the next call on the view.
func (v *View) Head(id string) (head Head, found bool, err error) {
	v.key = keys.AppendHead(v.key[:0], v.group, id)
	value, found, err := v.at(v.key, "head")
	if err != nil || !found {
		return Head{}, false, err
	}
	head, err = decodeHead(value)
	return head, err == nil, err
}

// Item returns one item. The value is valid until the next call on the view.
func (v *View) Item(id string, table uint8, key []byte) (item []byte, found bool, err error) {
	v.key = keys.AppendItem(v.key[:0], v.group, id, table, key)
	return v.at(v.key, "item")
}

func (v *View) at(key []byte, what string) (value []byte, found bool, err error) {
	if !v.iter.SeekGE(key) || !bytes.Equal(v.iter.Key(), key) {
		if err = v.iter.Error(); err != nil {
			err = readError(what, err)
		}
		return nil, false, err
	}
	value, err = v.iter.ValueAndErr()
	if err != nil {
		return nil, false, readError(what, err)
	}
	return value, true, nil
}

// Events is like Store.Events, with a limit; 0 means none.
func (v *View) Events(id string, after uint64, limit int, visit func(seq uint64, value []byte) (more bool)) error {
	if after == FromStart-1 {
		return nil // nothing comes after the last seq there is
	}
	v.key = keys.AppendEvents(v.key[:0], v.group, id)
	prefix := len(v.key)
	v.end = append(v.end[:0], v.key...)
	v.end[prefix-1]++
	v.key = keys.AppendEvent(v.key[:0], v.group, id, after+1)
	var damage error
	err := v.scan(scan{from: v.key, to: v.end, limit: limit}, "events", func(key, value []byte) bool {
		seq, tailErr := keys.EventTail(key[prefix:])
		if tailErr != nil {
			damage = fmt.Errorf("read events: %w: %w", ErrCorrupt, tailErr)
			return false
		}
		return visit(seq, value)
	})
	return errors.Join(err, damage)
}

// Items is like Store.Items.
func (v *View) Items(id string, q ItemQuery, visit func(key, value []byte) (more bool)) error {
	v.key = keys.AppendItems(v.key[:0], v.group, id, q.Table)
	prefix := len(v.key)
	v.end = append(v.end[:0], v.key...)
	if q.To != nil {
		v.end = append(v.end, q.To...)
	} else {
		v.end[prefix-1]++ // tables end below 0xff
	}
	v.key = append(v.key, q.From...)
	return v.scan(scan{from: v.key, to: v.end, descending: q.Descending, limit: q.Limit}, "items", func(key, value []byte) bool {
		return visit(key[prefix:], value)
	})
}

// scan is a walk over the rows from inclusive, to exclusive.
type scan struct {
	from, to   []byte
	descending bool
	limit      int
}

func (v *View) scan(s scan, what string, visit func(key, value []byte) bool) error {
	seek, step := func() bool { return v.iter.SeekGE(s.from) }, v.iter.Next
	inside := func() bool { return bytes.Compare(v.iter.Key(), s.to) < 0 }
	if s.descending {
		seek, step = func() bool { return v.iter.SeekLT(s.to) }, v.iter.Prev
		inside = func() bool { return bytes.Compare(v.iter.Key(), s.from) >= 0 }
	}
	n := 0
	for valid := seek(); valid && inside(); valid = step() {
		value, err := v.iter.ValueAndErr()
		if err != nil {
			return readError(what, err)
		}
		if n++; !visit(v.iter.Key(), value) || n == s.limit {
			return nil
		}
	}
	if err := v.iter.Error(); err != nil {
		return readError(what, err)
	}
	return nil
}
