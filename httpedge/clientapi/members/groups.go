package members

import (
	"context"

	"parley/actors/core/identity"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/clientapi/render"
	"parley/httpedge/resource"
	"parley/proto/directorypb"
)

type groupSchema struct {
	ID                 string             `json:"id"`
	InternalID         string             `json:"_id"`
	Name               string             `json:"name"`
	Description        *string            `json:"description"`
	TenantRole         *string            `json:"tenantRole"`
	ServicePermissions render.Permissions `json:"servicePermissions"`
	Source             string             `json:"source" enum:"local,synced"`
	ExternalID         *string            `json:"externalId"`
	CreatedBy          *string            `json:"createdBy"`
	CreatedAt          string             `json:"createdAt"`
	UpdatedAt          string             `json:"updatedAt"`
	MemberCount        int                `json:"memberCount"`
}

func (a *api) groupJSON(group *directorypb.Group) groupSchema {
	return groupSchema{
		ID: group.GetId(), InternalID: group.GetId(), Name: group.GetName(), Description: render.Nullable(group.GetDescription()),
		TenantRole: render.Nullable(group.GetTenantRole()), ServicePermissions: render.OwnPermissions(group.GetServicePermissions()),
		Source: "local", CreatedBy: render.Nullable(group.GetCreatedBy()), CreatedAt: render.Time(group.GetCreatedAt()),
		UpdatedAt: render.Time(group.GetUpdatedAt()), MemberCount: a.Accounts.GroupSize(group.GetId()),
	}
}

type groupListOut struct {
	Groups []groupSchema `json:"groups"`
}

func (a *api) listGroups(ctx context.Context, _ *nothing) (*groupListOut, error) {
	groups, err := a.Accounts.ListGroups(caller(ctx))
	if err != nil {
		return nil, handler.RecordError(err)
	}
	out := &groupListOut{Groups: []groupSchema{}}
	for _, group := range groups {
		out.Groups = append(out.Groups, a.groupJSON(group))
	}
	return out, nil
}

type groupOut struct {
	Group groupSchema `json:"group"`
}

type groupMembersOut struct {
	Group   groupSchema         `json:"group"`
	Members []render.UserSchema `json:"members"`
}

func (a *api) getGroup(ctx context.Context, in *oneInput) (*groupMembersOut, error) {
	group, members, err := a.Accounts.Group(ctx, caller(ctx), in.ID)
	if err != nil {
		return nil, handler.RecordError(err)
	}
	return &groupMembersOut{Group: a.groupJSON(group), Members: render.Users(members)}, nil
}

// groupFields are those of a group that are chosen.
type groupFields struct {
	Name               resource.Given[string]   `json:"name"`
	Description        resource.Given[string]   `json:"description"`
	TenantRole         resource.Given[string]   `json:"tenantRole" doc:"user, project_admin, admin, or null"`
	ServicePermissions handler.PermissionsInput `json:"servicePermissions"`
}

func (f *groupFields) change() identity.GroupChange {
	return identity.GroupChange{
		Name: f.Name.Pointer(), Description: f.Description.Pointer(), TenantRole: f.TenantRole.Pointer(),
		Permissions: f.ServicePermissions.Pointer(),
	}
}

func (a *api) createGroup(ctx context.Context, in *groupFields) (*groupOut, error) {
	return a.oneGroup(a.Accounts.CreateGroup(ctx, caller(ctx), in.change()))
}

type updateGroupInput struct {
	groupFields

	ID string `path:"id"`
}

func (a *api) updateGroup(ctx context.Context, in *updateGroupInput) (*groupOut, error) {
	return a.oneGroup(a.Accounts.UpdateGroup(ctx, caller(ctx), in.ID, in.change()))
}

func (a *api) oneGroup(group *directorypb.Group, err error) (*groupOut, error) {
	if err != nil {
		return nil, handler.RecordError(err)
	}
	return &groupOut{Group: a.groupJSON(group)}, nil
}

func (a *api) deleteGroup(ctx context.Context, in *oneInput) (*handler.Success, error) {
	return handler.Deleted(a.Accounts.DeleteGroup(ctx, caller(ctx), in.ID))
}

type addToGroupInput struct {
	ID     string `path:"id"`
	UserID string `json:"userId"`
}

func (a *api) addToGroup(ctx context.Context, in *addToGroupInput) (*groupMembersOut, error) {
	if in.UserID == "" {
		return nil, required("userId")
	}
	if err := a.Accounts.AddToGroup(ctx, caller(ctx), in.ID, in.UserID); err != nil {
		return nil, handler.RecordError(err)
	}
	return a.getGroup(ctx, &oneInput{ID: in.ID})
}

type removeFromGroupInput struct {
	ID     string `path:"id"`
	Query  string `query:"userId"`
	UserID string `json:"userId"`
}

func (a *api) removeFromGroup(ctx context.Context, in *removeFromGroupInput) (*handler.Success, error) {
	userID, err := named(in.UserID, in.Query)
	if err != nil {
		return nil, err
	}
	return handler.Deleted(a.Accounts.RemoveFromGroup(ctx, caller(ctx), in.ID, userID))
}
