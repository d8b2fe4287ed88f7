package identity

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"parley/actors/core/access"
	"parley/actors/core/failure"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

// InviteLifetime is how long the link of an invitation is good.
const InviteLifetime = 7 * 24 * time.Hour

// Invitation is somebody to invite. They sign in once they have accepted.
type Invitation struct {
	Name, Email, Role string
	ProjectID         string // "" = the caller's own
	Permissions       access.Scope
}

// ready refuses what a release before this one would not understand.
func (a *Accounts) ready() error {
	if a.env.Ready != nil && !a.env.Ready() {
		return failure.New(failurepb.Code_UNAVAILABLE, failure.MembersNotYet)
	}
	return nil
}

// Invite creates a user who may sign in after they have set a password with the secret, which is good once and not stored. They
// count for the plan from now on.
func (a *Accounts) Invite(ctx context.Context, caller Caller, in Invitation) (user *directorypb.User, secret string, err error) {
	if err = caller.administrates(); err != nil {
		return nil, "", err
	}
	email, err := in.check(caller)
	if err != nil {
		return nil, "", err
	}
	if err = a.ready(); err != nil {
		return nil, "", err
	}
	projectID, err := a.projectIn(ctx, caller, caller.tenant(""), in.ProjectID)
	if err != nil {
		return nil, "", err
	}
	now := a.env.Now()
	user = &directorypb.User{
		Id: a.env.NewID("usr"), TenantId: caller.tenant(""), Name: strings.TrimSpace(in.Name), Email: email, Role: in.Role, CanLogin: true,
		Bounded: true, ServicePermissions: in.Permissions, CreatedBy: caller.id(), CreatedAt: now.UnixMilli(), UpdatedAt: now.UnixMilli(),
	}
	if projectID != "" {
		user.ProjectIds = []string{projectID}
	}
	caller.lower(nil, user, "", &user.ServicePermissions)
	secret = a.newInvite(caller, user, now)
	most, bound := caller.limit(func(l access.Limits) int { return l.MaxUsers })
	limits := limit(Users, user.GetTenantId(), most, bound)
	full := failure.New(failurepb.Code_QUOTA_REACHED, failure.UserQuota) // whatever limits them
	for i := range limits {
		limits[i].Reached = func(int) error { return full }
	}
	room := func() error {
		failed := a.userRoom(user)
		_, refused := errors.AsType[*failure.Failure](failed)
		return unless(refused, failed, full)
	}
	if err = a.users.Create(ctx, user, room, limits...); err != nil {
		return nil, "", err
	}
	return user, secret, nil
}

func (in *Invitation) check(caller Caller) (email string, err error) {
	if strings.TrimSpace(in.Name) == "" || strings.TrimSpace(in.Email) == "" || in.Role == "" {
		return "", invalid(failure.InviteIncomplete)
	}
	if err = checkName(in.Name); err != nil {
		return "", err
	}
	if email, err = SignInEmail(in.Email); err != nil {
		return "", err
	}
	if in.Role == access.RoleOwner {
		return "", invalid(failure.BadRole)
	}
	return email, checkRole(caller, in.Role)
}

// newInvite gives a user a new invitation in place of any other, and returns its secret: whose it is, and what only its holder
// knows.
func (a *Accounts) newInvite(caller Caller, user *directorypb.User, now time.Time) string {
	random := make([]byte, sha256.Size)
	a.env.Random(random)
	known := hex.EncodeToString(random)
	hash := sha256.Sum256([]byte(known))
	user.Invite = &directorypb.Invite{
		Hash: hash[:], ExpiresAt: now.Add(InviteLifetime).UnixMilli(), InvitedBy: caller.id(), InvitedAt: now.UnixMilli(),
	}
	return user.GetId() + "." + known
}

// InviteAgain gives somebody who has not accepted yet a new link; the one before is of no use any more. Whoever has the link becomes
// the user, so the caller must hold all that the user may.
func (a *Accounts) InviteAgain(ctx context.Context, caller Caller, id string) (user *directorypb.User, secret string, err error) {
	if _, err = a.user(ctx, caller, id); err != nil {
		return nil, "", err
	}
	user, err = a.users.Change(ctx, id, func(user *directorypb.User) error {
		switch {
		case user.GetInvite() == nil || user.GetInvite().GetAcceptedAt() != 0:
			return failure.New(failurepb.Code_CONFLICT, failure.InvitationAccepted)
		case !caller.covers(user, a.groupsOf(user)):
			return failure.New(failurepb.Code_FORBIDDEN, failure.MoreThanOwn)
		}
		now := a.env.Now()
		secret = a.newInvite(caller, user, now)
		user.CanLogin, user.UpdatedAt = true, now.UnixMilli()
		return nil
	})
	if err != nil {
		return nil, "", err
	}
	return user, secret, nil
}

// Invited returns whom the secret of an invitation makes a member. Whatever is wrong with it is refused alike.
func (a *Accounts) Invited(ctx context.Context, secret string) (*directorypb.User, error) {
	id, known, _ := strings.Cut(secret, ".")
	refused := invalid(failure.InvitationInvalid)
	const longest = 64
	if id == "" || len(id) > longest {
		return nil, refused
	}
	user, err := a.users.Get(ctx, id)
	if err != nil {
		return nil, unless(isMissing(err), err, refused)
	}
	if !a.opens(user, known) {
		return nil, refused
	}
	if _, err = a.tenants.Get(ctx, user.GetTenantId()); err != nil {
		return nil, unless(isMissing(err), err, refused)
	}
	return user, nil
}

// opens says that an invitation is good, and that this is its secret.
func (a *Accounts) opens(user *directorypb.User, known string) bool {
	hash := sha256.Sum256([]byte(known))
	invite := user.GetInvite()
	return subtle.ConstantTimeCompare(hash[:], invite.GetHash()) == 1 && user.GetCanLogin() && invite.GetAcceptedAt() == 0 &&
		a.env.Now().UnixMilli() < invite.GetExpiresAt()
}

// AcceptInvite sets the password of an invited user, who signs in from now on. Of several at once one succeeds. name "" = as they
// were invited; hash is of the password.
func (a *Accounts) AcceptInvite(ctx context.Context, secret, name string, hash []byte) (*directorypb.User, error) {
	user, err := a.Invited(ctx, secret)
	if err != nil {
		return nil, err
	}
	if err = checkName(name); err != nil {
		return nil, err
	}
	_, known, _ := strings.Cut(secret, ".")
	user, err = a.users.Change(ctx, user.GetId(), func(user *directorypb.User) error {
		if !a.opens(user, known) {
			return invalid(failure.InvitationInvalid)
		}
		now := a.env.Now().UnixMilli()
		generation := user.GetSignIn().GetGeneration()
		user.SignIn = a.newSignIn(hash)
		user.SignIn.Generation += generation
		user.Invite.Hash, user.Invite.AcceptedAt, user.UpdatedAt = nil, now, now
		if name = strings.TrimSpace(name); name != "" {
			user.Name = name
		}
		return nil
	})
	if isMissing(err) {
		return nil, invalid(failure.InvitationInvalid)
	}
	return user, err
}

// Limits of groups.
const (
	maxGroups     = 100 // of a tenant
	maxUserGroups = 20  // of a user
)

// GroupChange is what a group is to be; nil stays.
type GroupChange struct {
	Name, Description, TenantRole *string
	Permissions                   *access.Scope
}

// CreateGroup creates a group.
func (a *Accounts) CreateGroup(ctx context.Context, caller Caller, in GroupChange) (*directorypb.Group, error) {
	if err := caller.administrates(); err != nil {
		return nil, err
	}
	now := a.env.Now().UnixMilli()
	group := &directorypb.Group{
		Id: a.env.NewID("grp"), TenantId: caller.tenant(""), CreatedBy: caller.id(), CreatedAt: now, UpdatedAt: now,
	}
	if err := in.apply(caller, group); err != nil {
		return nil, err
	}
	if err := a.ready(); err != nil {
		return nil, err
	}
	if err := a.groups.Create(ctx, group, nil, limit(Groups, group.GetTenantId(), maxGroups, true)...); err != nil {
		return nil, err
	}
	return group, nil
}

func (in *GroupChange) apply(caller Caller, group *directorypb.Group) error {
	for _, field := range []struct {
		given *string
		of    *string
	}{{in.Name, &group.Name}, {in.Description, &group.Description}, {in.TenantRole, &group.TenantRole}} {
		if field.given != nil {
			*field.of = strings.TrimSpace(*field.given)
		}
	}
	if in.Permissions != nil {
		group.ServicePermissions = *in.Permissions
	}
	if group.GetName() == "" {
		return invalid(failure.RecordWithoutName).Param("noun", "group")
	}
	if role := group.GetTenantRole(); role != "" {
		if role == access.RoleOwner {
			return invalid(failure.BadRole)
		}
		if err := checkRole(caller, role); err != nil {
			return err
		}
	}
	if err := checkTexts(group.GetName(), group.GetDescription()); err != nil {
		return err
	}
	return caller.coversGroup(group)
}

func (c Caller) coversGroup(group *directorypb.Group) error {
	if c.operator || c.grant.CoversGroup(group) {
		return nil
	}
	return failure.New(failurepb.Code_FORBIDDEN, failure.MoreThanOwn)
}

// UpdateGroup changes a group: what it gives counts for its members at once.
func (a *Accounts) UpdateGroup(ctx context.Context, caller Caller, id string, change GroupChange) (*directorypb.Group, error) {
	if _, err := a.group(ctx, caller, id); err != nil {
		return nil, err
	}
	return a.groups.Change(ctx, id, func(group *directorypb.Group) error {
		group.UpdatedAt = a.env.Now().UnixMilli()
		return change.apply(caller, group)
	})
}

// DeleteGroup deletes a group. Its members keep what they hold themselves.
func (a *Accounts) DeleteGroup(ctx context.Context, caller Caller, id string) error {
	if _, err := a.group(ctx, caller, id); err != nil {
		return err
	}
	return a.groups.Delete(ctx, id, nil)
}

// group returns a group that the caller may manage.
func (a *Accounts) group(ctx context.Context, caller Caller, id string) (*directorypb.Group, error) {
	if err := caller.administrates(); err != nil {
		return nil, err
	}
	group, err := a.groups.Get(ctx, id)
	if err == nil && !caller.sees(group.GetTenantId()) {
		err = missing("group", id)
	}
	return group, err
}

// Group returns a group and its members, newest first.
func (a *Accounts) Group(ctx context.Context, caller Caller, id string) (*directorypb.Group, []*directorypb.User, error) {
	group, err := a.group(ctx, caller, id)
	if err != nil {
		return nil, nil, err
	}
	members, err := a.users.All(groupTerm(id))
	return group, members, err
}

// ListGroups returns the groups of the caller's tenant, newest first.
func (a *Accounts) ListGroups(caller Caller) ([]*directorypb.Group, error) {
	if err := caller.administrates(); err != nil {
		return nil, err
	}
	return a.groups.All(tenantTerm(caller.tenant("")))
}

// GroupSize is how many members a group has.
func (a *Accounts) GroupSize(id string) int { return a.users.Count(groupTerm(id)) }

// groupsOf are the groups of a user that this node knows.
func (a *Accounts) groupsOf(user *directorypb.User) []*directorypb.Group {
	var groups []*directorypb.Group
	for _, id := range user.GetGroupIds() {
		if group := a.groups.Known(id); group != nil && group.GetTenantId() == user.GetTenantId() {
			groups = append(groups, group)
		}
	}
	return groups
}

// AddToGroup makes a user a member of a group. Nobody gives by it what they do not hold.
func (a *Accounts) AddToGroup(ctx context.Context, caller Caller, id, userID string) error {
	group, err := a.group(ctx, caller, id)
	if err != nil {
		return err
	}
	if err = caller.coversGroup(group); err != nil {
		return err
	}
	if _, err = a.user(ctx, caller, userID); err != nil {
		return err
	}
	_, err = a.users.Change(ctx, userID, func(user *directorypb.User) error {
		ids := []string{} // of groups that are no more none stay
		for _, known := range a.groupsOf(user) {
			if known.GetId() != id {
				ids = append(ids, known.GetId())
			}
		}
		if len(ids) >= maxUserGroups {
			return failure.New(failurepb.Code_QUOTA_REACHED, failure.RecordLimitReached).
				Param("records", Groups).Param("count", len(ids)).Param("most", maxUserGroups)
		}
		user.GroupIds, user.UpdatedAt = append(ids, id), a.env.Now().UnixMilli()
		return nil
	})
	return err
}

// RemoveFromGroup takes a user out of a group.
func (a *Accounts) RemoveFromGroup(ctx context.Context, caller Caller, id, userID string) error {
	if _, err := a.group(ctx, caller, id); err != nil {
		return err
	}
	if _, err := a.user(ctx, caller, userID); err != nil {
		return err
	}
	_, err := a.users.Change(ctx, userID, func(user *directorypb.User) error {
		ids := without(user.GetGroupIds(), id)
		if len(ids) == len(user.GetGroupIds()) {
			return failure.New(failurepb.Code_NOT_FOUND, failure.NotGroupMember)
		}
		user.GroupIds, user.UpdatedAt = ids, a.env.Now().UnixMilli()
		return nil
	})
	return err
}

func without(ids []string, id string) []string {
	var kept []string
	for _, other := range ids {
		if other != id {
			kept = append(kept, other)
		}
	}
	return kept
}
