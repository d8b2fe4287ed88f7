package clientapi

import (
	"context"

	"parley/actors/core/access"
	"parley/actors/core/identity"
	"parley/actors/machine"
	"parley/httpedge/endpoint"
	"parley/httpedge/endpoint/wire"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

// permissionsInput is servicePermissions in any of the forms that access.Parse knows.
type permissionsInput struct {
	given bool
	scope access.Scope
}

// UnmarshalJSON refuses what is none of those forms.
func (p *permissionsInput) UnmarshalJSON(raw []byte) (err error) {
	if p.scope, p.given, err = access.Parse(raw); err != nil {
		return machine.Fail(failurepb.Code_VALIDATION, "%s", err.Error())
	}
	return nil
}

// Described implements openapi.Described.
func (p permissionsInput) Described() (value any, nullable bool) { return map[string]any{}, true }

// permissions is servicePermissions in an answer; null = what the role gives, or what the owner may.
type permissions map[string]string

// Described implements openapi.Described.
func (p permissions) Described() (value any, nullable bool) { return map[string]any{}, true }

type userListInput struct {
	Limit  int `query:"limit"`
	Offset int `query:"offset"`
}

type userSchema struct {
	ID                 string      `json:"id"`
	InternalID         string      `json:"_id"`
	Name               string      `json:"name"`
	Email              *string     `json:"email"`
	Role               string      `json:"role"`
	CanLogin           bool        `json:"canLogin"`
	ServicePermissions permissions `json:"servicePermissions"`
	ProjectIDs         []string    `json:"projectIds"`
	InvitedBy          *string     `json:"invitedBy"`
	InvitedAt          *string     `json:"invitedAt"`
	InviteAcceptedAt   *string     `json:"inviteAcceptedAt"`
	CreatedAt          string      `json:"createdAt"`
	UpdatedAt          string      `json:"updatedAt"`
}

// paginationSchema says where a page stands that is asked for by offset.
type paginationSchema struct {
	Limit   int  `json:"limit"`
	Offset  int  `json:"offset"`
	HasMore bool `json:"hasMore"`
}

type oneUserOut struct {
	User userSchema `json:"user"`
}

type userListOut struct {
	Users      []userSchema     `json:"users"`
	Pagination paginationSchema `json:"pagination"`
}

func (a *API) listUsers(ctx context.Context, in *userListInput) (*userListOut, error) {
	users, total, err := a.Accounts.PageUsers(bearer(ctx), in.Limit, in.Offset)
	if err != nil {
		return nil, recordError(err)
	}
	out := &userListOut{Users: []userSchema{}, Pagination: pagination(in.Limit, in.Offset, total)}
	for _, user := range users {
		out.Users = append(out.Users, userJSON(user))
	}
	return out, nil
}

// bearer is the holder of the request's API token.
func bearer(ctx context.Context) identity.Caller {
	return identity.Bearer(endpoint.CallerFrom(ctx).Grant)
}

type createUserInput struct {
	Name               string           `json:"name"`
	Role               string           `json:"role"`
	Email              string           `json:"email"`
	ProjectID          string           `json:"projectId"`
	ServicePermissions permissionsInput `json:"servicePermissions"`
}

// createUser creates a user who owns tokens and never signs in, whatever the body says about that.
func (a *API) createUser(ctx context.Context, in *createUserInput) (*oneUserOut, error) {
	user, err := a.Accounts.CreateUser(ctx, bearer(ctx), identity.NewUser{
		Name: in.Name, Role: in.Role, Email: in.Email, ProjectID: in.ProjectID, Permissions: in.ServicePermissions.scope,
	})
	if err != nil {
		return nil, recordError(err)
	}
	return &oneUserOut{User: userJSON(user)}, nil
}

func userJSON(user *directorypb.User) userSchema {
	own := permissions(user.GetServicePermissions())
	if len(own) == 0 { // nothing beyond the role, however that came about
		own = nil
	}
	return userSchema{
		ID: user.GetId(), InternalID: user.GetId(), Name: user.GetName(), Email: nullable(user.GetEmail()), Role: user.GetRole(),
		CanLogin: user.GetCanLogin(), ServicePermissions: own,
		ProjectIDs: append([]string{}, user.GetProjectIds()...), InvitedBy: nullable(user.GetCreatedBy()),
		CreatedAt: timeText(user.GetCreatedAt()), UpdatedAt: timeText(user.GetUpdatedAt()),
	}
}

// nullable is a text that is null when it is empty.
func nullable(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// timeText is a time as the wire has it, without the quotes.
func timeText(unixMilli int64) string {
	quoted := wire.AppendTime(nil, unixMilli)
	return string(quoted[1 : len(quoted)-1])
}

// nullableTime is a time that is null when it is 0.
func nullableTime(unixMilli int64) *string {
	if unixMilli == 0 {
		return nil
	}
	return nullable(timeText(unixMilli))
}
