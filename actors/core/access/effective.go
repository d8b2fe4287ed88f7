package access

import (
	"time"

	"parley/actors/core/failure"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

// Offline is what a licence key says whose signature was checked (document 3, 3.6).
type Offline struct {
	ID                   string
	Tier                 Tier
	TenantID, TenantSlug string    // one of them at least
	NotBefore, Expires   time.Time // zero = whenever, never
	MaxProjects          int       // instead of the tier's if Bounded; may be Unlimited
	Bounded              bool
}

// LicenceStatus is how a tenant's licence stands.
type LicenceStatus string

// Statuses (document 3, 3.6). Expired and Invalid are of a key that does not count.
const (
	LicenceFree    LicenceStatus = "free"
	LicenceActive  LicenceStatus = "active"
	LicenceExpired LicenceStatus = "expired"
	LicenceInvalid LicenceStatus = "invalid"
)

// Licence is what a tenant is licensed for at a moment. The zero value is FREE.
type Licence struct {
	ID      string
	Status  LicenceStatus
	Offline bool             // given by a key, otherwise by the tenant's tier
	Expires time.Time        // of the key, also of one that does not count; zero = never
	Ends    time.Time        // when an expired key stops counting; zero unless it counts
	Refused *failure.Failure // why the key does not count; nil = it does, or there is none
	Until   time.Time        // when it becomes another one by the clock alone; zero = never

	tier     Tier
	projects int
	bounded  bool
}

// clockSkew is how far the clock of whoever issues licences may be ahead.
const clockSkew = time.Minute

// TierLicence is the licence of a tenant without a key: its tier.
func TierLicence(tenant *directorypb.Tenant) Licence {
	l := Licence{ID: "lic_" + tenant.GetId(), Status: LicenceFree, tier: ParseTier(tenant.GetTier())}
	if l.tier != Free {
		l.Status = LicenceActive
	}
	return l
}

// LicenceOf is the licence of a tenant with a key: what the key gives from its beginning until some time of grace after its end, and
// the tenant's tier otherwise. refused is why the key could not be read.
func LicenceOf(tenant *directorypb.Tenant, key *Offline, refused *failure.Failure, now time.Time, grace time.Duration) Licence {
	l := TierLicence(tenant)
	if refused == nil && key == nil {
		return l
	}
	if refused == nil {
		refused = key.refuse(tenant, now, grace)
		l.ID, l.Expires = key.ID, key.Expires
	}
	switch {
	case refused == nil:
		l.tier, l.Status, l.Offline, l.projects, l.bounded = key.Tier, LicenceActive, true, key.MaxProjects, key.Bounded
		if !key.Expires.IsZero() {
			l.Until, l.Ends = key.Expires.Add(grace), key.Expires.Add(grace)
		}
		return l
	case refused.Reason == failure.LicenseKeyExpired:
		l.Status = LicenceExpired
	default:
		l.Status = LicenceInvalid
	}
	if refused.Reason == failure.LicenseKeyEarly {
		l.Until = key.NotBefore.Add(-clockSkew)
	}
	l.Refused = refused
	return l
}

// refuse says why a key does not count for a tenant now.
func (o *Offline) refuse(tenant *directorypb.Tenant, now time.Time, grace time.Duration) *failure.Failure {
	bad := func(reason failure.Reason) *failure.Failure { return failure.New(failurepb.Code_VALIDATION, reason) }
	switch {
	case o.TenantID == "" && o.TenantSlug == "":
		return bad(failure.LicenseKeyIncomplete).Param("claim", "tenantId or tenantSlug")
	case o.TenantID != "" && o.TenantID != tenant.GetId(), o.TenantSlug != "" && o.TenantSlug != tenant.GetSlug():
		return bad(failure.LicenseKeyForeign)
	case !o.NotBefore.IsZero() && now.Before(o.NotBefore.Add(-clockSkew)):
		return bad(failure.LicenseKeyEarly).Param("time", o.NotBefore.UTC().Format(time.RFC3339))
	case !o.Expires.IsZero() && !now.Before(o.Expires.Add(grace)):
		return bad(failure.LicenseKeyExpired).Param("time", o.Expires.UTC().Format(time.RFC3339))
	}
	return nil
}

// Tier is the tier that counts.
func (l Licence) Tier() Tier {
	if l.tier == "" {
		return Free
	}
	return l.tier
}

// Limits are the plan limits that count.
func (l Licence) Limits() Limits {
	limits := l.Tier().Limits()
	if l.bounded {
		limits.MaxProjects = l.projects
	}
	return limits
}
