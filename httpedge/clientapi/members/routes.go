// Package members is the routes of a tenant's members, groups and projects (document 3, section 6). They are mounted twice with the
// same handlers: for API tokens on the Client API, and for signed-in users on the dashboard's surface, under other paths.
package members

import (
	"context"
	"slices"

	"parley/actors/core/identity"
	"parley/httpedge/endpoint"
	"parley/proto/failurepb"
)

const (
	userPage    = 100
	maxUserPage = 500
	// maxBody bounds a body, in bytes: some names and a level for each service.
	maxBody = 64 << 10
)

// Parts is what the routes need of the rest of the node.
type Parts struct {
	Accounts *identity.Accounts
	// InviteLink is where somebody accepts an invitation with its secret. nil = nothing is known of such a place.
	InviteLink func(secret string) string
}

// Paths are what the routes are below.
type Paths struct{ Members, Groups, Projects string }

// OfTokens are the paths on the Client API.
func OfTokens() Paths {
	return Paths{Members: "/members", Groups: "/members/groups", Projects: "/projects"}
}

// OfSessions are the paths below /api.
func OfSessions() Paths {
	return Paths{Members: "/users", Groups: "/groups", Projects: "/projects"}
}

// api is the handlers.
type api struct{ Parts }

// caller is who asks.
func caller(ctx context.Context) identity.Caller {
	return identity.Bearer(endpoint.CallerFrom(ctx).Grant)
}

// Routes returns the routes, relative to a surface.
func Routes(parts Parts, at Paths) []endpoint.Route {
	a := &api{parts}
	return slices.Concat(a.members(at.Members), a.groups(at.Groups), a.projects(at.Projects))
}

// What the routes answer failures with.
const (
	invalid   = failurepb.Code_VALIDATION
	forbidden = failurepb.Code_FORBIDDEN
	notFound  = failurepb.Code_NOT_FOUND
	taken     = failurepb.Code_ALREADY_EXISTS
	quota     = failurepb.Code_QUOTA_REACHED
)

func (a *api) members(base string) []endpoint.Route {
	const read, admin = "members:read", "members:admin"
	tag, body := endpoint.Tag("Members"), endpoint.MaxBody(maxBody)
	return []endpoint.Route{
		endpoint.On("GET "+base, read, a.list, tag, endpoint.Page("limit", userPage, maxUserPage),
			endpoint.Summary("List the tenant's users, newest first"), endpoint.Errors(forbidden)),
		endpoint.On("GET "+base+"/permissions/services", read, a.listServices, tag, endpoint.Errors(forbidden),
			endpoint.Summary("List the services that permissions are about, and their levels")),
		endpoint.On("POST "+base+"/invite", admin, a.invite, endpoint.Once(), tag, body, endpoint.Status(201),
			endpoint.Summary("Invite somebody to sign in; the answer shows the link, which is good once"),
			endpoint.Errors(invalid, forbidden, notFound, taken, quota)),
		endpoint.On("POST "+base+"/{id}/invite", admin, a.inviteAgain, endpoint.Once(), tag,
			endpoint.Summary("Give somebody who has not accepted yet a new link; the one before is void"),
			endpoint.Errors(forbidden, notFound, failurepb.Code_CONFLICT)),
		endpoint.On("PATCH "+base+"/{id}", admin, a.update, tag, body,
			endpoint.Summary("Change a user's name, role, and whether they may sign in; canLogin false ends their sessions"),
			endpoint.Errors(invalid, forbidden, notFound)),
		endpoint.On("PATCH "+base+"/{id}/permissions", admin, a.setPermissions, tag, body,
			endpoint.Summary("Set what a user may do beyond their role; null = what the role gives"),
			endpoint.Errors(invalid, forbidden, notFound)),
		endpoint.On("DELETE "+base+"/{id}", admin, a.remove, tag,
			endpoint.Summary("Remove a user: their sessions end and their API tokens are deleted, on all nodes"),
			endpoint.Errors(invalid, forbidden, notFound)),
	}
}

func (a *api) groups(base string) []endpoint.Route {
	const read, admin = "members:read", "members:admin"
	tag, body := endpoint.Tag("Groups"), endpoint.MaxBody(maxBody)
	return []endpoint.Route{
		endpoint.On("GET "+base, read, a.listGroups, tag, endpoint.Summary("List the groups, newest first"), endpoint.Errors(forbidden)),
		endpoint.On("POST "+base, admin, a.createGroup, endpoint.Once(), tag, body, endpoint.Status(201),
			endpoint.Summary("Create a group, which raises what its members may do while they are signed in"),
			endpoint.Errors(invalid, forbidden, taken, quota)),
		endpoint.On("GET "+base+"/{id}", read, a.getGroup, tag, endpoint.Summary("Read a group and its members"),
			endpoint.Errors(forbidden, notFound)),
		endpoint.On("PATCH "+base+"/{id}", admin, a.updateGroup, tag, body, endpoint.Summary("Change a group"),
			endpoint.Errors(invalid, forbidden, notFound, taken)),
		endpoint.On("DELETE "+base+"/{id}", admin, a.deleteGroup, tag,
			endpoint.Summary("Delete a group; its members keep what they hold themselves"), endpoint.Errors(forbidden, notFound)),
		endpoint.On("POST "+base+"/{id}/members", admin, a.addToGroup, tag, body,
			endpoint.Summary("Add a user to a group"), endpoint.Errors(invalid, forbidden, notFound, quota)),
		endpoint.On("DELETE "+base+"/{id}/members", admin, a.removeFromGroup, tag, body,
			endpoint.Summary("Take a user out of a group; userId is in the body or the query"), endpoint.Errors(invalid, forbidden, notFound)),
	}
}

func (a *api) projects(base string) []endpoint.Route {
	const read, write, one = "projects:read", "projects:write", "/{projectId}"
	tag, body := endpoint.Tag("Projects"), endpoint.MaxBody(maxBody)
	return []endpoint.Route{
		endpoint.On("GET "+base, read, a.listProjects, tag, endpoint.Summary("List the projects that one may act in, newest first")),
		endpoint.On("POST "+base, write, a.createProject, endpoint.Once(), tag, body, endpoint.Status(201),
			endpoint.Summary("Create a project"), endpoint.Errors(invalid, forbidden, failurepb.Code_CONFLICT, quota)),
		endpoint.On("PATCH "+base+one, write, a.updateProject, tag, body, endpoint.Summary("Change a project's name and description"),
			endpoint.Errors(invalid, forbidden, notFound)),
		endpoint.On("DELETE "+base+one, write, a.deleteProject, tag,
			endpoint.Summary("Delete a project that has no API tokens; the first and the last one stay"),
			endpoint.Errors(invalid, forbidden, notFound)),
		endpoint.On("GET "+base+one+"/members", read, a.listProjectMembers, tag, endpoint.Page("limit", userPage, maxUserPage),
			endpoint.Summary("List who may act in a project, newest first"), endpoint.Errors(forbidden, notFound)),
		endpoint.On("POST "+base+one+"/members", write, a.addProjectMember, tag, body, endpoint.Status(201),
			endpoint.Summary("Make a user a member of a project"), endpoint.Errors(invalid, forbidden, notFound, taken, quota)),
		endpoint.On("PATCH "+base+one+"/members", write, a.updateProjectMember, tag, body,
			endpoint.Summary("Change a member's role in a project"), endpoint.Errors(invalid, forbidden, notFound)),
		endpoint.On("PATCH "+base+one+"/members/permissions", write, a.setProjectPermissions, tag, body,
			endpoint.Summary("Set what a member may do in a project; null = what they may otherwise"), endpoint.Errors(invalid, forbidden, notFound)),
		endpoint.On("DELETE "+base+one+"/members", write, a.removeProjectMember, tag, body,
			endpoint.Summary("Take a member out of a project and delete their API tokens for it; userId is in the body or the query"),
			endpoint.Errors(invalid, forbidden, notFound)),
	}
}
