package console

import (
	"context"

	"parley/actors/core/access"
	"parley/httpedge/endpoint"
)

type levelsOut struct {
	Role   string       `json:"role" doc:"In the project"`
	Levels access.Scope `json:"levels" doc:"By service: none, read, write, admin. A permission engine outside may refuse more"`
}

// levels lets pages leave out what somebody may not do.
func (a *api) levels(ctx context.Context, _ *struct{}) (*levelsOut, error) {
	grant := endpoint.CallerFrom(ctx).Grant
	return &levelsOut{Role: grant.Role(), Levels: grant.Scope()}, nil
}
