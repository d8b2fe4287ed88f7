package access

import (
	"slices"

	"parley/proto/directorypb"
)

// Roles of users.
const (
	RoleOwner        = "owner"
	RoleAdmin        = "admin"
	RoleProjectAdmin = "project_admin"
	RoleUser         = "user"
)

// RoleMember is the lower role in a project; the higher one is RoleProjectAdmin.
const RoleMember = "member"

// Grant holds the permissions of an API token, or of a session, computed from the records once and shared: do not change it. The
// zero Grant permits nothing.
type Grant struct {
	Token   *directorypb.Token
	Owner   *directorypb.User
	Tenant  *directorypb.Tenant
	Project *directorypb.Project
	Groups  []*directorypb.Group // that raised it; of an API token none

	levels  map[Service]held
	role    string
	licence Licence
}

// held are the levels for one service.
type held struct {
	owner      Level // what the owner may
	scope      Level // what the token's scope allows
	ownersOnly bool  // see Definition
}

// level is the lower of both. Webhooks have no level between read and admin (document 1, "Authentication", 8).
func (h held) level(service Service) Level {
	level := min(h.owner, h.scope)
	if service == Webhooks && level == Write {
		return Read
	}
	return level
}

// NewGrant computes the permissions of a token: for each service the lower of its owner's level and its scope's (document 3, 2.3
// and 2.7). What the owner is in the project counts, and the groups raise it: they are given for sessions only.
func NewGrant(
	token *directorypb.Token, owner *directorypb.User, tenant *directorypb.Tenant, project *directorypb.Project, groups ...*directorypb.Group,
) *Grant {
	g := &Grant{
		Token: token, Owner: owner, Tenant: tenant, Project: project, Groups: groups,
		levels: make(map[Service]held), role: RoleIn(owner, project.GetId(), groups...), licence: TierLicence(tenant),
	}
	for _, definition := range Definitions() {
		given := held{owner: LevelIn(owner, project.GetId(), definition, groups...), scope: Admin, ownersOnly: definition.OwnersOnly}
		if token.GetScoped() {
			given.scope, _ = ParseLevel(token.GetScope()[string(definition.Service)])
		}
		g.levels[definition.Service] = given
	}
	return g
}

// RoleIn is the role that a user has in effect: their own, raised by groups, and by being a project admin of the project.
func RoleIn(user *directorypb.User, projectID string, groups ...*directorypb.Group) string {
	role := user.GetRole()
	if role == RoleUser && user.GetMemberships()[projectID].GetRole() == RoleProjectAdmin {
		role = RoleProjectAdmin
	}
	for _, group := range groups {
		if rank(group.GetTenantRole()) > rank(role) {
			role = group.GetTenantRole()
		}
	}
	return role
}

// rank orders roles; owners are made otherwise than by groups.
func rank(role string) int {
	switch role {
	case RoleOwner:
		return 4 //nolint:mnd // an order
	case RoleAdmin:
		return 3 //nolint:mnd // an order
	case RoleProjectAdmin:
		return 2 //nolint:mnd // an order
	case RoleUser:
		return 1
	default:
		return 0
	}
}

// LevelIn is what a user may do with a service in a project: the highest of what they hold themselves and what their groups give.
func LevelIn(user *directorypb.User, projectID string, definition Definition, groups ...*directorypb.Group) Level {
	role := RoleIn(user, projectID, groups...)
	switch {
	case role == RoleOwner:
		return Admin
	case definition.OwnersOnly && role != RoleAdmin:
		return None
	}
	level := ownLevel(user, projectID, definition)
	for _, group := range groups {
		level = max(level, groupLevel(group, definition))
	}
	return level
}

// ownLevel is what a user holds without groups. What they were given in the project wins over what they were given in the tenant,
// and that over what their role gives. Webhooks are managed by owners and admins, unless somebody was given them (document 1,
// "Authentication", 8).
func ownLevel(user *directorypb.User, projectID string, definition Definition) Level {
	role, membership := user.GetRole(), user.GetMemberships()[projectID]
	bound := role != RoleOwner && role != RoleAdmin
	if level, ok := explicit(membership.GetServicePermissions(), definition.Service); ok && bound {
		return level
	}
	if level, ok := explicit(user.GetServicePermissions(), definition.Service); ok {
		return level
	}
	if bound && definition.Administration && membership.GetRole() == RoleProjectAdmin && definition.Service != Webhooks {
		return Read
	}
	return roleLevel(role, definition)
}

func explicit(permissions map[string]string, service Service) (Level, bool) {
	text, ok := permissions[string(service)]
	if !ok {
		return None, false
	}
	return ParseLevel(text)
}

// groupLevel is what a group gives.
func groupLevel(group *directorypb.Group, definition Definition) Level {
	level, _ := explicit(group.GetServicePermissions(), definition.Service)
	return max(level, roleLevel(group.GetTenantRole(), definition))
}

// roleLevel is what a role gives by itself.
func roleLevel(role string, definition Definition) Level {
	switch role {
	case RoleOwner, RoleAdmin:
		return Admin
	case RoleProjectAdmin, RoleUser:
		if definition.Administration || definition.OwnersOnly {
			return None
		}
		return Write
	default:
		return None
	}
}

// MemberOf says whether a user may act in a project of the tenant: owners and admins in all, others in their projects. A user
// without recorded projects may act in all, unless the list was made shorter until it was empty.
func MemberOf(user *directorypb.User, projectID string, groups ...*directorypb.Group) bool {
	role := RoleIn(user, "", groups...)
	return role == RoleOwner || role == RoleAdmin || len(user.GetProjectIds()) == 0 && !user.GetBounded() ||
		slices.Contains(user.GetProjectIds(), projectID)
}

// Level is the bearer's level for a service; none for an unknown service.
func (g *Grant) Level(service Service) Level {
	if g == nil {
		return None
	}
	return g.levels[service].level(service)
}

// OwnerLevel is the owner's level for a service, regardless of the token's scope; none for an unknown service.
func (g *Grant) OwnerLevel(service Service) Level {
	if g == nil {
		return None
	}
	return g.levels[service].owner
}

// ScopeLevel is the level that the token's scope allows for a service, regardless of its owner's; none for an unknown service.
func (g *Grant) ScopeLevel(service Service) Level {
	if g == nil {
		return None
	}
	return g.levels[service].scope
}

// Role is the owner's role in effect; empty without an owner.
func (g *Grant) Role() string {
	if g == nil {
		return ""
	}
	return g.role
}

// Knows says that there is such a service.
func (g *Grant) Knows(service Service) bool {
	if g == nil {
		return false
	}
	_, known := g.levels[service]
	return known
}

// OwnersOnly says that a service is for owners and admins only, see Definition.
func (g *Grant) OwnersOnly(service Service) bool { return g != nil && g.levels[service].ownersOnly }

// Covers says whether the grant includes every permission of another one.
func (g *Grant) Covers(other *Grant) bool {
	for service := range other.levels {
		if other.Level(service) > g.Level(service) {
			return false
		}
	}
	return true
}

// Scope returns the grant's permissions as the scope for another token.
func (g *Grant) Scope() Scope {
	scope := make(Scope, len(g.levels))
	for service := range g.levels {
		scope[string(service)] = g.Level(service).String()
	}
	return scope
}

// CoversGroup says whether the grant includes every permission that a group gives.
func (g *Grant) CoversGroup(group *directorypb.Group) bool {
	for _, definition := range Definitions() {
		level := groupLevel(group, definition)
		if definition.Service == Webhooks && level == Write {
			level = Read
		}
		if level > g.Level(definition.Service) {
			return false
		}
	}
	return rank(group.GetTenantRole()) <= rank(g.Role())
}

// Administrates says whether the token acts for an owner or admin of the tenant.
func (g *Grant) Administrates() bool {
	role := g.Role()
	return role == RoleOwner || role == RoleAdmin
}

// SeesAll says whether the bearer sees all sessions of the project, not only the owner's.
func (g *Grant) SeesAll() bool { return g.Administrates() || g.Role() == RoleProjectAdmin }

// Under gives a grant that is being made another licence than that of the tenant's tier, and returns it.
func (g *Grant) Under(licence Licence) *Grant {
	g.licence = licence
	return g
}

// Licence is that of the tenant, as it was when the grant was made.
func (g *Grant) Licence() Licence {
	if g == nil {
		return Licence{}
	}
	return g.licence
}

// Tier is that of the licence.
func (g *Grant) Tier() Tier { return g.Licence().Tier() }
