package users

import (
	"context"

	"parley/actors/core/identity"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/clientapi/render"
	"parley/httpedge/endpoint"
	"parley/httpedge/resource"
)

type userListInput struct {
	Limit  int `query:"limit"`
	Offset int `query:"offset"`
}

type oneUserOut struct {
	User render.UserSchema `json:"user"`
}

type userListOut struct {
	Users      []render.UserSchema `json:"users"`
	Pagination resource.Pagination `json:"pagination"`
}

func (a *api) listUsers(ctx context.Context, in *userListInput) (*userListOut, error) {
	users, total, err := a.Accounts.PageUsers(bearer(ctx), in.Limit, in.Offset)
	if err != nil {
		return nil, handler.RecordError(err)
	}
	return &userListOut{Users: render.Users(users), Pagination: resource.Paginate(in.Limit, in.Offset, total)}, nil
}

// bearer is the holder of the request's API token.
func bearer(ctx context.Context) identity.Caller {
	return identity.Bearer(endpoint.CallerFrom(ctx).Grant)
}

type createUserInput struct {
	Name               string                   `json:"name"`
	Role               string                   `json:"role"`
	Email              string                   `json:"email"`
	ProjectID          string                   `json:"projectId"`
	ServicePermissions handler.PermissionsInput `json:"servicePermissions"`
}

// createUser creates a user who owns tokens and never signs in, whatever the body says about that.
func (a *api) createUser(ctx context.Context, in *createUserInput) (*oneUserOut, error) {
	user, err := a.Accounts.CreateUser(ctx, bearer(ctx), identity.NewUser{
		Name: in.Name, Role: in.Role, Email: in.Email, ProjectID: in.ProjectID, Permissions: in.ServicePermissions.Scope,
	})
	if err != nil {
		return nil, handler.RecordError(err)
	}
	return &oneUserOut{User: render.User(user)}, nil
}
