package token

import (
	"context"

	"parley/actors/core/access"
	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/httpedge/endpoint"
	"parley/httpedge/permission"
	"parley/proto/failurepb"
)

// Permissions decide what a caller may do with a service, see permission.Engine.
type Permissions interface {
	Check(ctx context.Context, caller endpoint.Caller, service access.Service, level access.Level, where permission.Where) *machine.Failure
}

// Permit returns the Permit of the Client API's surfaces (endpoint.Surface): whether a caller may use a route. Its Access is
// "service:level", the licence must have its path, and the tenant's month must have a request left. Without a counter requests
// are not counted.
func Permit(permissions Permissions, counter *Counter) func(ctx context.Context, caller endpoint.Caller, route *endpoint.Route) *machine.Failure {
	return func(ctx context.Context, caller endpoint.Caller, route *endpoint.Route) *machine.Failure {
		if refused := Check(ctx, permissions, caller, route); refused != nil {
			return refused
		}
		if refused := licensed(caller.Grant, route.Path, route.IsEnterprise()); refused != nil || counter == nil || route.IsUncounted() {
			return refused
		}
		return counter.Take(ctx, caller)
	}
}

// Check says whether a caller has the level that a route's Access names, whatever their licence.
func Check(ctx context.Context, permissions Permissions, caller endpoint.Caller, route *endpoint.Route) *machine.Failure {
	service, level := needOf(route)
	if level == access.None {
		return failure.New(failurepb.Code_INTERNAL, failure.AccessWithoutLevel).Param("access", route.Access).Param("path", route.Path)
	}
	return permissions.Check(ctx, caller, service, level, place{route})
}

// place is a route as the permission engine sees it.
type place struct{ of *endpoint.Route }

// Method implements permission.Where.
func (p place) Method() string { return p.of.Method }

// Path implements permission.Where.
func (p place) Path() string { return p.of.Path }

// sent is a request as the permission engine sees it: by its route, so that decisions about it are equal whatever the path names.
type sent struct{ endpoint.Request }

// Path implements permission.Where.
func (s sent) Path() string {
	if routed, is := s.Request.(endpoint.Patterned); is && routed.Pattern() != "" {
		return routed.Pattern()
	}
	return s.Request.Path()
}

// licensed refuses a path that the tenant's licence does not include. An empty path needs no licence; highest paths are those of the
// enterprise areas, however they are called.
func licensed(grant *access.Grant, path string, highest bool) *machine.Failure {
	if path != "" && !grant.Tier().Allows(path) || highest && !grant.Tier().HasEnterprise() {
		return failure.New(failurepb.Code_LICENSE_REQUIRED, failure.NotLicensed)
	}
	return nil
}
