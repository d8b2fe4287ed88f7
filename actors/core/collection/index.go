package collection

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"sync"

	"parley/actors/machine"
	"parley/proto/failurepb"
)

// Term is a term of the index: what it is about and its values. Parts that hold any text are told apart.
func Term(parts ...string) string { return strings.Join(parts, "\x00") }

// IsConflict says that a write met another one.
func IsConflict(err error) bool {
	failure, ok := errors.AsType[*machine.Failure](err)
	return ok && failure.Code == failurepb.Code_CONFLICT
}

// Page returns the records of a term, newest first, from an offset on, and how many there are in all. Only what is returned is
// decoded.
func (c *Collection[T]) Page(term string, limit, offset int) (page []T, total int, err error) {
	records, total := c.index.page(term, limit, offset)
	page, err = c.decodeAll(records)
	return page, total, err
}

// All returns all records of a term, newest first.
func (c *Collection[T]) All(term string) ([]T, error) {
	all, _, err := c.Page(term, maxInt, 0)
	return all, err
}

const maxInt = int(^uint(0) >> 1)

// Count is how many records have a term.
func (c *Collection[T]) Count(term string) int { return c.index.count(term) }

// Keys returns the keys of the records that have a term, newest first. Nothing is decoded.
func (c *Collection[T]) Keys(term string) []string { return c.index.keys(term) }

// Lookup returns the newest record of a term that this node has, nil when it has none.
func (c *Collection[T]) Lookup(term string) (newest T, err error) {
	found, _, err := c.Page(term, 1, 0)
	if err == nil && len(found) > 0 {
		newest = found[0]
	}
	return newest, err
}

// index finds records by term without decoding them. It follows the store: whenever the collection has changed, what is new is
// decoded once.
type index[T any] struct {
	collection *Collection[T]

	mu      sync.Mutex
	changed <-chan struct{} // nil until the first use
	entries map[string]*entry
	terms   map[string]*postings
	round   uint64 // of the last look at the store
}

// entry is a record as the index knows it.
type entry struct {
	record  Record
	created int64
	tie     string
	terms   []string
	round   uint64 // in which it was last seen
}

// postings are the records of a term.
type postings struct {
	entries []*entry
	sorted  bool // newest first
}

func (x *index[T]) page(term string, limit, offset int) (records []Record, total int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.follow()
	found := x.terms[term]
	if found == nil {
		return nil, 0
	}
	found.sort()
	first := min(offset, len(found.entries))
	last := first + min(limit, len(found.entries)-first)
	for _, e := range found.entries[first:last] {
		records = append(records, e.record)
	}
	return records, len(found.entries)
}

func (x *index[T]) count(term string) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.follow()
	if found := x.terms[term]; found != nil {
		return len(found.entries)
	}
	return 0
}

func (x *index[T]) keys(term string) []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.follow()
	found := x.terms[term]
	if found == nil {
		return nil
	}
	found.sort()
	keys := make([]string, len(found.entries))
	for i, e := range found.entries {
		keys[i] = e.record.Key
	}
	return keys
}

// follow takes over what has changed in the store. A change is signalled no later than it can be read.
func (x *index[T]) follow() {
	if x.changed == nil {
		x.changed, _ = x.collection.store.Watch(x.collection.declaration.Name) // for as long as the store lives
		x.entries, x.terms = map[string]*entry{}, map[string]*postings{}
		x.scan()
		return
	}
	select {
	case <-x.changed:
		x.scan()
	default:
	}
}

func (x *index[T]) scan() {
	x.round++
	records := x.collection.store.List(x.collection.declaration.Name, "")
	for _, record := range records {
		known := x.entries[record.Key]
		if known == nil || known.record.Version != record.Version {
			if known != nil {
				x.remove(known)
			}
			known = x.add(record)
		}
		known.round = x.round
	}
	if len(x.entries) == len(records) {
		return
	}
	for _, known := range x.entries {
		if known.round != x.round {
			x.remove(known)
		}
	}
}

// add takes in a record. One that cannot be decoded has no terms.
func (x *index[T]) add(record Record) *entry {
	declaration := &x.collection.declaration
	e := &entry{record: record, tie: record.Key}
	x.entries[record.Key] = e
	value, err := x.collection.decode(record.Value)
	if err != nil {
		return e
	}
	e.created = declaration.Created(value)
	if declaration.Tie != nil {
		e.tie = declaration.Tie(value)
	}
	if declaration.Terms != nil {
		e.terms = declaration.Terms(value)
	}
	for _, unique := range declaration.Unique {
		if of := unique.Of(value); of != "" {
			e.terms = append(e.terms, x.collection.uniqueTerm(unique.Field, value, of))
		}
	}
	for _, term := range e.terms {
		found := x.terms[term]
		if found == nil {
			found = &postings{}
			x.terms[term] = found
		}
		found.entries, found.sorted = append(found.entries, e), false
	}
	return e
}

func (x *index[T]) remove(e *entry) {
	delete(x.entries, e.record.Key)
	for _, term := range e.terms {
		found := x.terms[term]
		found.entries = slices.DeleteFunc(found.entries, func(other *entry) bool { return other == e })
		if len(found.entries) == 0 {
			delete(x.terms, term)
		}
	}
}

func (p *postings) sort() {
	if p.sorted {
		return
	}
	slices.SortFunc(p.entries, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(b.created, a.created), cmp.Compare(a.tie, b.tie))
	})
	p.sorted = true
}
