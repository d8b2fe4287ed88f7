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

// Grant is what an API token gives its bearer, made from the records once and shared afterwards: do not change it. A Grant that
// was not made by NewGrant gives nothing.
type Grant struct {
	Token   *directorypb.Token
	Owner   *directorypb.User
	Tenant  *directorypb.Tenant
	Project *directorypb.Project

	levels map[Service]Level
	tier   Tier
}

// NewGrant works out what a token gives: for each service the lower of what its owner may and what its scope allows (document 3,
// 2.3 and 2.7).
func NewGrant(token *directorypb.Token, owner *directorypb.User, tenant *directorypb.Tenant, project *directorypb.Project) *Grant {
	g := &Grant{
		Token: token, Owner: owner, Tenant: tenant, Project: project,
		levels: make(map[Service]Level), tier: ParseTier(tenant.GetTier()),
	}
	for _, definition := range Definitions() {
		level := ownLevel(owner, definition)
		if token.GetScoped() {
			allowed, _ := ParseLevel(token.GetScope()[string(definition.Service)])
			level = min(level, allowed)
		}
		if definition.Service == Webhooks && level == Write {
			level = Read // it has no level in between (document 1, "Authentication", 8)
		}
		g.levels[definition.Service] = level
	}
	return g
}

// ownLevel is what a user may do with a service.
func ownLevel(user *directorypb.User, definition Definition) Level {
	role := user.GetRole()
	if definition.OwnersOnly && role != RoleOwner && role != RoleAdmin {
		return None
	}
	if role == RoleOwner {
		return Admin
	}
	if text, ok := user.GetServicePermissions()[string(definition.Service)]; ok {
		if level, ok := ParseLevel(text); ok {
			return level
		}
	}
	switch role {
	case RoleAdmin:
		return Admin
	case RoleProjectAdmin, RoleUser:
		if definition.Administration {
			return None
		}
		return Write
	default:
		return None
	}
}

// MemberOf says that a user may act in a project of his tenant: owners and admins in all, others in those that they were made
// members of. Of whom no project is recorded nothing is known, and nothing is taken.
func MemberOf(user *directorypb.User, projectID string) bool {
	role := user.GetRole()
	return role == RoleOwner || role == RoleAdmin || len(user.GetProjectIds()) == 0 || slices.Contains(user.GetProjectIds(), projectID)
}

// Level is how much the bearer may do with a service; none of one that nobody knows.
func (g *Grant) Level(service Service) Level {
	if g == nil {
		return None
	}
	return g.levels[service]
}

// Covers says that the bearer may do everything that the other one's may.
func (g *Grant) Covers(other *Grant) bool {
	for service, level := range other.levels {
		if level > g.Level(service) {
			return false
		}
	}
	return true
}

// Scope is all that the grant gives, as the scope of another token.
func (g *Grant) Scope() Scope {
	scope := make(Scope, len(g.levels))
	for service, level := range g.levels {
		scope[string(service)] = level.String()
	}
	return scope
}

// Administrates says that the token acts for an owner or admin of the tenant.
func (g *Grant) Administrates() bool {
	role := g.role()
	return role == RoleOwner || role == RoleAdmin
}

// SeesAll says that sessions of everybody in the project are within reach, not only the owner's own.
func (g *Grant) SeesAll() bool { return g.Administrates() || g.role() == RoleProjectAdmin }

// Tier is the licence of the tenant.
func (g *Grant) Tier() Tier {
	if g == nil {
		return Free
	}
	return g.tier
}

func (g *Grant) role() string {
	if g == nil {
		return ""
	}
	return g.Owner.GetRole()
}
