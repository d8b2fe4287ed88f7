package token_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"parley/actors/core/access"
	"parley/httpedge/endpoint"
	"parley/httpedge/token"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

// TestLicenceEndsByTheClock: a token that is remembered, and a stream that is open, see the end of a licence to the second, though no
// record changes.
func TestLicenceEndsByTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		records := directory(t)
		secret := mint(t, records, "tok_1", nil)
		ends := time.Now().Add(30 * time.Second)
		a := token.New(token.Config{Licence: func(tenant *directorypb.Tenant) access.Licence {
			return access.LicenceOf(tenant, &access.Offline{Tier: access.Enterprise, TenantID: "t", Expires: ends}, nil, time.Now(), 0)
		}}, records, discard)
		route := endpoint.On("GET /shields", "agents:read", func(context.Context, *struct{}) (*struct{}, error) { return &struct{}{}, nil }, endpoint.Enterprise())
		caller, refused := a.Authenticate(t.Context(), bearer(secret))
		require.Nil(t, refused)
		still, permit := a.Watch(caller, &route), token.Permit(engine(t), nil)
		for range 29 {
			caller, refused = a.Authenticate(t.Context(), bearer(secret))
			require.Nil(t, refused)
			require.Nil(t, permit(t.Context(), caller, &route))
			require.Nil(t, still())
			time.Sleep(time.Second)
		}
		time.Sleep(time.Second)
		require.Equal(t, failurepb.Code_LICENSE_REQUIRED, still().Code)
		caller, refused = a.Authenticate(t.Context(), bearer(secret))
		require.Nil(t, refused)
		require.Equal(t, access.Free, caller.Grant.Tier())
		require.Equal(t, failurepb.Code_LICENSE_REQUIRED, permit(t.Context(), caller, &route).Code)
	})
}

// TestLowerLicenceCountsAtOnce: what was taken ahead under a higher limit is not used under a lower one, nor lost.
func TestLowerLicenceCountsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(1)
		counter := f.counters()[0]
		for range 1500 {
			require.Nil(t, counter.Take(t.Context(), callerOn("STARTER")))
		}
		require.NotNil(t, counter.Take(t.Context(), callerOn("FREE")))
		require.Equal(t, int64(1500), f.stored(t).GetCount())
		require.Nil(t, counter.Take(t.Context(), callerOn("STARTER")))
		counter.Stop()
		require.Equal(t, int64(1501), f.stored(t).GetCount())
	})
}

// TestLicenceRoutesAreFree: what lifts the limit of a month works when that is reached.
func TestLicenceRoutesAreFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(1)
		counter := f.counters()[0]
		for counter.Take(t.Context(), callerOn("FREE")) == nil {
		}
		handle := func(context.Context, *struct{}) (*struct{}, error) { return &struct{}{}, nil }
		counted, free := endpoint.On("GET /agents", "agents:read", handle), endpoint.On("POST /license", "license:admin", handle, endpoint.Uncounted())
		permit := token.Permit(engine(t), counter)
		require.Equal(t, failurepb.Code_QUOTA_REACHED, permit(t.Context(), callerOn("FREE"), &counted).Code)
		require.Nil(t, permit(t.Context(), callerOn("FREE"), &free))
		require.Equal(t, int64(1000), f.stored(t).GetCount())
		counter.Stop()
	})
}
