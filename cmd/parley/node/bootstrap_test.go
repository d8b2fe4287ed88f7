package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/cluster/shard"
	"parley/httpedge/endpoint"
	"parley/httpedge/endpoint/endpointtest"
	"parley/httpedge/token"
	"parley/proto/directorypb"
)

func mint(t *testing.T) ids {
	t.Helper()
	shards, ok := shard.New(16)
	require.True(t, ok)
	return ids{shards}
}

// owner returns the user for whom a token acts, "" when it is not valid.
func owner(t *testing.T, records endpoint.Records, secret string) string {
	t.Helper()
	hash, _ := token.Digest(secret)
	stored, found := records.Get(endpoint.Tokens, token.Key(hash))
	if !found {
		return ""
	}
	record := &directorypb.Token{}
	require.NoError(t, proto.Unmarshal(stored.Value, record))
	require.Equal(t, hash, record.GetHash())
	require.NotContains(t, string(stored.Value), secret, "the secret is not stored")
	require.Equal(t, firstProject, record.GetProjectId())
	require.False(t, record.GetScoped())
	return record.GetUserId()
}

func TestFoundingOnce(t *testing.T) {
	records := &endpointtest.Records{}
	f := &founding{records: records, ids: mint(t), tier: "FREE", now: time.Now}
	first, err := f.found(t.Context())
	require.NoError(t, err)
	require.Regexp(t, "^service_[0-9a-f]{64}$", first)
	require.Equal(t, firstOwner, owner(t, records, first))
	again, err := f.found(t.Context())
	require.NoError(t, err)
	require.Empty(t, again, "shown once")
	require.Len(t, records.List(endpoint.Tokens, ""), 1)

	f.tier = "ENTERPRISE"
	_, err = f.found(t.Context())
	require.NoError(t, err)
	tenant := &directorypb.Tenant{}
	stored, _ := records.Get(endpoint.Tenants, firstTenant)
	require.NoError(t, proto.Unmarshal(stored.Value, tenant))
	require.Equal(t, "ENTERPRISE", tenant.GetTier())
}

func TestFoundingWithAGivenToken(t *testing.T) {
	records := &endpointtest.Records{}
	f := &founding{records: records, ids: mint(t), tier: "FREE", now: time.Now, given: "service_given"}
	shown, err := f.found(t.Context())
	require.NoError(t, err)
	require.Empty(t, shown)
	require.Equal(t, firstOwner, owner(t, records, "service_given"))

	f.given = "service_another"
	_, err = f.found(t.Context())
	require.NoError(t, err)
	require.Equal(t, firstOwner, owner(t, records, "service_another"))
	require.Empty(t, owner(t, records, "service_given"), "one that is not configured any more")

	f.given = ""
	_, err = f.found(t.Context())
	require.NoError(t, err)
	require.Equal(t, firstOwner, owner(t, records, "service_another"), "nothing said about it")
}

// TestFoundingGoesOn: the token is made and shown also when it took several attempts, wherever they failed.
func TestFoundingGoesOn(t *testing.T) {
	failed := errors.New("no leader")
	for _, broken := range []string{endpoint.Tenants, endpoint.Projects, endpoint.Users, endpoint.Tokens} {
		for _, written := range []bool{false, true} {
			t.Run(fmt.Sprint(broken, " written ", written), func(t *testing.T) {
				records := &lossy{Records: &endpointtest.Records{}, collection: broken, written: written, err: failed}
				f := &founding{records: records, ids: mint(t), tier: "FREE", now: time.Now}
				_, err := f.found(t.Context())
				require.ErrorIs(t, err, failed)
				records.collection = ""
				secret, err := f.found(t.Context())
				require.NoError(t, err)
				require.Equal(t, firstOwner, owner(t, records, secret))
				secret, err = f.found(t.Context())
				require.NoError(t, err)
				require.Empty(t, secret, "shown once")
			})
		}
	}
}

// lossy fails writes to a collection, before or after they are done.
type lossy struct {
	*endpointtest.Records

	collection string
	written    bool
	err        error
}

func (l *lossy) Put(ctx context.Context, collection, key string, expected uint64, value []byte) (uint64, error) {
	if collection != l.collection {
		return l.Records.Put(ctx, collection, key, expected, value)
	}
	if l.written {
		if _, err := l.Records.Put(ctx, collection, key, expected, value); err != nil {
			return 0, err
		}
	}
	return 0, l.err
}

// TestFoundingByAll: all nodes of a new cluster are at it at once; one of them shows a token.
func TestFoundingByAll(t *testing.T) {
	records := &endpointtest.Records{}
	var wg sync.WaitGroup
	shown := make([]string, 8)
	for i := range shown {
		wg.Go(func() {
			f := &founding{records: records, ids: mint(t), tier: "FREE", now: time.Now}
			var err error
			shown[i], err = f.found(context.WithoutCancel(t.Context()))
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
			require.Equal(t, firstOwner, owner(t, records, secret))
		}
	}
	require.Equal(t, 1, made)
	for _, collection := range []string{endpoint.Tenants, endpoint.Projects, endpoint.Users, endpoint.Tokens} {
		require.Len(t, records.List(collection, ""), 1, collection)
	}
}
