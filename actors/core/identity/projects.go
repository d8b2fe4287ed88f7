package identity

import (
	"context"
	"slices"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/access"
	"parley/actors/core/failure"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

// maxMemberships bounds the projects of which something is recorded about a user.
const maxMemberships = 200

// ProjectMember is a user as a member of a project.
type ProjectMember struct {
	User       *directorypb.User
	Role       string                  // project_admin, member
	Membership *directorypb.Membership // nil = nothing is recorded
	Inherited  bool                    // a member without being recorded as one: owners, admins, and who is in every project
}

// MembershipChange is what a user is to be in a project; empty or nil stays.
type MembershipChange struct {
	Role        string
	Permissions *access.Scope

	join func(*directorypb.User) error // has the user be a member, or refuses
}

// ProjectMembers returns who may act in a project, newest first, and how many there are.
func (a *Accounts) ProjectMembers(ctx context.Context, caller Caller, projectID string, limit, offset int) ([]ProjectMember, int, error) {
	project, err := a.project(ctx, caller, projectID)
	if err != nil {
		return nil, 0, err
	}
	users, err := a.users.All(tenantTerm(project.GetTenantId()))
	if err != nil {
		return nil, 0, err
	}
	users = slices.DeleteFunc(users, func(user *directorypb.User) bool { return !access.MemberOf(user, projectID) })
	first := min(offset, len(users))
	members := []ProjectMember{}
	for _, user := range users[first : first+min(limit, len(users)-first)] {
		members = append(members, memberOf(user, projectID))
	}
	return members, len(users), nil
}

func memberOf(user *directorypb.User, projectID string) ProjectMember {
	role := access.RoleMember
	if access.RoleIn(user, projectID) != access.RoleUser {
		role = access.RoleProjectAdmin
	}
	return ProjectMember{
		User: user, Role: role, Membership: user.GetMemberships()[projectID], Inherited: privileged(user) || !recorded(user, projectID),
	}
}

// recorded says that a user is a member of a project by name.
func recorded(user *directorypb.User, projectID string) bool {
	return slices.Contains(user.GetProjectIds(), projectID) || user.GetMemberships()[projectID] != nil
}

// privileged says that a user is in every project by their role.
func privileged(user *directorypb.User) bool {
	return user.GetRole() == access.RoleOwner || user.GetRole() == access.RoleAdmin
}

// AddProjectMember makes a user a member of a project.
func (a *Accounts) AddProjectMember(ctx context.Context, caller Caller, projectID, userID string, in MembershipChange) (ProjectMember, error) {
	if in.Role == "" {
		in.Role = access.RoleMember
	}
	in.join = func(user *directorypb.User) error {
		if recorded(user, projectID) {
			return failure.New(failurepb.Code_ALREADY_EXISTS, failure.AlreadyProjectMember)
		}
		if len(user.GetProjectIds()) > 0 || user.GetBounded() { // else they are in all
			user.ProjectIds = append(user.GetProjectIds(), projectID)
		}
		return nil
	}
	return a.changeMembership(ctx, caller, projectID, userID, in)
}

// UpdateProjectMember changes what a member is in a project.
func (a *Accounts) UpdateProjectMember(ctx context.Context, caller Caller, projectID, userID string, in MembershipChange) (ProjectMember, error) {
	in.join = func(user *directorypb.User) error {
		if !recorded(user, projectID) {
			return failure.New(failurepb.Code_NOT_FOUND, failure.NotProjectMember)
		}
		return nil
	}
	return a.changeMembership(ctx, caller, projectID, userID, in)
}

func (a *Accounts) changeMembership(ctx context.Context, caller Caller, projectID, userID string, in MembershipChange) (ProjectMember, error) {
	if err := a.checkMembership(ctx, caller, projectID, userID, in.Role); err != nil {
		return ProjectMember{}, err
	}
	user, err := a.users.Change(ctx, userID, func(user *directorypb.User) error {
		before := proto.CloneOf(user)
		if !access.MemberOf(before, projectID) { // whatever was recorded of them gave them nothing
			before = nil
		}
		if err := in.join(user); err != nil {
			return err
		}
		if len(user.GetProjectIds()) > maxProjects || len(user.GetMemberships()) >= maxMemberships && user.GetMemberships()[projectID] == nil {
			return failure.New(failurepb.Code_QUOTA_REACHED, failure.RecordLimitReached).
				Param("records", Projects).Param("count", maxMemberships).Param("most", maxMemberships)
		}
		membership := user.GetMemberships()[projectID]
		if membership == nil {
			membership = &directorypb.Membership{Role: memberOf(user, projectID).Role}
		}
		if in.Role != "" {
			membership.Role = in.Role
		}
		if in.Permissions != nil {
			membership.ServicePermissions = *in.Permissions
		}
		if user.Memberships == nil {
			user.Memberships = map[string]*directorypb.Membership{}
		}
		user.Memberships[projectID] = membership
		if access.MemberOf(user, projectID) {
			caller.lower(before, user, projectID, &membership.ServicePermissions)
		}
		user.UpdatedAt = a.env.Now().UnixMilli()
		return nil
	})
	if err != nil {
		return ProjectMember{}, err
	}
	return memberOf(user, projectID), nil
}

func (a *Accounts) checkMembership(ctx context.Context, caller Caller, projectID, userID, role string) error {
	project, err := a.project(ctx, caller, projectID)
	if err != nil {
		return err
	}
	user, err := a.user(ctx, caller, userID)
	switch {
	case err != nil:
		return err
	case user.GetTenantId() != project.GetTenantId():
		return missing("user", userID)
	case role != "" && role != access.RoleProjectAdmin && role != access.RoleMember:
		return invalid(failure.BadProjectRole)
	}
	return a.ready()
}

// RemoveProjectMember takes a user out of a project. Their sessions go on in another one, their API tokens for this one are deleted.
// Who is in it without being recorded, as an owner, stays.
func (a *Accounts) RemoveProjectMember(ctx context.Context, caller Caller, projectID, userID string) error {
	if err := a.checkMembership(ctx, caller, projectID, userID, ""); err != nil {
		return err
	}
	user, err := a.user(ctx, caller, userID)
	if err != nil {
		return err
	}
	projects, err := a.projects.All(tenantTerm(user.GetTenantId()))
	if err != nil {
		return err
	}
	user, err = a.users.Change(ctx, userID, func(user *directorypb.User) error {
		all := len(user.GetProjectIds()) == 0 && !user.GetBounded()
		switch {
		case !access.MemberOf(user, projectID) && !recorded(user, projectID), privileged(user) && !recorded(user, projectID):
			return failure.New(failurepb.Code_NOT_FOUND, failure.NotProjectMember)
		case all && !privileged(user): // from now on the list says it
			for _, project := range projects {
				user.ProjectIds = append(user.GetProjectIds(), project.GetId())
			}
		}
		if !all || !privileged(user) {
			user.ProjectIds, user.Bounded = without(user.GetProjectIds(), projectID), true
		}
		delete(user.GetMemberships(), projectID)
		user.UpdatedAt = a.env.Now().UnixMilli()
		return nil
	})
	if err != nil {
		return err
	}
	if access.MemberOf(user, projectID) {
		return nil
	}
	return a.deleteTokensOf(ctx, user, projectID)
}
