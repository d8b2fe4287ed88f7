package access_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/actors/core/access"
	"parley/actors/core/failure"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

// TestEffectiveLicence: what a key gives, by the clock.
func TestEffectiveLicence(t *testing.T) {
	const day = 24 * time.Hour
	end := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	grace := 14 * day
	tenant := &directorypb.Tenant{Id: "t1", Slug: "acme", Tier: "STARTER"}
	key := func(change func(*access.Offline)) *access.Offline {
		o := &access.Offline{ID: "lic-1", Tier: access.Enterprise, TenantID: "t1", Expires: end}
		if change != nil {
			change(o)
		}
		return o
	}
	for name, c := range map[string]struct {
		key    *access.Offline
		unread failure.Reason
		now    time.Time
		tier   access.Tier
		status access.LicenceStatus
		reason failure.Reason
		until  time.Time
	}{
		"no_key":              {now: end, tier: "STARTER", status: "active"},
		"active":              {key: key(nil), now: end.Add(-day), tier: "ENTERPRISE", status: "active", until: end.Add(grace)},
		"in_grace":            {key: key(nil), now: end.Add(grace - time.Millisecond), tier: "ENTERPRISE", status: "active", until: end.Add(grace)},
		"after_grace":         {key: key(nil), now: end.Add(grace), tier: "STARTER", status: "expired", reason: failure.LicenseKeyExpired},
		"never_expires":       {key: key(func(o *access.Offline) { o.Expires = time.Time{} }), now: end.Add(1000 * day), tier: "ENTERPRISE", status: "active"},
		"not_yet":             {key: key(func(o *access.Offline) { o.NotBefore = end.Add(-day) }), now: end.Add(-day - time.Minute - 1), tier: "STARTER", status: "invalid", reason: failure.LicenseKeyEarly, until: end.Add(-day - time.Minute)},
		"just_begun":          {key: key(func(o *access.Offline) { o.NotBefore = end.Add(-day) }), now: end.Add(-day - time.Minute), tier: "ENTERPRISE", status: "active", until: end.Add(grace)},
		"by_slug":             {key: key(func(o *access.Offline) { o.TenantID, o.TenantSlug = "", "acme" }), now: end, tier: "ENTERPRISE", status: "active", until: end.Add(grace)},
		"another_tenant":      {key: key(func(o *access.Offline) { o.TenantID = "t2" }), now: end, tier: "STARTER", status: "invalid", reason: failure.LicenseKeyForeign},
		"another_slug":        {key: key(func(o *access.Offline) { o.TenantID, o.TenantSlug = "", "other" }), now: end, tier: "STARTER", status: "invalid", reason: failure.LicenseKeyForeign},
		"both_must_fit":       {key: key(func(o *access.Offline) { o.TenantSlug = "other" }), now: end, tier: "STARTER", status: "invalid", reason: failure.LicenseKeyForeign},
		"nobody's":            {key: key(func(o *access.Offline) { o.TenantID = "" }), now: end, tier: "STARTER", status: "invalid", reason: failure.LicenseKeyIncomplete},
		"unread":              {unread: failure.LicenseKeyUntrusted, now: end, tier: "STARTER", status: "invalid", reason: failure.LicenseKeyUntrusted},
		"a_key_may_be_lower":  {key: key(func(o *access.Offline) { o.Tier = access.Free }), now: end, tier: "FREE", status: "active", until: end.Add(grace)},
		"expired_and_foreign": {key: key(func(o *access.Offline) { o.TenantID = "t2" }), now: end.Add(99 * day), tier: "STARTER", status: "invalid", reason: failure.LicenseKeyForeign},
	} {
		t.Run(name, func(t *testing.T) {
			var unread *failure.Failure
			if c.unread != "" {
				unread = failure.New(failurepb.Code_VALIDATION, c.unread)
			}
			l := access.LicenceOf(tenant, c.key, unread, c.now, grace)
			require.Equal(t, c.tier, l.Tier())
			require.Equal(t, c.status, l.Status)
			require.Equal(t, c.until, l.Until)
			if c.reason == "" {
				require.Nil(t, l.Refused)
				require.Equal(t, c.key != nil, l.Offline)
				return
			}
			require.Equal(t, c.reason, l.Refused.Reason)
			require.NotEmpty(t, l.Refused.DefaultText())
			require.False(t, l.Offline)
		})
	}
	require.Equal(t, access.LicenceFree, access.TierLicence(&directorypb.Tenant{Id: "t", Tier: "FREE"}).Status)
	require.Equal(t, "lic_t", access.TierLicence(&directorypb.Tenant{Id: "t"}).ID)
	require.Equal(t, access.Free, access.Licence{}.Tier())
}

func TestLimitsOfAKey(t *testing.T) {
	tenant := &directorypb.Tenant{Id: "t1", Tier: "FREE"}
	limits := func(bounded bool, most int) access.Limits {
		return access.LicenceOf(tenant, &access.Offline{Tier: access.Starter, TenantID: "t1", Bounded: bounded, MaxProjects: most}, nil, time.Unix(1, 0), 0).Limits()
	}
	require.Equal(t, access.Unlimited, limits(false, 0).MaxProjects)
	require.Equal(t, 3, limits(true, 3).MaxProjects)
	require.Equal(t, 0, limits(true, 0).MaxProjects)
	require.EqualValues(t, 10_000, limits(true, 3).RequestsPerMonth)
}

// TestRoutesOfSignedInUsers: the table of document 3, 3.3, for paths below /api.
func TestRoutesOfSignedInUsers(t *testing.T) {
	for path, tiers := range map[string]string{
		"/users/{id}":             "FSPEO", // every plan counts users
		"/projects":               "FSPEO",
		"/models":                 "FSPEO",
		"/dashboard":              "FSPEO",
		"/tokens/{id}":            "FSPEO",
		"/webhooks":               "FSPEO", // in no pattern
		"/audit/logs":             "FSPEO",
		"/groups":                 "FSPEO",
		"/license":                "FSPEO",
		"/quota/policies":         "FSPEO",
		"/llm/chat":               "FSPEO",
		"/llm/embeddings":         ".SPEO",
		"/agents":                 "..PEO",
		"/agents/{key}":           "..PEO",
		"/agentsx":                "FSPEO",
		"/vector/providers":       "F.PEO",
		"/guardrails":             "F.PEO",
		"/files/buckets":          "F..EO",
		"/providers":              "F..EO",
		"/alerts/rules/{id}":      "FSPEO",
		"/inference-monitoring/x": "FSPEO",
	} {
		for i, tier := range []access.Tier{access.Free, access.Starter, access.Professional, access.Enterprise, access.OnPremise} {
			require.Equal(t, tiers[i] != '.', tier.AllowsSignedIn(path), "%s %s", tier, path)
		}
	}
	require.True(t, access.EnterpriseArea("/aegis/evaluate"))
	require.True(t, access.EnterpriseArea("/mcp/hubs"))
	require.False(t, access.EnterpriseArea("/aegisx"))
}
