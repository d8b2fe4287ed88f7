package identity_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/actors/core/collection/collectiontest"
	"parley/actors/core/failure"
	"parley/actors/core/identity"
	"parley/proto/failurepb"
)

// TestSignInByProvider: whom a provider vouches for, and whom an email alone does not let in.
func TestSignInByProvider(t *testing.T) {
	accounts := newAccounts(&collectiontest.Records{})
	b := &identity.Bootstrap{
		Accounts: accounts, Tier: "FREE", Owner: &identity.Registration{Company: "First", Slug: "first", Name: "Root", Email: "root@first.test"},
		Hash: func(context.Context, string) ([]byte, error) { return []byte("hash"), nil },
	}
	_, err := b.Run(t.Context())
	require.NoError(t, err)
	_, err = accounts.CreateUser(t.Context(), identity.Operator(), identity.NewUser{Name: "Robot", Email: "robot@first.test", Role: "admin"})
	require.NoError(t, err)
	other, err := accounts.Register(t.Context(), &identity.Registration{Company: "Other", Slug: "other", Name: "Eve", Email: "dan@first.test"}, []byte("hash"))
	require.NoError(t, err)

	in := func(subject, email, role string) identity.ProviderLogin {
		return identity.ProviderLogin{Issuer: "https://login.test", Subject: subject, Email: email, Verified: true, Role: role}
	}
	owner, err := accounts.SignInByProvider(t.Context(), in("s-root", "Root@First.test", ""))
	require.NoError(t, err)
	require.Equal(t, identity.DefaultOwner, owner.GetId(), "by the verified email")
	unverified := in("s-2", "root@first.test", "user")
	unverified.Verified = false
	for what, one := range map[string]identity.ProviderLogin{
		"somebody else with the email of a user who has come already": in("s-2", "root@first.test", "user"),
		"an email of a user who may not sign in":                      in("s-3", "robot@first.test", "user"),
		"nobody, where nobody is made":                                in("s-4", "dan@first.test", ""),
		"an email that is not verified":                               unverified,
		"no email":                                                    in("s-5", "", "user"),
	} {
		_, err = accounts.SignInByProvider(t.Context(), one)
		require.True(t, refusedFor(err, failure.ProviderUserUnknown), "%s: %v", what, err)
	}
	var wg sync.WaitGroup
	ids := make([]string, 8)
	for i := range ids {
		wg.Go(func() {
			user, failed := accounts.SignInByProvider(context.WithoutCancel(t.Context()), in("s-dan", "dan@first.test", "user"))
			if failed == nil {
				ids[i] = user.GetId()
			} else {
				ids[i] = fmt.Sprint(failed)
			}
		})
	}
	wg.Wait()
	for _, id := range ids {
		require.Equal(t, ids[0], id, "made once")
	}
	require.NotEqual(t, other.Owner.GetId(), ids[0], "not the account that somebody else has made with the email elsewhere")
	candidates, err := accounts.Candidates(t.Context(), "dan@first.test", identity.DefaultTenant)
	require.NoError(t, err)
	require.Empty(t, candidates, "they have no password")
	for i := range 5 { // FREE has five users
		_, err = accounts.SignInByProvider(t.Context(), in(fmt.Sprint("s-n", i), fmt.Sprintf("n%d@first.test", i), "user"))
	}
	refused, is := err.(*failure.Failure) //nolint:errorlint // as it is returned
	require.True(t, is, err)
	require.Equal(t, failurepb.Code_QUOTA_REACHED, refused.Code)
}

func refusedFor(err error, reason failure.Reason) bool {
	refused, is := err.(*failure.Failure) //nolint:errorlint // as it is returned
	return is && refused.Reason == reason
}
