package members

import (
	"cmp"
	"context"

	"parley/actors/core/access"
	"parley/actors/core/failure"
	"parley/actors/core/identity"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/clientapi/render"
	"parley/httpedge/resource"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

type nothing struct{}

type pageInput struct {
	Limit  int `query:"limit"`
	Offset int `query:"offset"`
}

type userOut struct {
	User render.UserSchema `json:"user"`
}

type userListOut struct {
	Users      []render.UserSchema `json:"users"`
	Pagination resource.Pagination `json:"pagination"`
}

func (a *api) list(ctx context.Context, in *pageInput) (*userListOut, error) {
	users, total, err := a.Accounts.PageUsers(caller(ctx), in.Limit, in.Offset)
	if err != nil {
		return nil, handler.RecordError(err)
	}
	return &userListOut{Users: render.Users(users), Pagination: resource.Paginate(in.Limit, in.Offset, total)}, nil
}

type serviceSchema struct {
	ID           string `json:"id"`
	Label        string `json:"label"`
	Description  string `json:"description"`
	Category     string `json:"category" enum:"build,data,operate,admin"`
	AdminService bool   `json:"adminService,omitempty" doc:"By default for owners and admins only; whatever changes something takes admin"`
}

type serviceListOut struct {
	Levels   []string        `json:"levels"`
	Services []serviceSchema `json:"services"`
}

func (*api) listServices(context.Context, *nothing) (*serviceListOut, error) {
	out := &serviceListOut{}
	for level := access.None; level <= access.Admin; level++ {
		out.Levels = append(out.Levels, level.String())
	}
	for _, definition := range access.Definitions() {
		label := definition.Label()
		out.Services = append(out.Services, serviceSchema{
			ID: string(definition.Service), Label: label, Description: "Permissions for " + label, Category: definition.Category,
			AdminService: definition.Administration,
		})
	}
	return out, nil
}

type inviteInput struct {
	Name               string                   `json:"name"`
	Email              string                   `json:"email"`
	Role               string                   `json:"role" enum:"user,project_admin,admin"`
	ProjectID          string                   `json:"projectId" doc:"Of which they become a member; the active one when it is not given"`
	ServicePermissions handler.PermissionsInput `json:"servicePermissions"`
}

// inviteSchema is shown once.
type inviteSchema struct {
	Token     string  `json:"token" doc:"For POST /api/auth/accept-invite; good once"`
	URL       *string `json:"url" doc:"Where it is accepted; null when the server does not know its own address"`
	ExpiresAt string  `json:"expiresAt"`
}

type invitedOut struct {
	User   render.UserSchema `json:"user"`
	Invite inviteSchema      `json:"invite"`
}

func (a *api) invite(ctx context.Context, in *inviteInput) (*invitedOut, error) {
	user, secret, err := a.Accounts.Invite(ctx, caller(ctx), identity.Invitation{
		Name: in.Name, Email: in.Email, Role: in.Role, ProjectID: in.ProjectID, Permissions: in.ServicePermissions.Scope,
	})
	return a.invited(user, secret, err)
}

type oneInput struct {
	ID string `path:"id"`
}

func (a *api) inviteAgain(ctx context.Context, in *oneInput) (*invitedOut, error) {
	user, secret, err := a.Accounts.InviteAgain(ctx, caller(ctx), in.ID)
	return a.invited(user, secret, err)
}

func (a *api) invited(user *directorypb.User, secret string, err error) (*invitedOut, error) {
	if err != nil {
		return nil, handler.RecordError(err)
	}
	out := &invitedOut{User: render.User(user), Invite: inviteSchema{Token: secret, ExpiresAt: render.Time(user.GetInvite().GetExpiresAt())}}
	if a.InviteLink != nil {
		out.Invite.URL = render.Nullable(a.InviteLink(secret))
	}
	return out, nil
}

type updateInput struct {
	ID       string               `path:"id"`
	Name     resource.Set[string] `json:"name"`
	Role     resource.Set[string] `json:"role" enum:"user,project_admin,admin,owner" doc:"owner by an owner only"`
	CanLogin resource.Set[bool]   `json:"canLogin"`
}

func (a *api) update(ctx context.Context, in *updateInput) (*userOut, error) {
	return a.change(ctx, in.ID, identity.UserChange{Name: in.Name.Value(), Role: in.Role.Value(), CanLogin: in.CanLogin.Pointer()})
}

type permissionsInput struct {
	ID                 string                   `path:"id"`
	ServicePermissions handler.PermissionsInput `json:"servicePermissions"`
}

func (a *api) setPermissions(ctx context.Context, in *permissionsInput) (*userOut, error) {
	scope := in.ServicePermissions.Pointer()
	if scope == nil {
		return nil, required("servicePermissions")
	}
	return a.change(ctx, in.ID, identity.UserChange{Permissions: *scope})
}

func required(field string) error {
	return failure.New(failurepb.Code_VALIDATION, failure.Required).In(field)
}

func (a *api) change(ctx context.Context, id string, change identity.UserChange) (*userOut, error) {
	user, err := a.Accounts.UpdateUser(ctx, caller(ctx), id, change)
	if err != nil {
		return nil, handler.RecordError(err)
	}
	return &userOut{User: render.User(user)}, nil
}

func (a *api) remove(ctx context.Context, in *oneInput) (*handler.Success, error) {
	return handler.Deleted(a.Accounts.DeleteUser(ctx, caller(ctx), in.ID))
}

// named is the user whom a body names, or the query of a DELETE: some clients send no body with it.
func named(body, query string) (string, error) {
	if id := cmp.Or(body, query); id != "" {
		return id, nil
	}
	return "", required("userId")
}
