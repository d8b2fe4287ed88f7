package webhooks

import (
	"parley/actors/core/access"
	"parley/actors/core/failure"
	"parley/actors/core/subscription"
	"parley/httpedge/endpoint"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

// Tokens is the side of API tokens: a token manages the endpoints of its own project only, whoever owns it (document 1,
// "Authentication", 9).
type Tokens struct{}

// Reach implements Side.
func (Tokens) Reach(caller endpoint.Caller) subscription.Reach {
	return subscription.Project(caller.TenantID, caller.ProjectID)
}

// Creator implements Side.
func (Tokens) Creator(caller endpoint.Caller, project string, whole bool) (subscription.Creator, error) {
	if whole || project != "" && project != caller.ProjectID {
		return subscription.Creator{}, failure.New(failurepb.Code_FORBIDDEN, failure.ForeignWebhookProject)
	}
	return subscription.Creator{TenantID: caller.TenantID, ProjectID: caller.ProjectID, UserID: caller.UserID}, nil
}

// Sessions is the side of signed-in users: owners and admins manage all endpoints of their tenant, others those of the projects that
// they are members of.
type Sessions struct {
	// Projects lists the projects of a tenant.
	Projects func(tenantID string) ([]*directorypb.Project, error)
}

// Reach implements Side.
func (Sessions) Reach(caller endpoint.Caller) subscription.Reach {
	return subscription.Reach{TenantID: caller.TenantID, Sees: func(projectID string) bool { return manages(caller, projectID) }}
}

// manages says whether a user manages the endpoints of a project of the tenant; "" = those that hear every project.
func manages(caller endpoint.Caller, projectID string) bool {
	return caller.Grant.Administrates() ||
		projectID != "" && (projectID == caller.ProjectID || caller.Grant != nil && access.MemberOf(caller.Grant.Owner, projectID))
}

// Creator implements Side.
func (s Sessions) Creator(caller endpoint.Caller, project string, whole bool) (subscription.Creator, error) {
	creator := subscription.Creator{TenantID: caller.TenantID, ProjectID: caller.ProjectID, UserID: caller.UserID}
	foreign := failure.New(failurepb.Code_FORBIDDEN, failure.ForeignWebhookProject)
	switch {
	case whole && !caller.Grant.Administrates():
		return creator, foreign
	case !whole && project == "" && caller.ProjectID == "":
		return creator, foreign // of a user whose project is gone: without one it would hear the whole tenant
	case whole || project == "" || project == caller.ProjectID:
		return creator, nil
	case !manages(caller, project):
		return creator, foreign
	}
	projects, err := s.Projects(caller.TenantID)
	if err != nil {
		return creator, err
	}
	for _, known := range projects {
		if known.GetId() == project {
			creator.ProjectID = project
			return creator, nil
		}
	}
	return creator, foreign
}
