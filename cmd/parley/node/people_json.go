package node

import (
	"google.golang.org/protobuf/proto"

	"parley/httpedge/endpoint"
	"parley/proto/directorypb"
)

type tenantJSON struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Slug      string `json:"slug"`
	Tier      string `json:"tier"`
	OwnerID   string `json:"ownerId"`
	Requests  int64  `json:"requests"` // in the running month, of a tier with a limit
	CreatedAt string `json:"createdAt"`
}

type projectJSON struct {
	ID        string `json:"id"`
	TenantID  string `json:"tenantId"`
	Key       string `json:"key"`
	Name      string `json:"name"`
	CreatedAt string `json:"createdAt"`
}

type userJSON struct {
	ID                 string            `json:"id"`
	TenantID           string            `json:"tenantId"`
	Name               string            `json:"name"`
	Email              string            `json:"email"`
	Role               string            `json:"role"`
	CanLogin           bool              `json:"canLogin"`
	ServicePermissions map[string]string `json:"servicePermissions"`
	CreatedAt          string            `json:"createdAt"`
}

type tokenJSON struct {
	ID                 string            `json:"id"`
	TenantID           string            `json:"tenantId"`
	ProjectID          string            `json:"projectId"`
	UserID             string            `json:"userId"`
	Label              string            `json:"label"`
	TokenPrefix        string            `json:"tokenPrefix"`
	ServicePermissions map[string]string `json:"servicePermissions"` // null = all that its user may
	LastUsed           *string           `json:"lastUsed"`
	ExpiresAt          *string           `json:"expiresAt"`
	CreatedAt          string            `json:"createdAt"`
	Token              string            `json:"token,omitempty"` // in the answer that made it, never again
}

func (p *people) tenant(t *directorypb.Tenant) tenantJSON {
	count := &directorypb.RequestCount{}
	if stored, found := p.records.Get(endpoint.RequestCounts, t.GetId()); found {
		_ = proto.Unmarshal(stored.Value, count) // one that cannot be read counts nothing
	}
	return tenantJSON{
		ID: t.GetId(), Name: t.GetName(), Slug: t.GetSlug(), Tier: t.GetTier(), OwnerID: t.GetOwnerId(),
		Requests: count.GetCount(), CreatedAt: isoTime(t.GetCreatedAt()),
	}
}

func projectView(r *directorypb.Project) projectJSON {
	return projectJSON{ID: r.GetId(), TenantID: r.GetTenantId(), Key: r.GetKey(), Name: r.GetName(), CreatedAt: isoTime(r.GetCreatedAt())}
}

func userView(u *directorypb.User) userJSON {
	return userJSON{
		ID: u.GetId(), TenantID: u.GetTenantId(), Name: u.GetName(), Email: u.GetEmail(), Role: u.GetRole(), CanLogin: u.GetCanLogin(),
		ServicePermissions: u.GetServicePermissions(), CreatedAt: isoTime(u.GetCreatedAt()),
	}
}

func (p *people) token(t *directorypb.Token) tokenJSON {
	view := tokenJSON{
		ID: t.GetId(), TenantID: t.GetTenantId(), ProjectID: t.GetProjectId(), UserID: t.GetUserId(), Label: t.GetLabel(),
		TokenPrefix: t.GetPrefix(), CreatedAt: isoTime(t.GetCreatedAt()), ExpiresAt: timeOrNil(t.GetExpiresAt()),
	}
	if t.GetScoped() {
		view.ServicePermissions = t.GetScope()
		if view.ServicePermissions == nil {
			view.ServicePermissions = map[string]string{}
		}
	}
	use := &directorypb.TokenUse{}
	if stored, found := p.records.Get(endpoint.TokenUses, t.GetId()); found && proto.Unmarshal(stored.Value, use) == nil {
		view.LastUsed = timeOrNil(use.GetLastUsedAt())
	}
	return view
}

func timeOrNil(at int64) *string {
	if at == 0 {
		return nil
	}
	text := isoTime(at)
	return &text
}
