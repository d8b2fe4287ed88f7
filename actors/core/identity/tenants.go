package identity

import (
	"cmp"
	"context"
	"regexp"
	"strings"
	"unicode/utf8"

	"parley/actors/core/access"
	"parley/actors/core/collection"
	"parley/actors/core/failure"
	"parley/proto/directorypb"
)

// notSlug matches what a slug does not hold.
var notSlug = regexp.MustCompile(`[^a-z0-9]+`)

func slugOf(name string) string {
	return strings.Trim(notSlug.ReplaceAllString(strings.ToLower(name), "-"), "-")
}

// NewTenant is a tenant to create, with its owner. Empty fields get defaults, except Name.
type NewTenant struct {
	Name, Slug, Tier  string
	Owner, OwnerEmail string // name and email of the owner
}

// CreateTenant creates a tenant with an owner and a first project.
func (a *Accounts) CreateTenant(ctx context.Context, caller Caller, in NewTenant) (*directorypb.Tenant, *directorypb.Project, error) {
	if err := caller.operates(); err != nil {
		return nil, nil, err
	}
	in.Tier, in.Owner = cmp.Or(in.Tier, string(access.Free)), cmp.Or(in.Owner, "Owner")
	made, err := a.found(ctx, in, nil)
	return made.Tenant, made.Project, err
}

// Founded is a new tenant with its owner and first project.
type Founded struct {
	Tenant  *directorypb.Tenant
	Project *directorypb.Project
	Owner   *directorypb.User
}

// found creates a tenant. The owner signs in with signIn, nil = never.
func (a *Accounts) found(ctx context.Context, in NewTenant, signIn *directorypb.SignIn) (Founded, error) {
	email, err := in.check()
	if err != nil {
		return Founded{}, err
	}
	now := a.env.Now().UnixMilli()
	tenant := &directorypb.Tenant{
		Id: a.env.NewID("tenant"), Name: in.Name, Slug: in.Slug, Tier: in.Tier, OwnerId: a.env.NewID("usr"), CreatedAt: now,
	}
	if err = a.tenants.CheckUnique(tenant); err != nil {
		return Founded{}, err
	}
	project := &directorypb.Project{
		Id: a.env.NewID("proj"), TenantId: tenant.GetId(), Key: "default", Name: "Default Project", CreatedAt: now,
	}
	// The tenant comes last: the owner and the project count for nobody until it exists, nor when it is refused.
	owner := &directorypb.User{
		Id: tenant.GetOwnerId(), TenantId: tenant.GetId(), Name: in.Owner, Email: email, Role: access.RoleOwner,
		ProjectIds: []string{project.GetId()}, CanLogin: signIn != nil, SignIn: signIn, CreatedAt: now, UpdatedAt: now,
	}
	if _, err = a.users.Add(ctx, owner); err != nil {
		return Founded{}, err
	}
	if _, err = a.projects.Add(ctx, project); err != nil {
		return Founded{}, err
	}
	if err = a.tenants.Create(ctx, tenant, nil); err != nil {
		if collection.IsConflict(err) { // it was refused for certain: somebody else has the slug
			a.users.Drop(ctx, owner.GetId())
			a.projects.Drop(ctx, project.GetId())
		}
		return Founded{}, err
	}
	return Founded{tenant, project, owner}, nil
}

// check makes a slug where none is given, and returns the owner's email as it is stored.
func (in *NewTenant) check() (email string, err error) {
	if in.Name == "" {
		return "", invalid(failure.RecordWithoutName).Param("noun", "tenant")
	}
	if err = checkName(in.Name); err != nil {
		return "", err
	}
	if in.Slug, err = slugFor("slug", in.Slug, in.Name); err != nil {
		return "", err
	}
	if err = checkTier(in.Tier); err != nil {
		return "", err
	}
	if err = checkName(in.Owner); err != nil {
		return "", err
	}
	return readEmail(in.OwnerEmail)
}

// slugFor is the given slug, or one made of a name.
func slugFor(field, given, name string) (string, error) {
	slug := cmp.Or(given, slugOf(name))
	if slug == "" || slug != slugOf(slug) {
		return "", invalid(failure.BadSlug).In(field).Param("slug", slug)
	}
	return slug, checkName(slug)
}

func checkTier(tier string) error {
	if string(access.ParseTier(tier)) != tier {
		return invalid(failure.BadTier).In("tier").Param("tier", tier)
	}
	return nil
}

// UpdateTenant changes the name and the licence of a tenant; what is empty stays.
func (a *Accounts) UpdateTenant(ctx context.Context, caller Caller, id, name, tier string) (*directorypb.Tenant, error) {
	if err := caller.operates(); err != nil {
		return nil, err
	}
	if err := checkName(name); err != nil {
		return nil, err
	}
	return a.tenants.Change(ctx, id, func(tenant *directorypb.Tenant) error {
		tenant.Tier, tenant.Name = cmp.Or(tier, tenant.GetTier()), cmp.Or(name, tenant.GetName())
		if tier == "" {
			return nil
		}
		return checkTier(tier)
	})
}

// ListTenants returns all tenants by id, or the named one.
func (a *Accounts) ListTenants(caller Caller, id string) ([]*directorypb.Tenant, error) {
	return listed(caller, a.tenants, id, (*directorypb.Tenant).GetId)
}

// Requests is how many requests the tenant has made in its running month, of a tier with a limit.
func (a *Accounts) Requests(tenantID string) int64 { return a.counts.Known(tenantID).GetCount() }

// DeleteTenant deletes a tenant that has no API tokens. The first one stays.
func (a *Accounts) DeleteTenant(ctx context.Context, caller Caller, id string) error {
	if err := caller.operates(); err != nil {
		return err
	}
	return a.tenants.DeleteIn(ctx, collection.Scope(Tokens, id), id, func(*directorypb.Tenant) error {
		if id == DefaultTenant || a.tokens.Count(tenantTerm(id)) > 0 {
			return invalid(failure.AccountInUse).Param("noun", "tenant").Param("id", id)
		}
		return nil
	})
}

// Limits of a tenant's projects, and of what is written about one.
const (
	maxProjects    = 1000
	maxDescription = 500 // characters
)

// NewProject is a project to create.
type NewProject struct {
	TenantID    string // of an operator's request; "" = the first tenant
	Key, Name   string // the one is made of the other where it is empty
	Description string
}

// CreateProject creates a project.
func (a *Accounts) CreateProject(ctx context.Context, caller Caller, in NewProject) (*directorypb.Project, error) {
	if err := caller.administrates(); err != nil {
		return nil, err
	}
	tenantID := caller.tenant(in.TenantID)
	if _, err := a.tenants.Get(ctx, tenantID); err != nil {
		return nil, err
	}
	in.Name = strings.TrimSpace(in.Name)
	key, err := slugFor("key", in.Key, in.Name)
	if err != nil {
		return nil, err
	}
	if err = checkTexts(in.Name, in.Description); err != nil {
		return nil, err
	}
	now := a.env.Now().UnixMilli()
	project := &directorypb.Project{
		Id: a.env.NewID("proj"), TenantId: tenantID, Key: key, Name: cmp.Or(in.Name, key), Description: in.Description,
		CreatedAt: now, UpdatedAt: now,
	}
	most, bound := caller.limit(func(l access.Limits) int { return l.MaxProjects })
	if !caller.operator && (!bound || most > maxProjects) {
		most, bound = maxProjects, true
	}
	return project, a.projects.Create(ctx, project, func() error {
		if caller.operator {
			return nil
		}
		return a.projectRoom(project)
	}, limit(Projects, tenantID, most, bound)...)
}

func checkTexts(name, description string) error {
	if utf8.RuneCountInString(description) > maxDescription {
		return invalid(failure.AtMostCharacters).In("description").Param("most", maxDescription)
	}
	return checkName(name)
}

// UpdateProject changes a project's name and description; nil stays.
func (a *Accounts) UpdateProject(ctx context.Context, caller Caller, id string, name, description *string) (*directorypb.Project, error) {
	if _, err := a.project(ctx, caller, id); err != nil {
		return nil, err
	}
	return a.projects.Change(ctx, id, func(project *directorypb.Project) error {
		if name != nil {
			project.Name = strings.TrimSpace(*name)
		}
		if description != nil {
			project.Description = *description
		}
		project.UpdatedAt = a.env.Now().UnixMilli()
		if project.GetName() == "" {
			return invalid(failure.RecordWithoutName).Param("noun", "project")
		}
		return checkTexts(project.GetName(), project.GetDescription())
	})
}

// OwnProjects returns the projects in which the holder of a grant may act, newest first.
func (a *Accounts) OwnProjects(grant *access.Grant) ([]*directorypb.Project, error) {
	return a.projectsOf(grant.Owner, grant.Groups)
}

// ListProjects returns all projects that the caller sees by id, or those of a tenant.
func (a *Accounts) ListProjects(caller Caller, tenantID string) ([]*directorypb.Project, error) {
	return listed(caller, a.projects, tenantID, (*directorypb.Project).GetTenantId)
}

// DeleteProject deletes a project that has no API tokens. The first one stays, and the last one of a tenant.
func (a *Accounts) DeleteProject(ctx context.Context, caller Caller, id string) error {
	project, err := a.project(ctx, caller, id)
	if err != nil {
		return err
	}
	return a.projects.DeleteIn(ctx, collection.Scope(Tokens, project.GetTenantId()), id, func(*directorypb.Project) error {
		switch {
		case id == DefaultProject || a.tokens.Count(projectTerm(id)) > 0:
			return invalid(failure.AccountInUse).Param("noun", "project").Param("id", id)
		case a.projects.Count(tenantTerm(project.GetTenantId())) <= 1:
			return invalid(failure.LastProject)
		}
		return nil
	})
}

// project returns a project that the caller may manage.
func (a *Accounts) project(ctx context.Context, caller Caller, id string) (*directorypb.Project, error) {
	if err := caller.administrates(); err != nil {
		return nil, err
	}
	project, err := a.projects.Get(ctx, id)
	if err == nil && !caller.sees(project.GetTenantId()) {
		err = missing("project", id)
	}
	return project, err
}

// projectIn is the project of a tenant that a request names; "" = the bearer's own, or the tenant's first.
func (a *Accounts) projectIn(ctx context.Context, caller Caller, tenantID, id string) (string, error) {
	switch {
	case id == "" && caller.operator:
		id = a.firstProject(tenantID)
	case !caller.operator && (id == "" || id == caller.grant.Project.GetId()):
		return caller.grant.Project.GetId(), nil
	}
	project, err := a.project(ctx, caller, id)
	if err == nil && project.GetTenantId() != tenantID {
		err = invalid(failure.ProjectOfAnotherTenant).Param("project", id)
	}
	return id, err
}

// firstProject is the oldest project of a tenant, "" when there is none.
func (a *Accounts) firstProject(tenantID string) string {
	all, err := a.projects.All(tenantTerm(tenantID))
	if err != nil || len(all) == 0 {
		return ""
	}
	oldest := all[len(all)-1]
	for i := len(all) - 1; i >= 0 && all[i].GetCreatedAt() == oldest.GetCreatedAt(); i-- {
		oldest = all[i]
	}
	return oldest.GetId()
}

// listed returns the records that the caller sees by key: all, or those of a tenant.
func listed[T any](caller Caller, from *collection.Collection[T], tenantID string, of func(T) string) ([]T, error) {
	if err := caller.administrates(); err != nil {
		return nil, err
	}
	all, err := from.ByKey("")
	seen := []T{}
	for _, record := range all {
		if caller.sees(of(record)) && (tenantID == "" || of(record) == tenantID) {
			seen = append(seen, record)
		}
	}
	return seen, err
}
