package handler

import (
	"parley/actors/core/access"
	"parley/actors/core/failure"
	"parley/proto/failurepb"
)

// PermissionsInput is servicePermissions in any of the forms that access.Parse knows.
type PermissionsInput struct {
	Present bool // maybe null
	Given   bool // and not null
	Scope   access.Scope
}

// UnmarshalJSON refuses what is none of those forms.
func (p *PermissionsInput) UnmarshalJSON(raw []byte) (err error) {
	p.Present = true
	if p.Scope, p.Given, err = access.Parse(raw); err != nil {
		return failure.New(failurepb.Code_VALIDATION, failure.BadPermissions).In("servicePermissions")
	}
	return nil
}

// Described implements openapi.Described.
func (p PermissionsInput) Described() (value any, nullable bool) { return map[string]any{}, true }

// Pointer is the scope, an empty one for null, and nil when the field is absent.
func (p PermissionsInput) Pointer() *access.Scope {
	if !p.Present {
		return nil
	}
	if p.Scope == nil {
		return &access.Scope{}
	}
	return &p.Scope
}
