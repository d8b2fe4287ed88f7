package members

import (
	"context"

	"parley/actors/core/identity"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/clientapi/render"
	"parley/httpedge/endpoint"
	"parley/httpedge/resource"
	"parley/proto/directorypb"
)

type projectSchema struct {
	ID          string  `json:"id"`
	InternalID  string  `json:"_id"`
	Key         string  `json:"key"`
	Name        string  `json:"name"`
	Description *string `json:"description"`
	CreatedAt   string  `json:"createdAt"`
	UpdatedAt   string  `json:"updatedAt"`
}

func projectJSON(project *directorypb.Project) projectSchema {
	return projectSchema{
		ID: project.GetId(), InternalID: project.GetId(), Key: project.GetKey(), Name: project.GetName(),
		Description: render.Nullable(project.GetDescription()), CreatedAt: render.Time(project.GetCreatedAt()),
		UpdatedAt: render.Time(max(project.GetUpdatedAt(), project.GetCreatedAt())),
	}
}

type projectListOut struct {
	Projects []projectSchema `json:"projects"`
}

func (a *api) listProjects(ctx context.Context, _ *nothing) (*projectListOut, error) {
	projects, err := a.Accounts.OwnProjects(endpoint.CallerFrom(ctx).Grant)
	if err != nil {
		return nil, handler.RecordError(err)
	}
	out := &projectListOut{Projects: []projectSchema{}}
	for _, project := range projects {
		out.Projects = append(out.Projects, projectJSON(project))
	}
	return out, nil
}

type projectOut struct {
	Project projectSchema `json:"project"`
}

type createProjectInput struct {
	Name        string `json:"name"`
	Key         string `json:"key" doc:"Made of the name when it is not given; unique in the tenant"`
	Description string `json:"description"`
}

func (a *api) createProject(ctx context.Context, in *createProjectInput) (*projectOut, error) {
	return oneProject(a.Accounts.CreateProject(ctx, caller(ctx), identity.NewProject{Key: in.Key, Name: in.Name, Description: in.Description}))
}

type projectInput struct {
	ProjectID string `path:"projectId"`
}

type updateProjectInput struct {
	ProjectID   string                 `path:"projectId"`
	Name        resource.Given[string] `json:"name"`
	Description resource.Given[string] `json:"description"`
}

func (a *api) updateProject(ctx context.Context, in *updateProjectInput) (*projectOut, error) {
	return oneProject(a.Accounts.UpdateProject(ctx, caller(ctx), in.ProjectID, in.Name.Pointer(), in.Description.Pointer()))
}

func oneProject(project *directorypb.Project, err error) (*projectOut, error) {
	if err != nil {
		return nil, handler.RecordError(err)
	}
	return &projectOut{Project: projectJSON(project)}, nil
}

func (a *api) deleteProject(ctx context.Context, in *projectInput) (*handler.Success, error) {
	return handler.Deleted(a.Accounts.DeleteProject(ctx, caller(ctx), in.ProjectID))
}

type projectMemberSchema struct {
	UserID             string             `json:"userId"`
	Name               string             `json:"name"`
	Email              *string            `json:"email"`
	TenantRole         string             `json:"tenantRole"`
	Role               string             `json:"role" enum:"project_admin,member"`
	ServicePermissions render.Permissions `json:"servicePermissions"`
	Inherited          bool               `json:"inherited" doc:"A member by the role in the tenant: there is nothing to remove"`
}

func projectMemberJSON(member identity.ProjectMember) projectMemberSchema {
	user := member.User
	return projectMemberSchema{
		UserID: user.GetId(), Name: user.GetName(), Email: render.Nullable(user.GetEmail()), TenantRole: user.GetRole(), Role: member.Role,
		ServicePermissions: render.OwnPermissions(member.Membership.GetServicePermissions()), Inherited: member.Inherited,
	}
}

type projectMembersInput struct {
	ProjectID string `path:"projectId"`
	Limit     int    `query:"limit"`
	Offset    int    `query:"offset"`
}

type projectMembersOut struct {
	Members    []projectMemberSchema `json:"members"`
	Pagination resource.Pagination   `json:"pagination"`
}

func (a *api) listProjectMembers(ctx context.Context, in *projectMembersInput) (*projectMembersOut, error) {
	members, total, err := a.Accounts.ProjectMembers(ctx, caller(ctx), in.ProjectID, in.Limit, in.Offset)
	if err != nil {
		return nil, handler.RecordError(err)
	}
	out := &projectMembersOut{Members: []projectMemberSchema{}, Pagination: resource.Paginate(in.Limit, in.Offset, total)}
	for _, member := range members {
		out.Members = append(out.Members, projectMemberJSON(member))
	}
	return out, nil
}

type projectMemberOut struct {
	Member projectMemberSchema `json:"member"`
}

type projectMemberInput struct {
	ProjectID          string                   `path:"projectId"`
	UserID             string                   `json:"userId"`
	Role               string                   `json:"role" doc:"project_admin or member"`
	ServicePermissions handler.PermissionsInput `json:"servicePermissions"`
}

func (in *projectMemberInput) change() identity.MembershipChange {
	return identity.MembershipChange{Role: in.Role, Permissions: in.ServicePermissions.Pointer()}
}

func (a *api) addProjectMember(ctx context.Context, in *projectMemberInput) (*projectMemberOut, error) {
	if in.UserID == "" {
		return nil, required("userId")
	}
	return oneMember(a.Accounts.AddProjectMember(ctx, caller(ctx), in.ProjectID, in.UserID, in.change()))
}

func (a *api) updateProjectMember(ctx context.Context, in *projectMemberInput) (*projectMemberOut, error) {
	if in.UserID == "" {
		return nil, required("userId")
	}
	return oneMember(a.Accounts.UpdateProjectMember(ctx, caller(ctx), in.ProjectID, in.UserID, in.change()))
}

type projectPermissionsInput struct {
	ProjectID          string                   `path:"projectId"`
	UserID             string                   `json:"userId"`
	ServicePermissions handler.PermissionsInput `json:"servicePermissions"`
}

func (a *api) setProjectPermissions(ctx context.Context, in *projectPermissionsInput) (*projectMemberOut, error) {
	switch {
	case in.UserID == "":
		return nil, required("userId")
	case !in.ServicePermissions.Present:
		return nil, required("servicePermissions")
	}
	return oneMember(a.Accounts.UpdateProjectMember(ctx, caller(ctx), in.ProjectID, in.UserID, identity.MembershipChange{
		Permissions: in.ServicePermissions.Pointer(),
	}))
}

func oneMember(member identity.ProjectMember, err error) (*projectMemberOut, error) {
	if err != nil {
		return nil, handler.RecordError(err)
	}
	return &projectMemberOut{Member: projectMemberJSON(member)}, nil
}

type removeProjectMemberInput struct {
	ProjectID string `path:"projectId"`
	Query     string `query:"userId"`
	UserID    string `json:"userId"`
}

func (a *api) removeProjectMember(ctx context.Context, in *removeProjectMemberInput) (*handler.Success, error) {
	userID, err := named(in.UserID, in.Query)
	if err != nil {
		return nil, err
	}
	return handler.Deleted(a.Accounts.RemoveProjectMember(ctx, caller(ctx), in.ProjectID, userID))
}
