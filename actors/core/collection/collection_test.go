package collection_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/actors/core/collection"
	"parley/actors/core/collection/collectiontest"
	"parley/actors/machine"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

// book is a record that counts how often one is decoded.
type book struct {
	ID      string `json:"id"`
	Tenant  string `json:"tenant"`
	ISBN    string `json:"isbn,omitempty"`
	Title   string `json:"title,omitempty"`
	Created int64  `json:"created"`
}

var decoded atomic.Int64

func (b *book) UnmarshalJSON(raw []byte) error {
	decoded.Add(1)
	type plain book
	return json.Unmarshal(raw, (*plain)(b))
}

var (
	errTaken = errors.New("that ISBN is taken")
	errFull  = errors.New("the shelf is full")
)

func books(store collection.Store) *collection.Collection[*book] {
	return collection.JSON(store, collection.Declaration[*book]{
		Name: "books", Noun: "book", Key: func(b *book) string { return b.Tenant + "/" + b.ID },
		Scope:   func(b *book) string { return collection.Scope("books", b.Tenant) },
		Created: func(b *book) int64 { return b.Created },
		Terms: func(b *book) []string {
			return []string{collection.Term("tenant", b.Tenant), collection.Term("title", b.Title)}
		},
		Unique: []collection.Unique[*book]{{
			Field: "isbn", Of: func(b *book) string { return b.ISBN }, Taken: func(*book) error { return errTaken },
		}},
		MaxBytes: 4 << 10,
	})
}

func titles(all []*book) (found []string) {
	for _, b := range all {
		found = append(found, b.Title)
	}
	return found
}

func TestPagesDecodeOnlyWhatTheyShow(t *testing.T) {
	c := books(&collectiontest.Records{})
	for i := range 40 {
		require.NoError(t, c.Create(t.Context(), &book{ID: fmt.Sprint(i), Tenant: "t", Title: fmt.Sprint("b", i), Created: int64(i / 2)}, nil))
	}
	require.NoError(t, c.Create(t.Context(), &book{ID: "x", Tenant: "other"}, nil))
	page, total, err := c.Page(collection.Term("tenant", "t"), 3, 1)
	require.NoError(t, err)
	require.Equal(t, 40, total)
	require.Equal(t, []string{"b39", "b36", "b37"}, titles(page), "newest first, then by key")

	decoded.Store(0)
	for range 5 {
		page, _, err = c.Page(collection.Term("tenant", "t"), 2, 0)
		require.NoError(t, err)
		require.Len(t, page, 2)
	}
	require.EqualValues(t, 10, decoded.Load())
	require.Equal(t, 40, c.Count(collection.Term("tenant", "t")))
	require.EqualValues(t, 10, decoded.Load())

	page, total, err = c.Page(collection.Term("tenant", "t"), 10, 39)
	require.NoError(t, err)
	require.Equal(t, []any{40, []string{"b1"}}, []any{total, titles(page)})
	page, _, err = c.Page(collection.Term("tenant", "t"), 10, 41)
	require.NoError(t, err)
	require.Empty(t, page)

	decoded.Store(0)
	page, total, err = c.LastByKey("t/1", 2, 1)
	require.NoError(t, err)
	require.Equal(t, []any{11, []string{"b18", "b17"}}, []any{total, titles(page)})
	require.EqualValues(t, 2, decoded.Load())
}

func TestIndexFollowsTheStore(t *testing.T) {
	store := &collectiontest.Records{}
	c, elsewhere := books(store), books(store) // as another node's
	title := func(c *collection.Collection[*book], of string) []string {
		all, err := c.All(collection.Term("title", of))
		require.NoError(t, err)
		return titles(all)
	}
	require.NoError(t, c.Create(t.Context(), &book{ID: "a", Tenant: "t", Title: "old"}, nil))
	require.Equal(t, []string{"old"}, title(elsewhere, "old"))
	changed, err := elsewhere.Change(t.Context(), "t/a", func(b *book) error { b.Title = "new"; return nil })
	require.NoError(t, err)
	require.Equal(t, "new", changed.Title)
	require.Empty(t, title(c, "old"))
	require.Equal(t, []string{"new"}, title(c, "new"))
	_, err = store.Put(t.Context(), "books", "t/broken", 0, []byte("{"))
	require.NoError(t, err)
	require.Equal(t, 1, c.Count(collection.Term("tenant", "t")), "a record that cannot be decoded has no terms")
	require.NoError(t, elsewhere.Delete(t.Context(), "t/a", nil))
	require.Zero(t, c.Count(collection.Term("tenant", "t")))
	found, err := c.Lookup(collection.Term("title", "new"))
	require.NoError(t, err)
	require.Nil(t, found)
}

// TestExactly: of many writers at once one gets a unique value, and no limit is exceeded.
func TestExactly(t *testing.T) {
	store := &collectiontest.Records{}
	var created, taken, full atomic.Int64
	create := func(isbn string) {
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				c := books(store) // each a node of its own
				err := c.Create(t.Context(), &book{ID: fmt.Sprint(isbn, i), Tenant: "t", ISBN: isbn}, nil, collection.Limit{
					Term: collection.Term("tenant", "t"), Most: 5, Reached: func(int) error { return errFull },
				})
				switch {
				case err == nil:
					created.Add(1)
				case errors.Is(err, errTaken):
					taken.Add(1)
				case errors.Is(err, errFull):
					full.Add(1)
				}
			})
		}
		wg.Wait()
	}
	create("978")
	require.Equal(t, []int64{1, 7, 0}, []int64{created.Load(), taken.Load(), full.Load()})
	create("")
	require.Equal(t, []int64{5, 7, 4}, []int64{created.Load(), taken.Load(), full.Load()})
}

func TestRefusals(t *testing.T) {
	c := books(&collectiontest.Records{})
	a, b := &book{ID: "a", Tenant: "t", ISBN: "1"}, &book{ID: "b", Tenant: "t"}
	require.NoError(t, c.Create(t.Context(), a, nil))
	require.NoError(t, c.Create(t.Context(), b, nil))
	failure := func(err error, code failurepb.Code, text string) {
		t.Helper()
		failed, is := errors.AsType[*machine.Failure](err)
		require.True(t, is, "%v", err)
		require.Equal(t, code, failed.Code)
		require.Contains(t, failed.DefaultText(), text)
	}
	failure(c.Create(t.Context(), a, nil), failurepb.Code_ALREADY_EXISTS, `there is a book "t/a"`)
	_, err := c.Get(t.Context(), "t/none")
	failure(err, failurepb.Code_NOT_FOUND, `there is no book "t/none"`)
	_, err = c.Change(t.Context(), "t/none", func(*book) error { return nil })
	failure(err, failurepb.Code_NOT_FOUND, "there is no book")
	failure(c.Delete(t.Context(), "t/none", nil), failurepb.Code_NOT_FOUND, "there is no book")
	_, err = c.Change(t.Context(), "t/b", func(b *book) error { b.ISBN = "1"; return nil })
	require.ErrorIs(t, err, errTaken)
	_, err = c.Change(t.Context(), "t/a", func(b *book) error { b.Title = "its own ISBN is not in its way"; return nil })
	require.NoError(t, err)
	require.ErrorIs(t, c.Delete(t.Context(), "t/a", func(*book) error { return errFull }), errFull)
	failure(c.Create(t.Context(), &book{ID: "c", Tenant: "t", Title: strings.Repeat("x", 4<<10)}, nil), failurepb.Code_QUOTA_REACHED,
		"The project's books are larger than 4096 bytes in all")
	require.NoError(t, c.Create(t.Context(), &book{ID: "c", Tenant: "u", ISBN: "1"}, nil), "another tenant's")
	added, err := c.Add(t.Context(), a)
	require.NoError(t, err)
	require.False(t, added)
}

// TestLaterFieldsStay: what a later release has written into a record outlives a change by this one.
func TestLaterFieldsStay(t *testing.T) {
	store := &collectiontest.Records{}
	_, err := store.Put(t.Context(), "books", "t/a", 0, []byte(`{"id":"a","tenant":"t","title":"old","isbn":"1","shelf":{"row":3}}`))
	require.NoError(t, err)
	_, err = books(store).Change(t.Context(), "t/a", func(b *book) error { b.Title, b.ISBN = "new", ""; return nil })
	require.NoError(t, err)
	stored, _ := store.Get("books", "t/a")
	require.JSONEq(t, `{"id":"a","tenant":"t","title":"new","created":0,"shelf":{"row":3}}`, string(stored.Value))

	users := collection.Proto(store, collection.Declaration[*directorypb.User]{
		Name: "users", Noun: "user", Key: (*directorypb.User).GetId, Scope: func(*directorypb.User) string { return "users" },
		Created: (*directorypb.User).GetCreatedAt,
	})
	const later = "\xc2\x3e\x02hi" // field 1000, which User does not have
	_, err = store.Put(t.Context(), "users", "u", 0, []byte("\x0a\x01u"+later))
	require.NoError(t, err)
	_, err = users.Change(t.Context(), "u", func(u *directorypb.User) error { u.Name = "Ann"; return nil })
	require.NoError(t, err)
	stored, _ = store.Get("users", "u")
	require.Contains(t, string(stored.Value), later)
}
