package endpointtest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"parley/actors/machine"
	"parley/httpedge/endpoint"
	"parley/proto/failurepb"
)

// Records is a directory in memory. The zero value is empty and ready.
type Records struct {
	// OnPut, when set, is asked before each Put and Delete; its error is theirs.
	OnPut func(collection, key string) error

	guard       sync.Mutex // held by who decides
	mu          sync.Mutex
	collections map[string]map[string]endpoint.Record
	watchers    map[string][]chan struct{}
	version     uint64
}

// Get returns a record.
func (r *Records) Get(collection, key string) (endpoint.Record, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	record, ok := r.collections[collection][key]
	return record, ok
}

// Find is Get.
func (r *Records) Find(_ context.Context, collection, key string) (endpoint.Record, bool, error) {
	record, ok := r.Get(collection, key)
	return record, ok, nil
}

// List returns the records whose key begins with a prefix, by key.
func (r *Records) List(collection, prefix string) []endpoint.Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []endpoint.Record
	for key, record := range r.collections[collection] {
		if strings.HasPrefix(key, prefix) {
			found = append(found, record)
		}
	}
	slices.SortFunc(found, func(a, b endpoint.Record) int { return strings.Compare(a.Key, b.Key) })
	return found
}

// Put writes a record whose stored version is expected.
func (r *Records) Put(_ context.Context, collection, key string, expected uint64, value []byte) (uint64, error) {
	if r.OnPut != nil {
		if err := r.OnPut(collection, key); err != nil {
			return 0, err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if stored := r.collections[collection][key].Version; stored != expected {
		return 0, machine.Fail(failurepb.Code_CONFLICT, "%s/%s has another version", collection, key)
	}
	if r.collections == nil {
		r.collections = map[string]map[string]endpoint.Record{}
	}
	if r.collections[collection] == nil {
		r.collections[collection] = map[string]endpoint.Record{}
	}
	r.version++
	r.collections[collection][key] = endpoint.Record{Key: key, Version: r.version, Value: slices.Clone(value)}
	r.changedLocked(collection)
	return r.version, nil
}

// Delete removes a record whose stored version is expected.
func (r *Records) Delete(_ context.Context, collection, key string, expected uint64) error {
	if r.OnPut != nil {
		if err := r.OnPut(collection, key); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if stored := r.collections[collection][key].Version; stored != expected {
		return machine.Fail(failurepb.Code_CONFLICT, "%s/%s has another version", collection, key)
	}
	delete(r.collections[collection], key)
	r.version++
	r.changedLocked(collection)
	return nil
}

// guardedTries is how often Guarded meets a conflict before it gives up.
const guardedTries = 5

// Guarded writes what decide says, one at a time.
func (r *Records) Guarded(ctx context.Context, _ string, decide func() (*endpoint.Write, error)) (version uint64, err error) {
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
		var failure *machine.Failure
		if !errors.As(err, &failure) || failure.Code != failurepb.Code_CONFLICT {
			break
		}
	}
	return version, err
}

// Watch returns a channel that holds a value whenever the collection has changed.
func (r *Records) Watch(collection string) (changed <-chan struct{}, stop func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	watcher := make(chan struct{}, 1)
	if r.watchers == nil {
		r.watchers = map[string][]chan struct{}{}
	}
	r.watchers[collection] = append(r.watchers[collection], watcher)
	return watcher, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.watchers[collection] = slices.DeleteFunc(r.watchers[collection], func(w chan struct{}) bool { return w == watcher })
	}
}

func (r *Records) changedLocked(collection string) {
	for _, watcher := range r.watchers[collection] {
		select {
		case watcher <- struct{}{}:
		default: // it holds one already
		}
	}
}

// Sealer seals so that everybody can see that it did, and about what. Locked makes it refuse.
type Sealer struct{ Locked bool }

// Seal turns a secret around behind what it is about.
func (s *Sealer) Seal(secret []byte, about string) ([]byte, error) {
	if s.Locked {
		return nil, machine.Fail(failurepb.Code_SECRETS_UNAVAILABLE, "nothing to encrypt secrets with is configured")
	}
	turned := slices.Clone(secret)
	slices.Reverse(turned)
	return append([]byte(about+"\x00"), turned...), nil
}

// Open undoes Seal; a text about something else stays shut.
func (*Sealer) Open(sealed []byte, about string) ([]byte, error) {
	turned, ok := strings.CutPrefix(string(sealed), about+"\x00")
	if !ok {
		return nil, machine.Fail(failurepb.Code_INTERNAL, "sealed about something else")
	}
	secret := []byte(turned)
	slices.Reverse(secret)
	return secret, nil
}
