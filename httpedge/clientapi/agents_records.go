package clientapi

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/catalog"
	"parley/actors/core/collection"
	"parley/actors/machine"
	"parley/httpedge/endpoint"
	"parley/proto/failurepb"
)

// maxTries is how often a write is tried anew because somebody else has written meanwhile; catchUp is how long this node may
// take to hear of that.
const (
	maxTries = 5
	catchUp  = 250 * time.Millisecond
)

// maxProjectBytes bounds what a project's records of one collection come to: every node has all of them in memory.
const maxProjectBytes = 64 << 20

// roomFor refuses a record of a project that would make its collection too large.
func (a *API) roomFor(name, key string, grows int) error {
	project, _, ofProject := strings.Cut(key, "/") // else the plan bounds their number
	if !ofProject || grows <= 0 {
		return nil
	}
	for _, record := range a.Records.List(name, catalog.Key(project, "")) {
		grows += len(record.Value)
	}
	if grows > maxProjectBytes {
		return machine.Fail(failurepb.Code_QUOTA_REACHED, "The project's %s are larger than %d bytes in all",
			strings.ReplaceAll(name, "_", " "), maxProjectBytes)
	}
	return nil
}

// limitReached says that a plan's, or the server's, limit of something is used up.
func limitReached(what string, count, limit int) *machine.Failure {
	return machine.Fail(failurepb.Code_QUOTA_REACHED, "%s limit reached (%d/%d)", what, count, limit)
}

// decodeAll decodes records in their order.
func decodeAll[T any, M interface {
	*T
	proto.Message
}](records []collection.Record) ([]M, error) {
	all := make([]M, len(records))
	for i, record := range records {
		all[i] = new(T)
		if err := proto.Unmarshal(record.Value, all[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// newestFirst sorts by the time of creation; what was made at the same moment by a text of its own.
func newestFirst[M interface{ GetCreatedAt() int64 }](all []M, own func(M) string) {
	slices.SortFunc(all, func(a, b M) int {
		return cmp.Or(cmp.Compare(b.GetCreatedAt(), a.GetCreatedAt()), cmp.Compare(own(a), own(b)))
	})
}

// pagination says where a page of a list stands that has a total number of entries.
func pagination(limit, offset, total int) paginationSchema {
	return paginationSchema{Limit: limit, Offset: offset, HasMore: limit < total-min(offset, total)}
}

// pageOf is a part of a list.
func pageOf[T any](all []T, limit, offset int) ([]T, paginationSchema) {
	first := min(offset, len(all))
	last := min(first+limit, len(all))
	return all[first:last], paginationSchema{Limit: limit, Offset: offset, HasMore: last < len(all)}
}

// errNoRecord says that what is to be changed is not there, errTaken that what is to be made is.
var (
	errNoRecord = errors.New("no such record")
	errTaken    = errors.New("there is such a record")
)

// createRecord makes the record that decide returns, unless there is one under its key (errTaken). What decide sees of the tenant's
// records of the collection still holds when the record is made, however many are made at once: limits and names are kept by
// that. decide is called again when somebody else was faster.
func (a *API) createRecord(ctx context.Context, name string, decide func() (key string, made proto.Message, err error)) error {
	_, err := a.Records.Guarded(ctx, scopeOfCaller(ctx, name), func() (*collection.Write, error) {
		key, made, err := decide()
		if err != nil {
			return nil, err
		}
		if _, taken := a.Records.Get(name, key); taken {
			return nil, errTaken
		}
		value, err := proto.Marshal(made)
		if err != nil {
			return nil, err
		}
		return &collection.Write{Collection: name, Key: key, Value: value}, a.roomFor(name, key, len(value))
	})
	return err
}

func scopeOfCaller(ctx context.Context, name string) string {
	return collection.Scope(name, endpoint.CallerFrom(ctx).TenantID)
}

// change rewrites a record: into is filled with what is stored, and what edit leaves there is written. edit is called again
// when somebody else has written meanwhile.
func (a *API) change(ctx context.Context, name, key string, into proto.Message, edit func() error) error {
	_, err := a.Records.Guarded(ctx, scopeOfCaller(ctx, name), func() (*collection.Write, error) {
		record, ok, err := a.Records.Find(ctx, name, key)
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, errNoRecord
		}
		proto.Reset(into)
		if err = proto.Unmarshal(record.Value, into); err != nil {
			return nil, err
		}
		if err = edit(); err != nil {
			return nil, err
		}
		value, err := proto.Marshal(into)
		if err != nil {
			return nil, err
		}
		return &collection.Write{Collection: name, Key: key, Expected: record.Version, Value: value},
			a.roomFor(name, key, len(value)-len(record.Value))
	})
	return err
}

// remove deletes a record whatever its version is.
func (a *API) remove(ctx context.Context, name, key string) error {
	return a.attempt(ctx, name, func() error {
		record, ok, err := a.Records.Find(ctx, name, key)
		if err != nil {
			return err
		}
		if !ok {
			return errNoRecord
		}
		return a.Records.Delete(ctx, name, key, record.Version)
	})
}

// attempt repeats a write that met somebody else's, once this node has heard of that one.
func (a *API) attempt(ctx context.Context, name string, write func() error) error {
	changed, stop := a.Records.Watch(name)
	defer stop()
	for try := 1; ; try++ {
		err := write()
		if !isConflict(err) || try == maxTries {
			return err
		}
		wait := time.NewTimer(catchUp)
		select {
		case <-changed:
		case <-wait.C:
		case <-ctx.Done():
		}
		wait.Stop()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

func isConflict(err error) bool {
	return isCode(err, failurepb.Code_CONFLICT)
}

// given is a field that may be absent; null is its zero value.
type given[T any] struct {
	set   bool
	value T
}

// UnmarshalJSON notes that the field is there.
func (g *given[T]) UnmarshalJSON(raw []byte) error {
	g.set = true
	return json.Unmarshal(raw, &g.value)
}

// Described implements openapi.Described.
func (g given[T]) Described() (value any, nullable bool) { return g.value, true }

func randomBytes(n int) []byte {
	random := make([]byte, n)
	_, _ = rand.Read(random) // never fails: the runtime ends the process instead
	return random
}

// randomText is n random digits and lower-case letters.
func randomText(n int) string {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	text := make([]byte, 0, n)
	for len(text) < n {
		for _, b := range randomBytes(n) {
			if int(b) < 256/len(letters)*len(letters) && len(text) < n { // every letter as likely as any other
				text = append(text, letters[int(b)%len(letters)])
			}
		}
	}
	return string(text)
}

// read reads a record into a message, and says whether there is one.
func (a *API) read(ctx context.Context, name, key string, into proto.Message) (bool, error) {
	record, ok, err := a.Records.Find(ctx, name, key)
	if err != nil || !ok {
		return false, err
	}
	return true, proto.Unmarshal(record.Value, into)
}
