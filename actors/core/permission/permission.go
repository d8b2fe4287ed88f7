// Package permission is the built-in permission engine: may somebody do this much with a service of the product, and if not, why
// (document 1, "Authentication"; document 3, section 2). It is pure, and package access holds what it decides by: roles, users' own
// permissions and tokens' scopes. Package httpedge/permission asks it, or an engine outside of the server, and keeps a log.
package permission

import "parley/actors/core/access"

// Policy is who decides what the owner of a token, or the user of a session, may do. The token's scope binds under all of them.
type Policy uint8

// Policies.
const (
	// BuiltIn decides by role and the user's own permissions.
	BuiltIn Policy = iota
	// Off is a server without permission engine: as BuiltIn, but webhooks are managed by project admins too, and whatever users
	// were given of them does not count (document 1, "Authentication", 8).
	Off
	// External leaves it to another engine. What is for owners and admins only stays so.
	External
)

// Reason is why something is refused, a stable word.
type Reason string

// Reasons.
const (
	Granted        Reason = ""
	Unauthorized   Reason = "no_grant"        // there is no token and no user
	UnknownService Reason = "unknown_service" // nobody holds anything of it
	OwnersOnly     Reason = "owners_only"     // the service is for owners and admins
	OwnerLevel     Reason = "owner_level"     // the owner does not hold the level
	TokenScope     Reason = "token_scope"     // the token's scope does not include it
	EngineRefused  Reason = "engine_refused"  // an external engine said no
)

// Verdict is a decision.
type Verdict struct {
	Allowed bool
	Reason  Reason // Granted where it is allowed
}

// Decide says whether a grant gives a level of a service. Under External that is half of it: the other engine is to be asked.
func Decide(policy Policy, grant *access.Grant, service access.Service, level access.Level) Verdict {
	switch scope := scopeOf(grant, service); {
	case policy == BuiltIn && level != access.None && grant.Level(service) >= level:
		return Verdict{Allowed: true}
	case grant == nil:
		return Verdict{Reason: Unauthorized}
	case level == access.None || !grant.Knows(service):
		return Verdict{Reason: UnknownService}
	case grant.OwnersOnly(service) && !grant.Administrates():
		return Verdict{Reason: OwnersOnly}
	case policy != External && ownerOf(policy, grant, service) < level:
		return Verdict{Reason: OwnerLevel}
	case scope < level:
		return Verdict{Reason: TokenScope}
	default:
		return Verdict{Allowed: true}
	}
}

// ownerOf is what the owner holds.
func ownerOf(policy Policy, grant *access.Grant, service access.Service) access.Level {
	level := grant.OwnerLevel(service)
	if policy == Off && service == access.Webhooks {
		level = access.None
		if grant.SeesAll() {
			level = access.Admin
		}
	}
	return whole(service, level)
}

func scopeOf(grant *access.Grant, service access.Service) access.Level {
	return whole(service, grant.ScopeLevel(service))
}

// whole is a level that the service has: webhooks have none between read and admin.
func whole(service access.Service, level access.Level) access.Level {
	if service == access.Webhooks && level == access.Write {
		return access.Read
	}
	return level
}

// Text is the reason in words for the caller.
func (r Reason) Text(grant *access.Grant, service access.Service, level access.Level) string {
	what := string(service) + ":" + level.String()
	switch r {
	case Unauthorized:
		return "The request carries no API token and no session"
	case UnknownService:
		return "There is no permission " + what
	case OwnersOnly:
		return "Only owners and admins hold " + what
	case OwnerLevel:
		return "The user, whose role is " + role(grant) + ", does not hold " + what
	case TokenScope:
		return "The token's scope does not include " + what
	case EngineRefused:
		return "The permission engine refused " + what
	default:
		return ""
	}
}

func role(grant *access.Grant) string {
	if role := grant.Role(); role != "" {
		return role
	}
	return "unknown"
}
