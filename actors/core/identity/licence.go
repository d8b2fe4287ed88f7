package identity

import (
	"context"

	"parley/actors/core/access"
	"parley/actors/core/failure"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

// Length of a licence key in bytes (document 3, 3.6): every node keeps it in memory.
const (
	minLicenceKey = 20
	maxLicenceKey = 8 << 10
)

// LicenceKeys reads offline licence keys.
type LicenceKeys interface {
	// Read checks the signature of a key and returns what it says, or why it is none. It is asked at each request of a signed-in
	// user, so it remembers what it has read.
	Read(key string) (*access.Offline, *failure.Failure)
}

// Licence is what a tenant is licensed for now, by its record: its key if that counts, else its tier.
func (a *Accounts) Licence(tenant *directorypb.Tenant) access.Licence {
	return a.licence(tenant, tenant.GetLicense().GetSigned())
}

func (a *Accounts) licence(tenant *directorypb.Tenant, key string) access.Licence {
	if key == "" {
		return access.TierLicence(tenant)
	}
	offline, refused := a.readLicence(key)
	return access.LicenceOf(tenant, offline, refused, a.env.Now(), a.env.LicenceGrace)
}

func (a *Accounts) readLicence(key string) (*access.Offline, *failure.Failure) {
	if a.env.LicenceKeys == nil {
		return nil, invalid(failure.LicenseKeysNotTaken)
	}
	return a.env.LicenceKeys.Read(key)
}

// KnownLicence is the licence of a tenant by what this node has in memory.
func (a *Accounts) KnownLicence(tenantID string) access.Licence {
	return a.Licence(a.tenants.Known(tenantID))
}

// TenantLicence is the licence of a tenant.
func (a *Accounts) TenantLicence(ctx context.Context, tenantID string) (access.Licence, error) {
	tenant, err := a.tenants.Get(ctx, tenantID)
	return a.Licence(tenant), err
}

// SetLicence has a key count for a tenant from now on, in place of the one before, on all nodes. A key that does not count for it now
// is refused, and changes nothing. by is the user who gave it.
func (a *Accounts) SetLicence(ctx context.Context, tenantID, key, by string) (access.Licence, error) {
	if len(key) < minLicenceKey || len(key) > maxLicenceKey {
		return access.Licence{}, invalid(failure.LicenseKeyLength).In("licenseKey").Param("least", minLicenceKey).Param("most", maxLicenceKey)
	}
	if err := a.licencesReady(); err != nil {
		return access.Licence{}, err
	}
	tenant, err := a.tenants.Change(ctx, tenantID, func(tenant *directorypb.Tenant) error {
		licence := a.licence(tenant, key)
		if licence.Refused != nil {
			return licence.Refused
		}
		tenant.License = &directorypb.License{
			Signed: key, LicenseId: licence.ID, LicenseType: string(licence.Tier()), CreatedBy: by, CreatedAt: a.env.Now().UnixMilli(),
		}
		if !licence.Expires.IsZero() {
			tenant.License.ExpiresAt = licence.Expires.UnixMilli()
		}
		return nil
	})
	return a.Licence(tenant), err
}

// RemoveLicence takes a tenant's key away, if there is one: its tier counts again. What it has beyond that tier's limits stays.
func (a *Accounts) RemoveLicence(ctx context.Context, tenantID string) (access.Licence, error) {
	tenant, err := a.tenants.Change(ctx, tenantID, func(tenant *directorypb.Tenant) error {
		tenant.License = nil
		return nil
	})
	return a.Licence(tenant), err
}

// licencesReady refuses while a node of the cluster would let a key pass unnoticed.
func (a *Accounts) licencesReady() error {
	if a.env.LicencesReady != nil && !a.env.LicencesReady() {
		return failure.New(failurepb.Code_UNAVAILABLE, failure.LicenseKeysNotYet)
	}
	return nil
}
