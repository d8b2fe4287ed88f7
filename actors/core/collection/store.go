package collection

import "context"

// Guards is the directory's collection of guards, one for each scope (see Store.Guarded).
const Guards = "guards"

// Scope names what a collection holds of a tenant, for Store.Guarded.
func Scope(collection, tenantID string) string { return collection + "/" + tenantID }

// Write is one write of a record.
type Write struct {
	Collection, Key string
	Expected        uint64 // version that is stored, 0 = none
	Value           []byte
	Delete          bool
}

// Record is one record of the directory. Its value is shared: do not change it.
type Record struct {
	Key     string
	Version uint64
	Value   []byte
}

// Store is the directory: small records, in the memory of every node. What one node has written all nodes have a moment later.
type Store interface {
	// Get returns what this node knows.
	Get(collection, key string) (Record, bool)
	// Find is Get, and asks where the directory is led when this node knows no such record: it may have been made a moment
	// ago. An error says that it could not be asked.
	Find(ctx context.Context, collection, key string) (Record, bool, error)
	// List returns the records whose key begins with a prefix, by key. The slice is shared: do not change it.
	List(collection, prefix string) []Record
	// Put writes a record whose stored version is expected (0 = there is none) and returns its new version. A CONFLICT
	// failure says that it is another. Once it returns this node reads the new value, and the other reachable ones do.
	Put(ctx context.Context, collection, key string, expected uint64, value []byte) (version uint64, err error)
	// Delete removes a record whose stored version is expected, as Put.
	Delete(ctx context.Context, collection, key string, expected uint64) error
	// Guarded makes the write that decide returns, nil = none, if nothing was written in its scope since decide began to read:
	// limits and names are kept by that, however many write at once on however many nodes. decide only reads; it is called
	// again when somebody else was faster, whose record it then sees. Its error is Guarded's. Whatever else is to keep to the
	// scope has to be written by Guarded with the same scope.
	Guarded(ctx context.Context, scope string, decide func() (*Write, error)) (version uint64, err error)
	// Watch returns a channel that holds a value whenever the collection has changed since it was last received from.
	Watch(collection string) (changed <-chan struct{}, stop func())
}
