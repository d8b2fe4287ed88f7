package opsapi

import (
	"cmp"
	"context"
	"time"

	"parley/actors/core/access"
	"parley/actors/core/identity"
	"parley/proto/directorypb"
)

type tenantJSON struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Slug      string `json:"slug"`
	Tier      string `json:"tier"`
	OwnerID   string `json:"ownerId"`
	Requests  int64  `json:"requests"` // in the current month; only for tiers with a limit
	CreatedAt string `json:"createdAt"`
}

type newTenantJSON struct {
	tenantJSON

	ProjectID string `json:"projectId"` // its first project
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
	ServicePermissions map[string]string `json:"servicePermissions"` // null = all permissions of its user
	LastUsed           *string           `json:"lastUsed"`
	ExpiresAt          *string           `json:"expiresAt"`
	CreatedAt          string            `json:"createdAt"`
	Token              string            `json:"token,omitempty"` // only in the answer that creates it
}

// viewed converts a list of records to their JSON form.
func viewed[M, V any](records []*M, err error, view func(*M) V) (any, error) {
	if err != nil {
		return nil, err
	}
	views := make([]V, len(records))
	for i, record := range records {
		views[i] = view(record)
	}
	return views, nil
}

func listTenants(a *identity.Accounts, tenantID string) (any, error) {
	all, err := a.ListTenants(identity.Operator(), tenantID)
	return viewed(all, err, func(t *directorypb.Tenant) tenantJSON { return tenantView(a, t) })
}

func createTenant(ctx context.Context, a *identity.Accounts, in *accountInput) (any, error) {
	tenant, project, err := a.CreateTenant(ctx, identity.Operator(), identity.NewTenant{
		Name: in.Name, Slug: in.Slug, Tier: in.Tier, Owner: in.Owner, OwnerEmail: in.Email,
	})
	if err != nil {
		return nil, err
	}
	return newTenantJSON{tenantView(a, tenant), project.GetId()}, nil
}

func updateTenant(ctx context.Context, a *identity.Accounts, id string, in *accountInput) (any, error) {
	tenant, err := a.UpdateTenant(ctx, identity.Operator(), id, in.Name, in.Tier)
	return tenantView(a, tenant), err
}

func tenantView(a *identity.Accounts, t *directorypb.Tenant) tenantJSON {
	return tenantJSON{
		ID: t.GetId(), Name: t.GetName(), Slug: t.GetSlug(), Tier: t.GetTier(), OwnerID: t.GetOwnerId(),
		Requests: a.Requests(t.GetId()), CreatedAt: timeJSON(t.GetCreatedAt()),
	}
}

func listProjects(a *identity.Accounts, tenantID string) (any, error) {
	all, err := a.ListProjects(identity.Operator(), tenantID)
	return viewed(all, err, projectView)
}

func createProject(ctx context.Context, a *identity.Accounts, in *accountInput) (any, error) {
	project, err := a.CreateProject(ctx, identity.Operator(), identity.NewProject{TenantID: in.TenantID, Key: in.Key, Name: in.Name})
	return projectView(project), err
}

func updateProject(ctx context.Context, a *identity.Accounts, id string, in *accountInput) (any, error) {
	project, err := a.UpdateProject(ctx, identity.Operator(), id, &in.Name, nil)
	return projectView(project), err
}

func projectView(p *directorypb.Project) projectJSON {
	return projectJSON{ID: p.GetId(), TenantID: p.GetTenantId(), Key: p.GetKey(), Name: p.GetName(), CreatedAt: timeJSON(p.GetCreatedAt())}
}

func listUsers(a *identity.Accounts, tenantID string) (any, error) {
	all, err := a.ListUsers(identity.Operator(), tenantID)
	return viewed(all, err, userView)
}

func createUser(ctx context.Context, a *identity.Accounts, in *accountInput) (any, error) {
	user, err := a.CreateUser(ctx, identity.Operator(), identity.NewUser{
		TenantID: in.TenantID, Name: in.Name, Email: in.Email, Role: cmp.Or(in.Role, access.RoleUser), Permissions: in.ServicePermissions,
	})
	return userView(user), err
}

func updateUser(ctx context.Context, a *identity.Accounts, id string, in *accountInput) (any, error) {
	user, err := a.UpdateUser(ctx, identity.Operator(), id, identity.UserChange{
		Name: in.Name, Role: in.Role, Permissions: in.ServicePermissions,
	})
	return userView(user), err
}

func userView(u *directorypb.User) userJSON {
	return userJSON{
		ID: u.GetId(), TenantID: u.GetTenantId(), Name: u.GetName(), Email: u.GetEmail(), Role: u.GetRole(), CanLogin: u.GetCanLogin(),
		ServicePermissions: u.GetServicePermissions(), CreatedAt: timeJSON(u.GetCreatedAt()),
	}
}

func listTokens(a *identity.Accounts, tenantID string) (any, error) {
	all, err := a.ListTokens(identity.Operator(), tenantID)
	return viewed(all, err, func(t *directorypb.Token) tokenJSON { return tokenView(a, t) })
}

func createToken(ctx context.Context, a *identity.Accounts, in *accountInput) (any, error) {
	secret, token, err := a.CreateToken(ctx, identity.Operator(), identity.NewToken{
		UserID: in.UserID, ProjectID: in.ProjectID, Label: cmp.Or(in.Label, "made by the operator"), Scope: in.ServicePermissions,
		Scoped: in.ServicePermissions != nil, ExpiresAt: in.ExpiresAt,
	})
	if err != nil {
		return nil, err
	}
	view := tokenView(a, token)
	view.Token = secret
	return view, nil
}

func tokenView(a *identity.Accounts, t *directorypb.Token) tokenJSON {
	view := tokenJSON{
		ID: t.GetId(), TenantID: t.GetTenantId(), ProjectID: t.GetProjectId(), UserID: t.GetUserId(), Label: t.GetLabel(),
		TokenPrefix: t.GetPrefix(), CreatedAt: timeJSON(t.GetCreatedAt()), ExpiresAt: timeOrNull(t.GetExpiresAt()),
		LastUsed: timeOrNull(a.LastUse(t.GetId())),
	}
	if t.GetScoped() {
		view.ServicePermissions = t.GetScope()
		if view.ServicePermissions == nil {
			view.ServicePermissions = map[string]string{}
		}
	}
	return view
}

// timeJSON is a time of a record, Unix milliseconds.
func timeJSON(at int64) string { return time.UnixMilli(at).UTC().Format("2006-01-02T15:04:05.000Z") }

func timeOrNull(at int64) *string {
	if at == 0 {
		return nil
	}
	text := timeJSON(at)
	return &text
}
