package identity

import (
	"cmp"
	"context"
	"net/mail"
	"slices"
	"strings"

	"parley/actors/core/access"
	"parley/proto/directorypb"
)

// Limits of names and emails, in bytes.
const (
	maxName  = 200
	maxEmail = 254
)

// NewUser is a user to create. They own API tokens and never sign in.
type NewUser struct {
	TenantID    string // of an operator's request; "" = the first tenant
	Name, Email string
	Role        string
	ProjectID   string // "" = the bearer's own, or all of the tenant when an operator asks
	Permissions access.Scope
}

// CreateUser creates a user.
func (a *Accounts) CreateUser(ctx context.Context, caller Caller, in NewUser) (*directorypb.User, error) {
	if err := caller.administrates(); err != nil {
		return nil, err
	}
	tenantID := caller.tenant(in.TenantID)
	if caller.operator {
		if _, err := a.tenants.Get(ctx, tenantID); err != nil {
			return nil, err
		}
	}
	email, err := in.check(caller)
	if err != nil {
		return nil, err
	}
	projects, err := a.projectsFor(ctx, caller, tenantID, in.ProjectID)
	if err != nil {
		return nil, err
	}
	now := a.env.Now().UnixMilli()
	user := &directorypb.User{
		Id: a.env.NewID("usr"), TenantId: tenantID, Name: strings.TrimSpace(in.Name), Email: email, Role: in.Role,
		ProjectIds: projects, ServicePermissions: caller.within(in.Permissions), CreatedBy: caller.id(), CreatedAt: now, UpdatedAt: now,
	}
	most, bound := caller.limit(func(l access.Limits) int { return l.MaxUsers })
	return user, a.users.Create(ctx, user, nil, limit("users", tenantID, most, bound)...)
}

// check returns the email as it is stored.
func (in *NewUser) check(caller Caller) (email string, err error) {
	if strings.TrimSpace(in.Name) == "" || in.Role == "" {
		return "", invalid("Name and role are required")
	}
	if err = checkName(in.Name); err != nil {
		return "", err
	}
	if email, err = readEmail(in.Email); err != nil {
		return "", err
	}
	return email, checkRole(caller, in.Role)
}

func checkName(name string) error {
	if len(name) > maxName {
		return invalid("name must have at most %d bytes", maxName)
	}
	return nil
}

// readEmail returns an email as it is stored, "" for none.
func readEmail(given string) (string, error) {
	email := strings.ToLower(strings.TrimSpace(given))
	if email == "" {
		return "", nil
	}
	parsed, err := mail.ParseAddress(email)
	if err != nil || parsed.Address != email || len(email) > maxEmail {
		return "", invalid("Invalid email format")
	}
	return email, nil
}

// checkRole refuses roles that the caller may not give: only an operator makes owners.
func checkRole(caller Caller, role string) error {
	switch {
	case slices.Contains([]string{access.RoleUser, access.RoleProjectAdmin, access.RoleAdmin}, role):
		return nil
	case !caller.operator:
		return invalid("Invalid role. Must be user, project_admin, or admin")
	case role != access.RoleOwner:
		return invalid("Invalid role. Must be owner, admin, project_admin or user")
	}
	return nil
}

// projectsFor are the projects of which a new user is a member.
func (a *Accounts) projectsFor(ctx context.Context, caller Caller, tenantID, named string) ([]string, error) {
	if !caller.operator || named != "" {
		id, err := a.projectIn(ctx, caller, tenantID, named)
		return []string{id}, err
	}
	var ids []string
	all, err := a.projects.ByKey("")
	for _, project := range all {
		if project.GetTenantId() == tenantID {
			ids = append(ids, project.GetId())
		}
	}
	return ids, err
}

// PageUsers returns users of the bearer's tenant, newest first, and how many there are.
func (a *Accounts) PageUsers(caller Caller, limit, offset int) ([]*directorypb.User, int, error) {
	if err := caller.administrates(); err != nil {
		return nil, 0, err
	}
	return a.users.Page(tenantTerm(caller.tenant("")), limit, offset)
}

// ListUsers returns all users that the caller sees by id, or those of a tenant.
func (a *Accounts) ListUsers(caller Caller, tenantID string) ([]*directorypb.User, error) {
	return listed(caller, a.users, tenantID, (*directorypb.User).GetTenantId)
}

// user returns a user whom the caller may manage.
func (a *Accounts) user(ctx context.Context, caller Caller, id string) (*directorypb.User, error) {
	if err := caller.administrates(); err != nil {
		return nil, err
	}
	user, err := a.users.Get(ctx, id)
	if err == nil && !caller.sees(user.GetTenantId()) {
		err = missing("user", id)
	}
	return user, err
}

// UserChange is what to change of a user; what is empty or nil stays.
type UserChange struct {
	Name, Role  string
	Permissions access.Scope
}

// UpdateUser changes a user.
func (a *Accounts) UpdateUser(ctx context.Context, caller Caller, id string, change UserChange) (*directorypb.User, error) {
	if _, err := a.user(ctx, caller, id); err != nil {
		return nil, err
	}
	return a.users.Change(ctx, id, func(user *directorypb.User) error {
		role := cmp.Or(change.Role, user.GetRole())
		if err := checkName(change.Name); err != nil {
			return err
		}
		if role != user.GetRole() {
			if err := checkRole(caller, role); err != nil {
				return err
			}
		}
		if role != access.RoleOwner {
			if err := a.keepsOwner(ctx, user); err != nil {
				return err
			}
		}
		if name := strings.TrimSpace(change.Name); name != "" {
			user.Name = name
		}
		user.Role, user.UpdatedAt = role, a.env.Now().UnixMilli()
		if change.Permissions != nil {
			user.ServicePermissions = caller.within(change.Permissions)
		}
		return nil
	})
}

// DeleteUser deletes a user with their tokens. The last owner of a tenant stays.
func (a *Accounts) DeleteUser(ctx context.Context, caller Caller, id string) error {
	user, err := a.user(ctx, caller, id)
	if err != nil {
		return err
	}
	if err = a.keepsOwner(ctx, user); err != nil {
		return err
	}
	// The tokens go first: a deletion that is cut off can be repeated. Then once more those that were created meanwhile.
	if err = a.deleteTokensOf(ctx, user); err != nil {
		return err
	}
	err = a.users.Delete(ctx, id, func(user *directorypb.User) error { return a.keepsOwner(ctx, user) })
	if err != nil {
		return err
	}
	return a.deleteTokensOf(ctx, user)
}

// keepsOwner refuses to take its last owner from a tenant: nobody could manage it any more.
func (a *Accounts) keepsOwner(ctx context.Context, user *directorypb.User) error {
	if user.GetRole() != access.RoleOwner || a.users.Count(roleTerm(user.GetTenantId(), access.RoleOwner)) > 1 {
		return nil
	}
	if _, err := a.tenants.Get(ctx, user.GetTenantId()); err != nil {
		if isMissing(err) {
			return nil
		}
		return err
	}
	return invalid("user %s is the last owner of tenant %s", user.GetId(), user.GetTenantId())
}
