package collection

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/audit"
	"parley/actors/core/failure"
	"parley/proto/failurepb"
)

// Declaration says how the records of a collection are kept. All of it but Terms, Unique, Tie and MaxBytes is required.
type Declaration[T any] struct {
	Name string // of the collection in the directory; part of the stored form
	Noun string // one record, in errors: "user"
	// Key is the record's key in the collection.
	Key func(T) string
	// Scope is within which unique values and limits are decided, see Scope and Store.Guarded.
	Scope func(T) string
	// Created is when the record was created, Unix milliseconds: pages are newest first.
	Created func(T) int64
	// Tie orders records of the same millisecond. Default: the key.
	Tie func(T) string
	// Terms are what Page, Count and Lookup find the record by, see Term.
	Terms func(T) []string
	// Unique are the values that only one record of the scope may have.
	Unique []Unique[T]
	// MaxBytes bounds the size of all records whose keys share the part before the first slash, 0 = unbounded: every node
	// has all of them in memory.
	MaxBytes int
}

// Unique is a value of which a scope has at most one record.
type Unique[T any] struct {
	Field string         // names it in the index
	Of    func(T) string // "" = the record has none
	Taken func(T) error  // what a second record is refused with
}

// Limit bounds the records that share a term.
type Limit struct {
	Term    string
	Most    int
	Reached func(count int) error // what a record above it is refused with
}

// MissingError says that there is no such record.
type MissingError struct{ Noun, Key string }

// Error implements error.
func (e *MissingError) Error() string { return e.Unwrap().Error() }

// Unwrap is the failure that tells a caller.
func (e *MissingError) Unwrap() error {
	return failure.New(failurepb.Code_NOT_FOUND, failure.RecordMissing).Param("noun", e.Noun).Param("key", e.Key)
}

// ExistsError says that there is a record under the key already.
type ExistsError struct{ Noun, Key string }

// Error implements error.
func (e *ExistsError) Error() string { return e.Unwrap().Error() }

// Unwrap is the failure that tells a caller.
func (e *ExistsError) Unwrap() error {
	return failure.New(failurepb.Code_ALREADY_EXISTS, failure.RecordExists).Param("noun", e.Noun).Param("key", e.Key)
}

// Collection is the records of one kind. It is safe for concurrent use. Values that it returns belong to the caller. T is a pointer, as it is in all
// that goes with it: of generic code the compiler makes one version for all pointers, but one for each struct, in every package that
// can see a collection.
type Collection[T any] struct {
	declaration Declaration[T]
	store       Store
	index       index[T]
	decode      func([]byte) (T, error)
	encode      func(value T, stored []byte) ([]byte, error) // stored is the value that is replaced, nil = none
}

// Proto returns a collection of protobuf messages.
func Proto[M interface {
	*T
	proto.Message
}, T any](store Store, declaration Declaration[M]) *Collection[M] {
	return newCollection(store, declaration,
		func(raw []byte) (M, error) {
			value := M(new(T))
			return value, proto.Unmarshal(raw, value)
		},
		func(value M, _ []byte) ([]byte, error) { return proto.Marshal(value) })
}

// JSON returns a collection of structs that are stored as JSON objects.
func JSON[T any](store Store, declaration Declaration[*T]) *Collection[*T] {
	return newCollection(store, declaration, decodeJSON[T], encodeJSON[T])
}

func newCollection[T any](
	store Store, declaration Declaration[T], decode func([]byte) (T, error), encode func(T, []byte) ([]byte, error),
) *Collection[T] {
	c := &Collection[T]{declaration: declaration, store: store, decode: decode, encode: encode}
	c.index.collection = c
	return c
}

// Known returns the record that this node has, nil when it has none or cannot decode it.
func (c *Collection[T]) Known(key string) (known T) {
	if record, found := c.store.Get(c.declaration.Name, key); found {
		if value, err := c.decode(record.Value); err == nil {
			known = value
		}
	}
	return known
}

// Get returns a record, asking the directory's leader for one that this node does not have. A *MissingError says that there is
// none.
func (c *Collection[T]) Get(ctx context.Context, key string) (T, error) {
	value, _, err := c.find(ctx, key)
	return value, err
}

func (c *Collection[T]) find(ctx context.Context, key string) (value T, record Record, err error) {
	record, found, err := c.store.Find(ctx, c.declaration.Name, key)
	if err != nil {
		return value, record, err
	}
	if !found {
		return value, record, c.missing(key)
	}
	value, err = c.decode(record.Value)
	if err != nil {
		return value, record, fmt.Errorf("decode %s/%s: %w", c.declaration.Name, key, err)
	}
	return value, record, nil
}

func (c *Collection[T]) missing(key string) error {
	return &MissingError{Noun: c.declaration.Noun, Key: key}
}

// ByKey returns the records whose key begins with a prefix, by key.
func (c *Collection[T]) ByKey(prefix string) ([]T, error) {
	return c.decodeAll(c.store.List(c.declaration.Name, prefix))
}

// Size is the number of records whose key begins with a prefix.
func (c *Collection[T]) Size(prefix string) int { return len(c.store.List(c.declaration.Name, prefix)) }

// LastByKey returns a page of the records whose key begins with a prefix, the last key first, and how many there are in all.
func (c *Collection[T]) LastByKey(prefix string, limit, offset int) (page []T, total int, err error) {
	all := c.store.List(c.declaration.Name, prefix)
	records := make([]Record, 0, min(limit, len(all)))
	for i := len(all) - 1 - offset; i >= 0 && len(records) < limit; i-- {
		records = append(records, all[i])
	}
	page, err = c.decodeAll(records)
	return page, len(all), err
}

func (c *Collection[T]) decodeAll(records []Record) ([]T, error) {
	all := make([]T, len(records))
	for i, record := range records {
		value, err := c.decode(record.Value)
		if err != nil {
			return nil, fmt.Errorf("decode %s/%s: %w", c.declaration.Name, record.Key, err)
		}
		all[i] = value
	}
	return all, nil
}

// Create stores a new record. decide is called before each attempt and may complete the value; nil = nothing is left to decide.
// What it reads of the value's scope, and the limits, still hold when the record is stored. A *ExistsError says that the key is
// taken.
func (c *Collection[T]) Create(ctx context.Context, value T, decide func() error, limits ...Limit) error {
	_, err := c.store.Guarded(ctx, c.declaration.Scope(value), func() (*Write, error) {
		if decide != nil {
			if err := decide(); err != nil {
				return nil, err
			}
		}
		key := c.declaration.Key(value)
		if _, taken := c.store.Get(c.declaration.Name, key); taken {
			return nil, &ExistsError{Noun: c.declaration.Noun, Key: key}
		}
		if err := c.checkUnique(key, value); err != nil {
			return nil, err
		}
		for _, limit := range limits {
			if count := c.Count(limit.Term); count >= limit.Most {
				return nil, limit.Reached(count)
			}
		}
		return c.write(key, value, Record{})
	})
	if err == nil {
		c.note(ctx, c.declaration.Key(value), nil, value)
	}
	return err
}

// Add stores a record under its key if there is none yet, and says whether it did. Unique values are not checked.
func (c *Collection[T]) Add(ctx context.Context, value T) (added bool, err error) {
	key := c.declaration.Key(value)
	_, found, err := c.store.Find(ctx, c.declaration.Name, key)
	if err != nil || found {
		return false, err
	}
	encoded, err := c.encode(value, nil)
	if err != nil {
		return false, err
	}
	_, err = c.store.Put(ctx, c.declaration.Name, key, 0, encoded)
	if IsConflict(err) {
		return false, nil
	}
	if err == nil {
		c.note(ctx, key, nil, value)
	}
	return err == nil, err
}

// Change rewrites a record: edit changes the stored value, and its error refuses the change. It returns what was stored. A
// *MissingError says that there is no such record.
func (c *Collection[T]) Change(ctx context.Context, key string, edit func(T) error) (changed T, err error) {
	scope, err := c.scopeOf(ctx, key)
	if err != nil {
		return changed, err
	}
	var before []byte
	_, err = c.store.Guarded(ctx, scope, func() (*Write, error) {
		value, record, failed := c.find(ctx, key)
		if failed != nil {
			return nil, failed
		}
		before = record.Value
		if failed = edit(value); failed != nil {
			return nil, failed
		}
		if failed = c.checkUnique(key, value); failed != nil {
			return nil, failed
		}
		changed = value
		return c.write(key, value, record)
	})
	if err != nil {
		var none T
		return none, err
	}
	if was, failed := c.decode(before); failed == nil {
		c.note(ctx, key, was, changed)
	}
	return changed, nil
}

func (c *Collection[T]) scopeOf(ctx context.Context, key string) (string, error) {
	value, _, err := c.find(ctx, key)
	if err != nil {
		return "", err
	}
	return c.declaration.Scope(value), nil
}

// Delete removes a record if check, nil = none, has nothing against it. A *MissingError says that there is no such record.
func (c *Collection[T]) Delete(ctx context.Context, key string, check func(T) error) error {
	scope, err := c.scopeOf(ctx, key)
	if err != nil {
		return err
	}
	return c.DeleteIn(ctx, scope, key, check)
}

// DeleteIn is Delete in the scope of other records, which check looks at: none of them is written meanwhile.
func (c *Collection[T]) DeleteIn(ctx context.Context, scope, key string, check func(T) error) error {
	var was T
	_, err := c.store.Guarded(ctx, scope, func() (*Write, error) {
		value, record, err := c.find(ctx, key)
		if err == nil && check != nil {
			err = check(value)
		}
		was = value
		return &Write{Collection: c.declaration.Name, Key: key, Expected: record.Version, Delete: true}, err
	})
	if err == nil {
		c.note(ctx, key, was, nil)
	}
	return err
}

// note tells the audit trail of the request, if there is one, what became of a record: before or after are nil if there was or is none.
func (c *Collection[T]) note(ctx context.Context, key string, before, after any) {
	was, _ := before.(proto.Message)
	is, _ := after.(proto.Message)
	if was != nil || is != nil {
		audit.Changed(ctx, c.declaration.Name, key, was, is)
	}
}

// Drop removes the records whose key begins with a prefix as far as that succeeds: nothing refers to them any more.
func (c *Collection[T]) Drop(ctx context.Context, prefix string) {
	for _, record := range c.store.List(c.declaration.Name, prefix) {
		if c.store.Delete(ctx, c.declaration.Name, record.Key, record.Version) != nil {
			return
		}
		if was, err := c.decode(record.Value); err == nil {
			c.note(ctx, record.Key, was, nil)
		}
	}
}

// CheckUnique says whether a new record would be refused for a unique value now. Create decides.
func (c *Collection[T]) CheckUnique(value T) error {
	return c.checkUnique(c.declaration.Key(value), value)
}

func (c *Collection[T]) checkUnique(key string, value T) error {
	for _, unique := range c.declaration.Unique {
		of := unique.Of(value)
		if of == "" {
			continue
		}
		for _, other := range c.index.keys(c.uniqueTerm(unique.Field, value, of)) {
			if other != key {
				return unique.Taken(value)
			}
		}
	}
	return nil
}

func (c *Collection[T]) uniqueTerm(field string, value T, of string) string {
	return Term("unique", field, c.declaration.Scope(value), of)
}

func (c *Collection[T]) write(key string, value T, replaced Record) (*Write, error) {
	encoded, err := c.encode(value, replaced.Value)
	if err != nil {
		return nil, err
	}
	return &Write{Collection: c.declaration.Name, Key: key, Expected: replaced.Version, Value: encoded},
		c.checkBytes(key, len(encoded)-len(replaced.Value))
}

// checkBytes refuses a record that would make those that share the first part of its key too large.
func (c *Collection[T]) checkBytes(key string, grows int) error {
	owner, _, shared := strings.Cut(key, "/")
	if c.declaration.MaxBytes == 0 || !shared || grows <= 0 {
		return nil
	}
	for _, record := range c.store.List(c.declaration.Name, owner+"/") {
		grows += len(record.Value)
	}
	if grows > c.declaration.MaxBytes {
		return failure.New(failurepb.Code_QUOTA_REACHED, failure.RecordsTooLarge).
			Param("records", strings.ReplaceAll(c.declaration.Name, "_", " ")).Param("most", c.declaration.MaxBytes)
	}
	return nil
}
