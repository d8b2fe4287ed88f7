package node

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"parley/actors/core/access"
	"parley/actors/machine"
	"parley/httpedge/endpoint"
	"parley/httpedge/token"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

// slugRunes are what a slug is not made of.
var slugRunes = regexp.MustCompile(`[^a-z0-9]+`)

func slugOf(name string) string {
	return strings.Trim(slugRunes.ReplaceAllString(strings.ToLower(name), "-"), "-")
}

// createTenant makes a tenant with an owner and a first project.
func (p *people) createTenant(ctx context.Context, s *said) (any, error) {
	if s.Name == "" {
		return nil, invalid("a tenant needs a name")
	}
	if s.Slug == "" {
		s.Slug = slugOf(s.Name)
	}
	if s.Slug == "" || s.Slug != slugOf(s.Slug) {
		return nil, invalid("slug %q: lower case letters, digits and single hyphens", s.Slug)
	}
	if s.Tier == "" {
		s.Tier = string(access.Free)
	}
	if err := checkTier(s.Tier); err != nil {
		return nil, err
	}
	if err := p.freeSlug(s.Slug); err != nil {
		return nil, err
	}
	if s.Owner == "" {
		s.Owner = defaultName
	}
	now := p.now().UnixMilli()
	tenant := &directorypb.Tenant{
		Id: p.ids.NewID("tenant"), Name: s.Name, Slug: s.Slug, Tier: s.Tier, OwnerId: p.ids.NewID("usr"), CreatedAt: now,
	}
	project := &directorypb.Project{
		Id: p.ids.NewID("proj"), TenantId: tenant.GetId(), Key: "default", Name: "Default Project", CreatedAt: now,
	}
	owner := &directorypb.User{
		Id: tenant.GetOwnerId(), TenantId: tenant.GetId(), Name: s.Owner, Email: strings.ToLower(s.Email), Role: access.RoleOwner,
		ProjectIds: []string{project.GetId()}, CreatedAt: now, UpdatedAt: now,
	}
	// The tenant last: until it is there nothing of it counts.
	if err := errors.Join(
		p.put(ctx, endpoint.Users, owner.GetId(), 0, owner),
		p.put(ctx, endpoint.Projects, project.GetId(), 0, project),
	); err != nil {
		return nil, err
	}
	made, err := write(endpoint.Tenants, tenant.GetId(), tenant)
	if err == nil {
		err = p.create(ctx, endpoint.Tenants, made, func() error { return p.freeSlug(s.Slug) })
	}
	if err != nil {
		return nil, err // the owner and the project belong to no tenant then, and count for nobody
	}
	return struct {
		tenantJSON
		ProjectID string `json:"projectId"`
	}{p.tenant(tenant), project.GetId()}, nil
}

func (p *people) freeSlug(slug string) error {
	if slices.ContainsFunc(all[directorypb.Tenant](p, endpoint.Tenants), func(t *directorypb.Tenant) bool { return t.GetSlug() == slug }) {
		return machine.Fail(failurepb.Code_CONFLICT, "there is a tenant with the slug %q", slug)
	}
	return nil
}

func checkTier(tier string) error {
	if string(access.ParseTier(tier)) != tier {
		return invalid("tier %q: FREE, STARTER, PROFESSIONAL, ENTERPRISE or ON_PREMISE", tier)
	}
	return nil
}

func (p *people) createProject(ctx context.Context, s *said) (any, error) {
	tenant, err := p.tenantOf(ctx, s.TenantID)
	if err != nil {
		return nil, err
	}
	if s.Key == "" {
		s.Key = slugOf(s.Name)
	}
	if s.Key == "" || s.Key != slugOf(s.Key) {
		return nil, invalid("key %q: lower case letters, digits and single hyphens", s.Key)
	}
	if s.Name == "" {
		s.Name = s.Key
	}
	project := &directorypb.Project{
		Id: p.ids.NewID("proj"), TenantId: tenant.GetId(), Key: s.Key, Name: s.Name, CreatedAt: p.now().UnixMilli(),
	}
	made, err := write(endpoint.Projects, project.GetId(), project)
	if err != nil {
		return nil, err
	}
	taken := func(other *directorypb.Project) bool {
		return other.GetTenantId() == tenant.GetId() && other.GetKey() == s.Key
	}
	return projectView(project), p.create(ctx, endpoint.Scope(endpoint.Projects, tenant.GetId()), made, func() error {
		if slices.ContainsFunc(all[directorypb.Project](p, endpoint.Projects), taken) {
			return machine.Fail(failurepb.Code_CONFLICT, "there is a project with the key %q", s.Key)
		}
		return nil
	})
}

func (p *people) tenantOf(ctx context.Context, id string) (*directorypb.Tenant, error) {
	if id == "" {
		id = firstTenant
	}
	found, err := one[directorypb.Tenant](ctx, p, endpoint.Tenants, id, "tenant")
	return found.value, err
}

func (p *people) createUser(ctx context.Context, s *said) (any, error) {
	tenant, err := p.tenantOf(ctx, s.TenantID)
	if err != nil {
		return nil, err
	}
	if s.Role == "" {
		s.Role = access.RoleUser
	}
	if err = checkUser(s); err != nil {
		return nil, err
	}
	email := strings.ToLower(strings.TrimSpace(s.Email))
	var projects []string
	for _, project := range all[directorypb.Project](p, endpoint.Projects) {
		if project.GetTenantId() == tenant.GetId() {
			projects = append(projects, project.GetId())
		}
	}
	now := p.now().UnixMilli()
	user := &directorypb.User{
		Id: p.ids.NewID("usr"), TenantId: tenant.GetId(), Name: s.Name, Email: email, Role: s.Role, ProjectIds: projects,
		ServicePermissions: s.ServicePermissions, CreatedAt: now, UpdatedAt: now,
	}
	made, err := write(endpoint.Users, user.GetId(), user)
	if err != nil {
		return nil, err
	}
	taken := func(other *directorypb.User) bool {
		return email != "" && other.GetTenantId() == tenant.GetId() && other.GetEmail() == email
	}
	return userView(user), p.create(ctx, endpoint.Scope(endpoint.Users, tenant.GetId()), made, func() error {
		if slices.ContainsFunc(all[directorypb.User](p, endpoint.Users), taken) {
			return machine.Fail(failurepb.Code_CONFLICT, "there is a user with the address %q", email)
		}
		return nil
	})
}

func checkUser(s *said) error {
	if strings.ContainsFunc(s.Email, unicode.IsControl) {
		return invalid("email: %q holds control characters", s.Email)
	}
	if strings.TrimSpace(s.Name) == "" {
		return invalid("a user needs a name")
	}
	if !slices.Contains([]string{access.RoleOwner, access.RoleAdmin, access.RoleProjectAdmin, access.RoleUser}, s.Role) {
		return invalid("role %q: owner, admin, project_admin or user", s.Role)
	}
	return nil
}

func (p *people) createToken(ctx context.Context, s *said) (any, error) {
	if s.UserID == "" {
		s.UserID = firstOwner
	}
	owner, err := one[directorypb.User](ctx, p, endpoint.Users, s.UserID, "user")
	if err != nil {
		return nil, err
	}
	tenantID := owner.value.GetTenantId()
	if s.ProjectID == "" {
		s.ProjectID = p.firstProjectOf(tenantID)
	}
	project, err := one[directorypb.Project](ctx, p, endpoint.Projects, s.ProjectID, "project")
	if err != nil {
		return nil, err
	}
	if project.value.GetTenantId() != tenantID {
		return nil, invalid("project %s is another tenant's", s.ProjectID)
	}
	if s.Label == "" {
		s.Label = "made by the operator"
	}
	if utf8.RuneCountInString(strings.TrimSpace(s.Label)) < minLabel {
		return nil, invalid("a label has at least %d characters", minLabel)
	}
	now := p.now()
	secret, made := newToken()
	made.Id, made.TenantId, made.ProjectId, made.UserId = p.ids.NewID("tok"), tenantID, s.ProjectID, s.UserID
	made.Label, made.CreatedAt = s.Label, now.UnixMilli()
	if s.ServicePermissions != nil {
		made.Scoped, made.Scope = true, s.ServicePermissions
	}
	if s.ExpiresAt != "" {
		at, wrong := time.Parse(time.RFC3339, s.ExpiresAt)
		if wrong != nil || !at.After(now) {
			return nil, invalid("expiresAt %q is not a time to come (RFC 3339)", s.ExpiresAt)
		}
		made.ExpiresAt = at.UnixMilli()
	}
	if !access.MemberOf(owner.value, s.ProjectID) { // whom the operator gives a token is one
		owner.value.ProjectIds = append(owner.value.ProjectIds, s.ProjectID)
		owner.value.UpdatedAt = made.GetCreatedAt()
		if err = p.put(ctx, endpoint.Users, s.UserID, owner.version, owner.value); err != nil {
			return nil, err
		}
	}
	record, err := write(endpoint.Tokens, token.Key(made.GetHash()), made)
	if err != nil {
		return nil, err
	}
	err = p.create(ctx, endpoint.Scope(endpoint.Tokens, tenantID), record, func() error {
		_, gone := one[directorypb.Project](ctx, p, endpoint.Projects, s.ProjectID, "project")
		return gone
	})
	if err != nil {
		return nil, err
	}
	view := p.token(made)
	view.Token = secret
	return view, nil
}

// firstProjectOf is the oldest project of a tenant.
func (p *people) firstProjectOf(tenantID string) string {
	var first *directorypb.Project
	for _, project := range all[directorypb.Project](p, endpoint.Projects) {
		if project.GetTenantId() == tenantID && (first == nil || project.GetCreatedAt() < first.GetCreatedAt()) {
			first = project
		}
	}
	return first.GetId()
}
