package identity_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/actors/core/collection"
	"parley/actors/core/collection/collectiontest"
	"parley/actors/core/identity"
	"parley/proto/directorypb"
)

// newAccounts returns accounts whose ids and tokens are numbered.
func newAccounts(store collection.Store) *identity.Accounts {
	return identity.New(store, identity.Env{
		NewID: func(kind string) string { return fmt.Sprintf("%s_%05d", kind, numbered.Add(1)) },
		Now:   time.Now, Random: func(into []byte) { copy(into, fmt.Sprintf("%032d", numbered.Add(1))) },
	})
}

var numbered atomic.Int64

// owner returns the user for whom a token acts, "" when it is not valid.
func owner(t *testing.T, records collection.Store, secret string) string {
	t.Helper()
	hash, _ := identity.TokenDigest(secret)
	stored, found := records.Get(identity.Tokens, identity.TokenKey(hash))
	if !found {
		return ""
	}
	record := &directorypb.Token{}
	require.NoError(t, proto.Unmarshal(stored.Value, record))
	require.Equal(t, hash, record.GetHash())
	require.NotContains(t, string(stored.Value), secret, "the secret is not stored")
	require.Equal(t, identity.DefaultProject, record.GetProjectId())
	require.False(t, record.GetScoped())
	return record.GetUserId()
}

func TestBootstrapOnce(t *testing.T) {
	records := &collectiontest.Records{}
	f := &identity.Bootstrap{Accounts: newAccounts(records), Tier: "FREE"}
	first, err := f.Run(t.Context())
	require.NoError(t, err)
	require.Regexp(t, "^service_[0-9a-f]{64}$", first)
	require.Equal(t, identity.DefaultOwner, owner(t, records, first))
	again, err := f.Run(t.Context())
	require.NoError(t, err)
	require.Empty(t, again, "shown once")
	require.Len(t, records.List(identity.Tokens, ""), 1)

	f.Tier = "ENTERPRISE"
	_, err = f.Run(t.Context())
	require.NoError(t, err)
	tenant := &directorypb.Tenant{}
	stored, _ := records.Get(identity.Tenants, identity.DefaultTenant)
	require.NoError(t, proto.Unmarshal(stored.Value, tenant))
	require.Equal(t, "ENTERPRISE", tenant.GetTier())
}

func TestBootstrapWithAGivenToken(t *testing.T) {
	records := &collectiontest.Records{}
	f := &identity.Bootstrap{Accounts: newAccounts(records), Tier: "FREE", Token: "service_given"}
	shown, err := f.Run(t.Context())
	require.NoError(t, err)
	require.Empty(t, shown)
	require.Equal(t, identity.DefaultOwner, owner(t, records, "service_given"))

	f.Token = "service_another"
	_, err = f.Run(t.Context())
	require.NoError(t, err)
	require.Equal(t, identity.DefaultOwner, owner(t, records, "service_another"))
	require.Empty(t, owner(t, records, "service_given"), "one that is not configured any more")

	f.Token = ""
	_, err = f.Run(t.Context())
	require.NoError(t, err)
	require.Equal(t, identity.DefaultOwner, owner(t, records, "service_another"), "nothing said about it")
}

// TestBootstrapGoesOn: the token is made and shown also when it took several attempts, wherever they failed.
func TestBootstrapGoesOn(t *testing.T) {
	failed := errors.New("no leader")
	for _, broken := range []string{identity.Tenants, identity.Projects, identity.Users, identity.Tokens} {
		for _, written := range []bool{false, true} {
			t.Run(fmt.Sprint(broken, " written ", written), func(t *testing.T) {
				records := &lossy{Records: &collectiontest.Records{}, collection: broken, written: written, err: failed}
				f := &identity.Bootstrap{Accounts: newAccounts(records), Tier: "FREE"}
				_, err := f.Run(t.Context())
				require.ErrorIs(t, err, failed)
				records.collection = ""
				secret, err := f.Run(t.Context())
				require.NoError(t, err)
				require.Equal(t, identity.DefaultOwner, owner(t, records, secret))
				secret, err = f.Run(t.Context())
				require.NoError(t, err)
				require.Empty(t, secret, "shown once")
			})
		}
	}
}

// lossy fails writes to a collection, before or after they are done.
type lossy struct {
	*collectiontest.Records

	collection string
	written    bool
	err        error
}

func (l *lossy) Put(ctx context.Context, name, key string, expected uint64, value []byte) (uint64, error) {
	if name != l.collection {
		return l.Records.Put(ctx, name, key, expected, value)
	}
	if l.written {
		if _, err := l.Records.Put(ctx, name, key, expected, value); err != nil {
			return 0, err
		}
	}
	return 0, l.err
}

// TestBootstrapByAll: all nodes of a new cluster are at it at once; one of them shows a token.
func TestBootstrapByAll(t *testing.T) {
	records := &collectiontest.Records{}
	var wg sync.WaitGroup
	shown := make([]string, 8)
	for i := range shown {
		wg.Go(func() {
			f := &identity.Bootstrap{Accounts: newAccounts(records), Tier: "FREE"}
			var err error
			shown[i], err = f.Run(context.WithoutCancel(t.Context()))
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	made := 0
	for _, secret := range shown {
		if secret != "" {
			made++
			require.Equal(t, identity.DefaultOwner, owner(t, records, secret))
		}
	}
	require.Equal(t, 1, made)
	for _, name := range []string{identity.Tenants, identity.Projects, identity.Users, identity.Tokens} {
		require.Len(t, records.List(name, ""), 1, name)
	}
}

// TestCandidatesAreTheOldest: who registers companies with somebody's email does not keep them from signing in.
func TestCandidatesAreTheOldest(t *testing.T) {
	var minute atomic.Int64
	accounts := identity.New(&collectiontest.Records{}, identity.Env{
		NewID:  func(kind string) string { return fmt.Sprintf("%s_%05d", kind, numbered.Add(1)) },
		Now:    func() time.Time { return time.UnixMilli(minute.Add(60_000)) },
		Random: func(into []byte) { copy(into, fmt.Sprintf("%032d", numbered.Add(1))) },
	})
	var owners []string
	for i := range 6 {
		made, err := accounts.Register(t.Context(), &identity.Registration{
			Company: fmt.Sprint("Company ", i), Slug: fmt.Sprint("company-", i), Name: "Ann", Email: "ann@company.test", Password: "x",
		}, []byte("hash"))
		require.NoError(t, err)
		owners = append(owners, made.Owner.GetId())
	}
	found, err := accounts.Candidates(t.Context(), "ann@company.test", "")
	require.NoError(t, err)
	var ids []string
	for _, user := range found {
		ids = append(ids, user.GetId())
	}
	require.Equal(t, owners[:4], ids)
}
