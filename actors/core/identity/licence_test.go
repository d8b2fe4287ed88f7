package identity_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/actors/core/access"
	"parley/actors/core/collection/collectiontest"
	"parley/actors/core/failure"
	"parley/actors/core/identity"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

// readable are licence keys by their text.
type readable map[string]*access.Offline

func (r readable) Read(key string) (*access.Offline, *failure.Failure) {
	if offline, ok := r[key]; ok {
		return offline, nil
	}
	return nil, failure.New(failurepb.Code_VALIDATION, failure.LicenseKeyUntrusted)
}

// TestLicenceOfATenant: the newest key counts; of several at once one is there in the end, whole; one that is refused changes nothing.
func TestLicenceOfATenant(t *testing.T) {
	keys, ready, now := readable{}, false, time.Unix(1_000_000, 0)
	store := &collectiontest.Records{}
	accounts := identity.New(store, identity.Env{
		NewID: func(kind string) string { return kind + "_1" }, Now: func() time.Time { return now }, LicenceKeys: keys,
		LicenceGrace: time.Hour, LicencesReady: func() bool { return ready },
	})
	tenant, _, err := accounts.CreateTenant(t.Context(), identity.Operator(), identity.NewTenant{Name: "Acme"})
	require.NoError(t, err)
	long := func(name string) string { return strings.Repeat(name, 20) }
	for name, tier := range map[string]access.Tier{"a": access.Starter, "b": access.Professional, "c": access.Enterprise} {
		keys[long(name)] = &access.Offline{ID: name, Tier: tier, TenantID: tenant.GetId(), Expires: now.Add(time.Hour)}
	}
	keys[long("x")] = &access.Offline{ID: "x", Tier: access.Enterprise, TenantID: "another"}

	_, err = accounts.SetLicence(t.Context(), tenant.GetId(), long("a"), "usr_1")
	require.Equal(t, failure.LicenseKeysNotYet, reason(t, err))
	ready = true
	var wg sync.WaitGroup
	for name := range keys {
		wg.Go(func() {
			_, failed := accounts.SetLicence(context.WithoutCancel(t.Context()), tenant.GetId(), name, "usr_1")
			if name == long("x") {
				require.Equal(t, failure.LicenseKeyForeign, reason(t, failed))
				return
			}
			require.NoError(t, failed)
		})
	}
	wg.Wait()
	licence, err := accounts.TenantLicence(t.Context(), tenant.GetId())
	require.NoError(t, err)
	require.Equal(t, keys[long(licence.ID)].Tier, licence.Tier())
	for key, why := range map[string]failure.Reason{
		"short": failure.LicenseKeyLength, strings.Repeat("k", 8193): failure.LicenseKeyLength, long("y"): failure.LicenseKeyUntrusted,
	} {
		_, err = accounts.SetLicence(t.Context(), tenant.GetId(), key, "usr_1")
		require.Equal(t, why, reason(t, err))
	}
	require.Equal(t, licence, accounts.KnownLicence(tenant.GetId()))
	now = now.Add(2 * time.Hour)
	require.Equal(t, access.LicenceExpired, accounts.KnownLicence(tenant.GetId()).Status)
	delete(keys, long(licence.ID)) // another public key
	require.Equal(t, access.LicenceInvalid, accounts.KnownLicence(tenant.GetId()).Status)
	licence, err = accounts.RemoveLicence(t.Context(), tenant.GetId())
	require.NoError(t, err)
	require.Equal(t, access.TierLicence(tenant), licence)
	_, err = accounts.SetLicence(t.Context(), "nobody", long("a"), "usr_1")
	require.Error(t, err)

	without := identity.New(store, identity.Env{Now: time.Now})
	_, err = without.SetLicence(t.Context(), tenant.GetId(), long("a"), "usr_1")
	require.Equal(t, failure.LicenseKeysNotTaken, reason(t, err))
	require.Equal(t, access.LicenceInvalid, without.Licence(&directorypb.Tenant{License: &directorypb.License{Signed: long("a")}}).Status)
}
