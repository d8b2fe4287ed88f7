package token_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"parley/actors/core/collection"
	"parley/actors/core/collection/collectiontest"
	"parley/actors/core/identity"
	"parley/httpedge/permission"
	"parley/httpedge/token"
	"parley/proto/directorypb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var discard = slog.New(slog.DiscardHandler) // no state

// request is a request as the mux shows it to authentication.
type request struct{ method, authorization string }

func (r *request) Method() string { return r.method }
func (*request) Path() string     { return "/agents" }
func (*request) Query(string) string {
	return ""
}
func (*request) RemoteIP() string { return "127.0.0.1" }
func (r *request) Header(name string) string {
	if name == "Authorization" {
		return r.authorization
	}
	return ""
}

// peeking is one that shows its headers without copying them.
type peeking struct {
	request
	header []byte
}

func (p *peeking) PeekHeader(string) []byte { return p.header }

func bearer(secret string) *request {
	return &request{method: "GET", authorization: "Bearer " + secret}
}

// put stores a record, over the one that is there.
func put(tb testing.TB, records *collectiontest.Records, name, key string, message proto.Message) {
	tb.Helper()
	value, err := proto.Marshal(message)
	require.NoError(tb, err)
	stored, _ := records.Get(name, key)
	_, err = records.Put(tb.Context(), name, key, stored.Version, value)
	require.NoError(tb, err)
}

func remove(tb testing.TB, records *collectiontest.Records, name, key string) {
	tb.Helper()
	stored, ok := records.Get(name, key)
	require.True(tb, ok)
	require.NoError(tb, records.Delete(tb.Context(), name, key, stored.Version))
}

// directory holds the tenant t with the project p and the user u.
func directory(tb testing.TB) *collectiontest.Records {
	tb.Helper()
	records := &collectiontest.Records{}
	put(tb, records, identity.Tenants, "t", &directorypb.Tenant{Id: "t", Tier: "FREE"})
	put(tb, records, identity.Projects, "p", &directorypb.Project{Id: "p", TenantId: "t"})
	put(tb, records, identity.Users, "u", &directorypb.User{Id: "u", TenantId: "t", Role: "user"})
	return records
}

// mint stores a token and returns its secret. change may be nil.
func mint(tb testing.TB, records *collectiontest.Records, id string, change func(*directorypb.Token)) string {
	tb.Helper()
	secret, hash, prefix := identity.GenerateToken(&[32]byte{byte(len(id)), id[0], id[len(id)-1]})
	made := &directorypb.Token{Id: id, TenantId: "t", ProjectId: "p", UserId: "u", Hash: hash, Prefix: prefix}
	if change != nil {
		change(made)
	}
	put(tb, records, identity.Tokens, identity.TokenKey(hash), made)
	return secret
}

func keyOf(secret string) string {
	hash, _ := identity.TokenDigest(secret)
	return identity.TokenKey(hash)
}

func authenticator(records collection.Store) *token.Authenticator {
	return token.New(token.Config{}, records, discard)
}

// elsewhere is a directory of which this node knows nothing yet; another one does.
type elsewhere struct {
	*collectiontest.Records
	asked int
	err   error
}

func (e *elsewhere) Get(string, string) (collection.Record, bool) { return collection.Record{}, false }

func (e *elsewhere) Find(ctx context.Context, name, key string) (collection.Record, bool, error) {
	e.asked++
	if e.err != nil {
		return collection.Record{}, false, e.err
	}
	return e.Records.Find(ctx, name, key)
}

// engine is the built-in permission engine, without a log.
func engine(tb testing.TB) *permission.Engine {
	tb.Helper()
	e, err := permission.New(permission.Config{}, nil, discard, nil)
	require.NoError(tb, err)
	return e
}
