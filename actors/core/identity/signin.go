package identity

import (
	"context"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/access"
	"parley/actors/core/failure"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

// maxCandidates bounds the accounts of one email that a sign-in without a slug tries: each costs a hash.
const maxCandidates = 4

// Member is a user with the tenant and a project of theirs.
type Member struct {
	User    *directorypb.User
	Tenant  *directorypb.Tenant
	Project *directorypb.Project // nil = they are in none
	Groups  []*directorypb.Group // that they are in
	Licence access.Licence       // of the tenant
}

// LoginEmail is an email as accounts are found by.
func LoginEmail(given string) string { return strings.ToLower(strings.TrimSpace(given)) }

// TenantBySlug returns a tenant, nil when this node has none of that slug.
func (a *Accounts) TenantBySlug(slug string) (*directorypb.Tenant, error) {
	return a.tenants.Lookup(slugTerm(strings.ToLower(strings.TrimSpace(slug))))
}

// Candidates returns the users who sign in with an email and a password, in a tenant or, with "", in any: whoever has the password is it.
func (a *Accounts) Candidates(ctx context.Context, email, tenantID string) ([]*directorypb.User, error) {
	if email == "" {
		return nil, nil
	}
	all, err := a.users.All(emailTerm(email))
	if err != nil {
		return nil, err
	}
	// The oldest first: nobody is displaced by those who register with their email later.
	var found []*directorypb.User
	for _, user := range slices.Backward(all) {
		if tenantID != "" && user.GetTenantId() != tenantID || !MaySignIn(user) || !hasPassword(user) || len(found) == maxCandidates {
			continue
		}
		if _, err = a.tenants.Get(ctx, user.GetTenantId()); err == nil { // else it was never founded, or is gone
			found = append(found, user)
		} else if !isMissing(err) {
			return nil, err
		}
	}
	return found, nil
}

// MaySignIn says that a user has something to sign in with, and may.
func MaySignIn(user *directorypb.User) bool {
	return user.GetCanLogin() && (hasPassword(user) || user.GetSignIn().GetProviderIdentity() != nil)
}

func hasPassword(user *directorypb.User) bool { return len(user.GetSignIn().GetPassword()) > 0 }

// Addressee returns a user and their tenant, nil when one of them is gone.
func (a *Accounts) Addressee(ctx context.Context, userID string) (*directorypb.User, *directorypb.Tenant, error) {
	user, err := a.users.Get(ctx, userID)
	if err == nil {
		var tenant *directorypb.Tenant
		if tenant, err = a.tenants.Get(ctx, user.GetTenantId()); err == nil {
			return user, tenant, nil
		}
	}
	if isMissing(err) {
		err = nil
	}
	return nil, nil, err
}

// Session is what a session token says of its user.
type Session struct {
	UserID, TenantID string
	Generation       uint64
	ProjectID        string // that they chose; "" or one that is not theirs = any of theirs
}

// Resume returns whose a session is. Every node has the records in memory; one that was made a moment ago on another node is asked
// for. A failure says that the session is over, or, UNAVAILABLE, that this node does not know yet.
func (a *Accounts) Resume(ctx context.Context, s Session) (Member, error) {
	over := failure.New(failurepb.Code_AUTH_REQUIRED, failure.SessionInvalid)
	user, err := a.users.Get(ctx, s.UserID)
	if err != nil {
		return Member{}, unless(isMissing(err), err, over)
	}
	switch known := user.GetSignIn().GetGeneration(); {
	case user.GetTenantId() != s.TenantID || !MaySignIn(user) || s.Generation < known:
		return Member{}, over
	case s.Generation > known: // the token is ours, so the record is old
		return Member{}, failure.New(failurepb.Code_UNAVAILABLE, failure.SessionNotCheckable)
	}
	tenant, err := a.tenants.Get(ctx, s.TenantID)
	if err != nil {
		return Member{}, unless(isMissing(err), err, failure.New(failurepb.Code_AUTH_REQUIRED, failure.SessionWithoutTenant))
	}
	groups := a.groupsOf(user)
	return Member{
		User: user, Tenant: tenant, Project: a.projectOf(user, groups, s.ProjectID), Groups: groups, Licence: a.Licence(tenant),
	}, nil
}

// Holds says, by what this node knows, that a session that began with this grant still does: in the same project, generation, role,
// groups and permissions.
func (a *Accounts) Holds(grant *access.Grant) bool {
	user, projectID := grant.Owner, grant.Project.GetId()
	now := a.users.Known(user.GetId())
	if now == nil || !MaySignIn(now) || now.GetSignIn().GetGeneration() != user.GetSignIn().GetGeneration() ||
		a.tenants.Known(now.GetTenantId()) == nil {
		return false
	}
	groups := a.groupsOf(now)
	return now.GetRole() == user.GetRole() && maps.Equal(now.GetServicePermissions(), user.GetServicePermissions()) &&
		proto.Equal(now.GetMemberships()[projectID], user.GetMemberships()[projectID]) &&
		slices.EqualFunc(groups, grant.Groups, func(one, other *directorypb.Group) bool { return proto.Equal(one, other) }) &&
		(projectID == "" || a.ownProject(now, groups, projectID) != nil)
}

func unless(is bool, err error, refused *failure.Failure) error {
	if is {
		return refused
	}
	return err
}

// projectOf is the project in which a user acts: the chosen one if it is theirs, else their first, nil when they have none.
func (a *Accounts) projectOf(user *directorypb.User, groups []*directorypb.Group, chosen string) *directorypb.Project {
	if project := a.ownProject(user, groups, chosen); project != nil {
		return project
	}
	for _, id := range user.GetProjectIds() {
		if project := a.ownProject(user, groups, id); project != nil {
			return project
		}
	}
	return a.ownProject(user, groups, a.firstProject(user.GetTenantId()))
}

func (a *Accounts) ownProject(user *directorypb.User, groups []*directorypb.Group, id string) *directorypb.Project {
	project := a.projects.Known(id)
	if project.GetTenantId() != user.GetTenantId() || project == nil || !access.MemberOf(user, id, groups...) {
		return nil
	}
	return project
}

// ChooseProject returns a project in which a user may act.
func (a *Accounts) ChooseProject(user *directorypb.User, id string) (*directorypb.Project, error) {
	if project := a.ownProject(user, a.groupsOf(user), id); project != nil {
		return project, nil
	}
	return nil, failure.New(failurepb.Code_NOT_FOUND, failure.ProjectNotFound)
}

// ProjectCount is in how many projects a user may act.
func (a *Accounts) ProjectCount(user *directorypb.User) (int, error) {
	projects, err := a.projectsOf(user, a.groupsOf(user))
	return len(projects), err
}

// projectsOf are the projects in which a user may act, newest first.
func (a *Accounts) projectsOf(user *directorypb.User, groups []*directorypb.Group) ([]*directorypb.Project, error) {
	all, err := a.projects.All(tenantTerm(user.GetTenantId()))
	return slices.DeleteFunc(all, func(project *directorypb.Project) bool {
		return !access.MemberOf(user, project.GetId(), groups...)
	}), err
}

// ChangePassword sets a user's password and ends all their sessions. basis is the generation that the request rests on: of two
// changes that rest on the same one, one is refused.
func (a *Accounts) ChangePassword(ctx context.Context, userID string, basis uint64, hash []byte) (*directorypb.User, error) {
	return a.users.Change(ctx, userID, func(user *directorypb.User) error {
		if !MaySignIn(user) || !hasPassword(user) || user.GetSignIn().GetGeneration() != basis {
			return failure.New(failurepb.Code_AUTH_REQUIRED, failure.SessionInvalid)
		}
		now := a.env.Now().UnixMilli()
		user.SignIn.Password, user.SignIn.ChangedAt, user.SignIn.MustChange = hash, now, false
		user.SignIn.Generation++
		user.UpdatedAt = now
		return nil
	})
}

// EndSessions ends all sessions of a user: their own, or by an owner or admin those of somebody else in the tenant. Only an owner
// ends an owner's.
func (a *Accounts) EndSessions(ctx context.Context, caller Caller, userID string) (*directorypb.User, error) {
	if err := a.mayEnd(ctx, caller, userID); err != nil {
		return nil, err
	}
	return a.users.Change(ctx, userID, func(user *directorypb.User) error {
		endSessions(user)
		user.UpdatedAt = a.env.Now().UnixMilli()
		return nil
	})
}

// DatabaseName is a name that sessions and headers carry for clients of the dashboard (document 3, 5.1).
func DatabaseName(tenant *directorypb.Tenant) string {
	return "tenant_" + tenant.GetSlug()
}
