package identity

import (
	"maps"
	"slices"

	"parley/actors/core/access"
	"parley/actors/core/collection"
	"parley/actors/core/failure"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

// Caller is who asks for something. The zero value may do nothing.
type Caller struct {
	operator bool
	grant    *access.Grant
}

// Operator is who runs the server: all tenants are visible, no plan and no grant binds what an operator creates.
func Operator() Caller { return Caller{operator: true} }

// Bearer is who presented an API token.
func Bearer(grant *access.Grant) Caller { return Caller{grant: grant} }

// administrates refuses callers that are neither an operator nor act for an owner or admin of some tenant.
func (c Caller) administrates() error {
	if c.operator || c.grant.Administrates() {
		return nil
	}
	return failure.New(failurepb.Code_FORBIDDEN, failure.Forbidden)
}

// sees says whether records of a tenant exist for the caller.
func (c Caller) sees(tenantID string) bool {
	return c.operator || c.grant != nil && c.grant.Tenant.GetId() == tenantID
}

// operates refuses everybody but the operator.
func (c Caller) operates() error {
	if c.operator {
		return nil
	}
	return failure.New(failurepb.Code_FORBIDDEN, failure.Forbidden)
}

// tenant is the tenant that is meant: of a bearer always their own.
func (c Caller) tenant(named string) string {
	switch {
	case !c.operator:
		return c.grant.Tenant.GetId()
	case named == "":
		return DefaultTenant
	}
	return named
}

// id is the caller in created_by; empty = the operator.
func (c Caller) id() string {
	if c.operator {
		return ""
	}
	return c.grant.Owner.GetId()
}

// within lowers permissions to what the caller has; nil stays nil.
func (c Caller) within(permissions access.Scope) access.Scope {
	if c.operator || permissions == nil {
		return permissions
	}
	return permissions.Within(c.grant)
}

// level is what the caller holds of a service; of an operator all.
func (c Caller) level(service access.Service) access.Level {
	if c.operator {
		return access.Admin
	}
	return c.grant.Level(service)
}

// lower takes from a user, as they are to be in a project ("" = in the tenant), what neither they had before nor the caller holds.
// It writes the lower level into permissions, which belong to the user.
func (c Caller) lower(before, user *directorypb.User, projectID string, permissions *map[string]string) {
	for _, definition := range access.Definitions() {
		most := max(c.level(definition.Service), access.LevelIn(before, projectID, definition))
		if access.LevelIn(user, projectID, definition) <= most {
			continue
		}
		if *permissions == nil {
			*permissions = map[string]string{}
		}
		(*permissions)[string(definition.Service)] = most.String()
	}
}

// covers says that the caller holds all that a user may do, wherever they are a member.
func (c Caller) covers(user *directorypb.User, groups []*directorypb.Group) bool {
	if c.operator {
		return true
	}
	if user.GetRole() == access.RoleOwner && c.grant.Owner.GetRole() != access.RoleOwner {
		return false
	}
	places := append(slices.Collect(maps.Keys(user.GetMemberships())), "")
	for _, definition := range access.Definitions() {
		for _, projectID := range places {
			level := access.LevelIn(user, projectID, definition, groups...)
			if definition.Service == access.Webhooks && level == access.Write {
				level = access.Read
			}
			if level > c.level(definition.Service) {
				return false
			}
		}
	}
	return true
}

// limit is how many of something the caller's plan allows; bound says whether it limits that at all.
func (c Caller) limit(of func(access.Limits) int) (most int, bound bool) {
	if c.operator {
		return 0, false
	}
	most = of(c.grant.Licence().Limits())
	return most, most != access.Unlimited
}

// missing is a record that does not exist for the caller.
func missing(noun, key string) error { return &collection.MissingError{Noun: noun, Key: key} }
