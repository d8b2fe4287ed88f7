package identity

import (
	"cmp"
	"context"
	"net/mail"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/access"
	"parley/actors/core/failure"
	"parley/actors/core/naming"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
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
	return user, a.users.Create(ctx, user, func() error {
		if caller.operator {
			return nil
		}
		return a.userRoom(user)
	}, limit("users", tenantID, most, bound)...)
}

// check returns the email as it is stored.
func (in *NewUser) check(caller Caller) (email string, err error) {
	if strings.TrimSpace(in.Name) == "" || in.Role == "" {
		return "", invalid(failure.NameAndRoleRequired)
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
		return invalid(failure.AtMostBytes).In("name").Param("most", maxName)
	}
	if naming.Plain(name) != name {
		return invalid(failure.ControlCharacters).In("name")
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
		return "", invalid(failure.BadEmail)
	}
	return email, nil
}

// checkRole refuses roles that the caller may not give: only an operator makes owners.
func checkRole(caller Caller, role string) error {
	switch {
	case slices.Contains([]string{access.RoleUser, access.RoleProjectAdmin, access.RoleAdmin}, role):
		return nil
	case !caller.operator:
		return invalid(failure.BadRole)
	case role != access.RoleOwner:
		return invalid(failure.BadRoleByOperator)
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
	CanLogin    *bool // false ends their sessions
}

// UpdateUser changes a user.
func (a *Accounts) UpdateUser(ctx context.Context, caller Caller, id string, change UserChange) (*directorypb.User, error) {
	if _, err := a.user(ctx, caller, id); err != nil {
		return nil, err
	}
	return a.users.Change(ctx, id, func(user *directorypb.User) error {
		before, now := proto.CloneOf(user), a.env.Now().UnixMilli()
		role := cmp.Or(change.Role, user.GetRole())
		if err := checkName(change.Name); err != nil {
			return err
		}
		if err := caller.mayChange(user, change); err != nil {
			return err
		}
		if role != user.GetRole() {
			if err := a.checkNewRole(ctx, caller, user, role); err != nil {
				return err
			}
		}
		if name := strings.TrimSpace(change.Name); name != "" {
			user.Name = name
		}
		user.Role, user.UpdatedAt = role, now
		if change.Permissions != nil {
			user.ServicePermissions = change.Permissions
		}
		caller.lower(before, user, "", &user.ServicePermissions)
		return setCanLogin(user, change.CanLogin)
	})
}

// mayChange refuses to touch an owner. Operators may, and owners may change an owner's name and role.
func (c Caller) mayChange(user *directorypb.User, change UserChange) error {
	if c.operator || user.GetRole() != access.RoleOwner {
		return nil
	}
	if change.Permissions != nil || change.CanLogin != nil || c.grant.Owner.GetRole() != access.RoleOwner {
		return failure.New(failurepb.Code_FORBIDDEN, failure.OwnerFixed)
	}
	return nil
}

// checkNewRole refuses roles that the caller may not give. An owner makes others owners, with all that they have.
func (a *Accounts) checkNewRole(ctx context.Context, caller Caller, user *directorypb.User, role string) error {
	whole := func() bool {
		return caller.grant.Owner.GetRole() == access.RoleOwner && caller.covers(&directorypb.User{Role: access.RoleOwner}, nil)
	}
	if caller.operator || role != access.RoleOwner || !whole() {
		if err := checkRole(caller, role); err != nil {
			return err
		}
	}
	if user.GetRole() != access.RoleOwner {
		return nil
	}
	if !caller.operator && !whole() {
		return failure.New(failurepb.Code_FORBIDDEN, failure.OwnerFixed)
	}
	return a.keepsOwner(ctx, caller, user)
}

// setCanLogin lets a user sign in, or ends their sessions and invitation. Who has no password is invited instead.
func setCanLogin(user *directorypb.User, can *bool) error {
	switch {
	case can == nil || *can == user.GetCanLogin():
		return nil
	case *can && len(user.GetSignIn().GetPassword()) == 0:
		return invalid(failure.NeverInvited)
	}
	user.CanLogin = *can
	endSessions(user)
	if user.Invite != nil {
		user.Invite.Hash = nil
	}
	return nil
}

// endSessions ends all sessions of a user.
func endSessions(user *directorypb.User) {
	if user.SignIn == nil {
		user.SignIn = &directorypb.SignIn{}
	}
	user.SignIn.Generation++
}

// DeleteUser deletes a user with their tokens: their sessions end with the record. The last owner of a tenant stays, and nobody
// but an operator deletes an owner.
func (a *Accounts) DeleteUser(ctx context.Context, caller Caller, id string) error {
	user, err := a.user(ctx, caller, id)
	if err != nil {
		return err
	}
	check := func(user *directorypb.User) error { return a.mayDelete(ctx, caller, user) }
	if err = check(user); err != nil {
		return err
	}
	// The tokens go first: a deletion that is cut off can be repeated. Then once more those that were created meanwhile.
	if err = a.deleteTokensOf(ctx, user, ""); err != nil {
		return err
	}
	if err = a.users.Delete(ctx, id, check); err != nil {
		return err
	}
	return a.deleteTokensOf(ctx, user, "")
}

func (a *Accounts) mayDelete(ctx context.Context, caller Caller, user *directorypb.User) error {
	switch {
	case caller.operator:
		return a.keepsOwner(ctx, caller, user)
	case user.GetId() == caller.id():
		return invalid(failure.OwnAccount)
	case user.GetRole() == access.RoleOwner:
		return failure.New(failurepb.Code_FORBIDDEN, failure.OwnerUndeletable)
	}
	return nil
}

// keepsOwner refuses to take its last owner from a tenant: nobody could manage it any more. Of an owner who signs in only another
// one who does takes the place, unless an operator says so.
func (a *Accounts) keepsOwner(ctx context.Context, caller Caller, user *directorypb.User) error {
	if user.GetRole() != access.RoleOwner {
		return nil
	}
	owners, err := a.users.All(roleTerm(user.GetTenantId(), access.RoleOwner))
	if err != nil {
		return err
	}
	for _, other := range owners {
		if other.GetId() != user.GetId() && (caller.operator || !MaySignIn(user) || MaySignIn(other)) {
			return nil
		}
	}
	if _, err = a.tenants.Get(ctx, user.GetTenantId()); err != nil {
		if isMissing(err) {
			return nil
		}
		return err
	}
	return invalid(failure.LastOwner).Param("user", user.GetId()).Param("tenant", user.GetTenantId())
}
