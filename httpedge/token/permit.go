package token

import (
	"context"
	"strings"

	"parley/actors/machine"
	"parley/httpedge/access"
	"parley/httpedge/endpoint"
	"parley/proto/failurepb"
)

const textUnlicensed = "This feature is not available in your license"

// Permit returns what decides on the Client API's surfaces (endpoint.Surface) whether a caller may use a route: its Access is
// "service:level", the licence must have its path, and the tenant's month must have a request left. Without a counter requests
// are not counted.
func Permit(counter *Counter) func(ctx context.Context, caller endpoint.Caller, row *endpoint.Row) *machine.Failure {
	return func(ctx context.Context, caller endpoint.Caller, row *endpoint.Row) *machine.Failure {
		service, text, _ := strings.Cut(row.Access, ":")
		level, ok := access.ParseLevel(text)
		if !ok || level == access.None {
			return machine.Fail(failurepb.Code_INTERNAL, "access %q of %s names no level", row.Access, row.Path)
		}
		if caller.Grant.Level(access.Service(service)) < level {
			return forbidden(access.Service(service), level)
		}
		if !caller.Grant.Tier().Allows(row.Path) {
			return machine.Fail(failurepb.Code_LICENSE_REQUIRED, textUnlicensed)
		}
		if counter == nil {
			return nil
		}
		return counter.Take(ctx, caller)
	}
}

func forbidden(service access.Service, level access.Level) *machine.Failure {
	return machine.Fail(failurepb.Code_FORBIDDEN, "Forbidden: %s requires %s permission", service, level)
}
