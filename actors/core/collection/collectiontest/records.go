// Package collectiontest has a directory in memory for tests of what stands on collection.Store.
package collectiontest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"parley/actors/core/collection"
	"parley/actors/core/failure"
	"parley/proto/failurepb"
)

// Records is a directory in memory. The zero value is empty and ready.
type Records struct {
	// OnPut, when set, is asked before each Put and Delete; its error is theirs.
	OnPut func(name, key string) error

	guard       sync.Mutex // held by who decides
	mu          sync.Mutex
	collections map[string]map[string]collection.Record
	watchers    map[string][]chan struct{}
	version     uint64
}

// Get returns a record.
func (r *Records) Get(name, key string) (collection.Record, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	record, ok := r.collections[name][key]
	return record, ok
}

// Find is Get.
func (r *Records) Find(_ context.Context, name, key string) (collection.Record, bool, error) {
	record, ok := r.Get(name, key)
	return record, ok, nil
}

// List returns the records whose key begins with a prefix, by key.
func (r *Records) List(name, prefix string) []collection.Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []collection.Record
	for key, record := range r.collections[name] {
		if strings.HasPrefix(key, prefix) {
			found = append(found, record)
		}
	}
	slices.SortFunc(found, func(a, b collection.Record) int { return strings.Compare(a.Key, b.Key) })
	return found
}

// Put writes a record whose stored version is expected.
func (r *Records) Put(_ context.Context, name, key string, expected uint64, value []byte) (uint64, error) {
	if r.OnPut != nil {
		if err := r.OnPut(name, key); err != nil {
			return 0, err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if stored := r.collections[name][key].Version; stored != expected {
		return 0, failure.New(failurepb.Code_CONFLICT, failure.RecordChanged)
	}
	if r.collections == nil {
		r.collections = map[string]map[string]collection.Record{}
	}
	if r.collections[name] == nil {
		r.collections[name] = map[string]collection.Record{}
	}
	r.version++
	r.collections[name][key] = collection.Record{Key: key, Version: r.version, Value: slices.Clone(value)}
	r.changedLocked(name)
	return r.version, nil
}

// Delete removes a record whose stored version is expected.
func (r *Records) Delete(_ context.Context, name, key string, expected uint64) error {
	if r.OnPut != nil {
		if err := r.OnPut(name, key); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if stored := r.collections[name][key].Version; stored != expected {
		return failure.New(failurepb.Code_CONFLICT, failure.RecordChanged)
	}
	delete(r.collections[name], key)
	r.version++
	r.changedLocked(name)
	return nil
}

// guardedTries is how often Guarded meets a conflict before it gives up.
const guardedTries = 5

// Guarded writes what decide says, one at a time.
func (r *Records) Guarded(ctx context.Context, _ string, decide func() (*collection.Write, error)) (version uint64, err error) {
	r.guard.Lock()
	defer r.guard.Unlock()
	for range guardedTries {
		write, refused := decide()
		if refused != nil || write == nil {
			return 0, refused
		}
		if write.Delete {
			err = r.Delete(ctx, write.Collection, write.Key, write.Expected)
		} else {
			version, err = r.Put(ctx, write.Collection, write.Key, write.Expected, write.Value)
		}
		var conflict *failure.Failure
		if !errors.As(err, &conflict) || conflict.Code != failurepb.Code_CONFLICT {
			break
		}
	}
	return version, err
}

// Watch returns a channel that holds a value whenever the collection has changed.
func (r *Records) Watch(name string) (changed <-chan struct{}, stop func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	watcher := make(chan struct{}, 1)
	if r.watchers == nil {
		r.watchers = map[string][]chan struct{}{}
	}
	r.watchers[name] = append(r.watchers[name], watcher)
	return watcher, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.watchers[name] = slices.DeleteFunc(r.watchers[name], func(w chan struct{}) bool { return w == watcher })
	}
}

func (r *Records) changedLocked(name string) {
	for _, watcher := range r.watchers[name] {
		select {
		case watcher <- struct{}{}:
		default: // it holds one already
		}
	}
}
