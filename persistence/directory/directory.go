// Package directory holds the small records that every node reads locally: the members of the cluster, tenants, users, tokens,
// agents, models.
//
// Records live in the directory shard's log, like everything else, and all of them in the memory of every node. A read
// is a map lookup and may lag behind the log on a node that is not the shard's leader; a write goes through the log
// with the version it expects, so that no writer overwrites a value it has not seen. A version is the write's position in the
// log: it only grows, and is not reused after a deletion.
//
// Invariants: what a node has in memory is what it has applied; returned values are shared and must not be changed; a
// slow watcher may miss intermediate states, but never the newest one.
//
// It does not interpret values, keeps no secrets in clear (the writer encrypts them), and is no place for anything that
// grows with use.
package directory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"parley/persistence/fsm"
	"parley/persistence/keys"
	"parley/proto/logpb"
)

// ErrConflict is wrapped by a *ConflictError.
var ErrConflict = errors.New("record has another version")

// ConflictError refuses a write whose expected version, or that of its guard, is not the stored one.
type ConflictError struct {
	Collection, Key string
	Stored          uint64 // 0 = there is no such record
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("%s/%s: %v (stored is %d)", e.Collection, e.Key, ErrConflict, e.Stored)
}

// Unwrap makes errors.Is(err, ErrConflict) true.
func (e *ConflictError) Unwrap() error { return ErrConflict }

// Log appends writes to the directory shard's log.
type Log interface {
	ProposePut(ctx context.Context, p *logpb.Put) (*logpb.Result, error)
}

// Directory is a node's copy of all records. Use New.
type Directory struct {
	db  *pebble.DB
	log Log

	mu          sync.RWMutex
	collections map[string]*recordSet
	stale       bool          // the rows in memory are older than the stored ones
	version     uint64        // of the newest change in memory
	grown       chan struct{} // closed when something changes; nil while nobody waits
}

type recordSet struct {
	records  map[string]Record
	sorted   []Record // by key; nil after a change
	watchers map[*watcher]struct{}
}

type watcher struct{ changed chan struct{} }

// New returns the directory of the records in db, which must be open as long as it is used. It is empty until the first
// Refresh.
func New(db *pebble.DB, log Log) *Directory {
	return &Directory{db: db, log: log, collections: map[string]*recordSet{}, stale: true}
}

// Get returns a record.
func (d *Directory) Get(collection, key string) (Record, bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	c, ok := d.collections[collection]
	if !ok {
		return Record{}, false
	}
	r, ok := c.records[key]
	return r, ok
}

// List returns the records of a collection by key. The slice is shared: do not change it.
func (d *Directory) List(collection string) []Record {
	d.mu.RLock()
	c, ok := d.collections[collection]
	if !ok {
		d.mu.RUnlock()
		return nil
	}
	sorted := c.sorted
	d.mu.RUnlock()
	if sorted != nil {
		return sorted
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return c.sort()
}

func (c *recordSet) sort() []Record {
	if c.sorted == nil {
		c.sorted = make([]Record, 0, len(c.records))
		for _, r := range c.records {
			c.sorted = append(c.sorted, r)
		}
		slices.SortFunc(c.sorted, func(a, b Record) int { return cmp.Compare(a.Key, b.Key) })
	}
	return c.sorted
}

// Put writes a record if its stored version is the expected one (0 = no record) and returns the new version. When it
// returns, this node reads the new value.
func (d *Directory) Put(ctx context.Context, collection, key string, expected uint64, value []byte) (version uint64, err error) {
	return d.Write(ctx, &logpb.Put{Collection: collection, Key: key, ExpectedVersion: expected, Value: value})
}

// Delete removes a record if its stored version is the expected one.
func (d *Directory) Delete(ctx context.Context, collection, key string, expected uint64) error {
	_, err := d.Write(ctx, &logpb.Put{Collection: collection, Key: key, ExpectedVersion: expected, Delete: true})
	return err
}

// Write puts or deletes, if the record and its guard, where it has one, have the versions that are expected. The record's new
// version is the guard's as well; that of a deletion is 0.
func (d *Directory) Write(ctx context.Context, p *logpb.Put) (version uint64, err error) {
	result, err := d.log.ProposePut(ctx, p)
	if err != nil {
		return 0, fmt.Errorf("put %s/%s: %w", p.GetCollection(), p.GetKey(), err)
	}
	if result.GetOutcome() != logpb.Outcome_APPLIED {
		return 0, &ConflictError{Collection: p.GetCollection(), Key: p.GetKey(), Stored: result.GetSeq()}
	}
	return result.GetSeq(), nil
}

// Version is the version of the newest change in this node's memory, including deletions.
func (d *Directory) Version() uint64 {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.version
}

// Await returns once this node has everything up to a version in memory. held says whether the log has been applied
// that far here: after a start or a snapshot memory knows the newest record, not the newest change. It is polled.
func (d *Directory) Await(ctx context.Context, version uint64, held func() (bool, error)) error {
	ticker := time.NewTicker(heldInterval)
	defer ticker.Stop()
	for {
		now, grown := d.wait()
		if now >= version {
			return nil
		}
		if there, err := held(); err != nil {
			return err
		} else if there {
			return d.refreshTo(version)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for version %d of the directory: %w", version, ctx.Err())
		case <-grown:
		case <-ticker.C:
		}
	}
}

// refreshTo reloads the rows if a snapshot replaced them; they are known to include everything up to a version.
func (d *Directory) refreshTo(version uint64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stale {
		if err := d.load(); err != nil {
			return err
		}
	}
	d.noteLocked(version)
	return nil
}

// heldInterval is how often Await polls.
const heldInterval = 50 * time.Millisecond

// wait returns the version and a channel that is closed when it grows.
func (d *Directory) wait() (version uint64, grown <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.grown == nil {
		d.grown = make(chan struct{})
	}
	return d.version, d.grown
}

func (d *Directory) noteLocked(version uint64) {
	d.version = max(d.version, version)
	if d.grown != nil {
		close(d.grown)
		d.grown = nil
	}
}

// Watch returns a channel that holds a value whenever the collection has changed since it was last received from:
// receive, then read. stop ends it.
func (d *Directory) Watch(name string) (changed <-chan struct{}, stop func()) {
	w := &watcher{changed: make(chan struct{}, 1)}
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.collection(name)
	c.watchers[w] = struct{}{}
	return w.changed, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.collection(name).watchers, w)
	}
}

func (d *Directory) collection(name string) *recordSet {
	c, ok := d.collections[name]
	if !ok {
		c = &recordSet{records: map[string]Record{}, watchers: map[*watcher]struct{}{}}
		d.collections[name] = c
	}
	return c
}

func (c *recordSet) changed() {
	c.sorted = nil
	for w := range c.watchers {
		select {
		case w.changed <- struct{}{}:
		default:
		}
	}
}

// Invalidate says that the rows were replaced by a snapshot. Refresh or the next applied entry reloads
// them, whichever comes first.
func (d *Directory) Invalidate() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stale = true
}

// Refresh reloads the rows if they were replaced.
func (d *Directory) Refresh() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.stale {
		return nil
	}
	return d.load()
}

// load fills the memory from the stored rows. The caller holds the lock, or is New.
func (d *Directory) load() (err error) {
	prefix := keys.AppendRecords(nil, uint32(fsm.Directory))
	iter, err := d.db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: keys.Successor(prefix)})
	if err != nil {
		return fmt.Errorf("read directory: %w", err)
	}
	defer func() { err = errors.Join(err, iter.Close()) }()
	for _, c := range d.collections {
		clear(c.records)
	}
	var newest uint64
	for valid := iter.First(); valid; valid = iter.Next() {
		k, err := keys.Decode(iter.Key())
		if err != nil {
			return fmt.Errorf("read directory: %w", err)
		}
		version, value, err := keys.RecordFields(iter.Value())
		if err != nil {
			return fmt.Errorf("read directory: %w", err)
		}
		newest = max(newest, version)
		key := string(k.Tail)
		d.collection(k.Name).records[key] = Record{Key: key, Version: version, Value: slices.Clone(value)}
	}
	if err := iter.Error(); err != nil {
		return fmt.Errorf("read directory: %w", err)
	}
	for _, c := range d.collections {
		c.changed()
	}
	d.stale = false
	d.noteLocked(newest)
	return nil
}

// Applied receives what the state machine applied: its only access to the directory.
type Applied struct{ d *Directory }

// Applied returns the receiver for the state machine.
func (d *Directory) Applied() Applied { return Applied{d} }

// Put notes a record that was written.
func (a Applied) Put(collection, key string, version uint64, value []byte) {
	a.change(collection, version, func(c *collectionRecords) {
		(*c)[key] = Record{Key: key, Version: version, Value: slices.Clone(value)}
	})
}

// Delete notes a record that was removed.
func (a Applied) Delete(collection, key string, version uint64) {
	a.change(collection, version, func(c *collectionRecords) { delete(*c, key) })
}

type collectionRecords = map[string]Record

func (a Applied) change(name string, version uint64, change func(*collectionRecords)) {
	d := a.d
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stale && d.load() != nil {
		return // still stale: Refresh tries again, and reports
	}
	c := d.collection(name)
	change(&c.records)
	c.changed()
	d.noteLocked(version)
}
