package token

import (
	"context"

	"parley/actors/core/access"
	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/httpedge/endpoint"
	"parley/proto/failurepb"
)

// Permit returns what decides on the Client API's surfaces (endpoint.Surface) whether a caller may use a route: its Access is
// "service:level", the licence must have its path, and the tenant's month must have a request left. Without a counter requests
// are not counted.
func Permit(counter *Counter) func(ctx context.Context, caller endpoint.Caller, row *endpoint.Row) *machine.Failure {
	return func(ctx context.Context, caller endpoint.Caller, row *endpoint.Row) *machine.Failure {
		service, level := needOf(row)
		if level == access.None {
			return failure.New(failurepb.Code_INTERNAL, failure.AccessWithoutLevel).Param("access", row.Access).Param("path", row.Path)
		}
		if refused := permitted(caller.Grant, service, level, row.Path); refused != nil || counter == nil {
			return refused
		}
		return counter.Take(ctx, caller)
	}
}

// permitted refuses what a grant or its licence does not give. Without a path the licence is not asked.
func permitted(grant *access.Grant, service access.Service, level access.Level, path string) *machine.Failure {
	if grant.Level(service) < level {
		return forbidden(service, level)
	}
	if path != "" && !grant.Tier().Allows(path) {
		return failure.New(failurepb.Code_LICENSE_REQUIRED, failure.NotLicensed)
	}
	return nil
}

func forbidden(service access.Service, level access.Level) *machine.Failure {
	return failure.New(failurepb.Code_FORBIDDEN, failure.PermissionMissing).Param("service", service).Param("level", level)
}
