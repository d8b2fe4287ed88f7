package identity

import (
	"parley/actors/core/quota"
	"parley/proto/directorypb"
)

// Users and projects are the tenant's: policies of one project bound them as policies of all do. Projects do not say who made them, so
// policies of a user bound none.

// room refuses one more of a tenant's records when a quota policy says so. It is for what decides in collection.Create, of callers that a
// plan binds.
func room[T any](a *Accounts, tenantID string, kept quota.Kept[T], made T) error {
	if a.env.Policies == nil {
		return nil
	}
	kept.Term = tenantTerm(tenantID)
	return kept.Room(a.env.Policies(tenantID), made)
}

func (a *Accounts) projectRoom(project *directorypb.Project) error {
	return room(a, project.GetTenantId(), quota.Kept[*directorypb.Project]{
		Records: a.projects, What: Projects, Quota: quota.MaxProjects, Of: func(*directorypb.Project) quota.Thing { return quota.Thing{} },
	}, project)
}

func (a *Accounts) userRoom(user *directorypb.User) error {
	return room(a, user.GetTenantId(), quota.Kept[*directorypb.User]{
		Records: a.users, What: Users, Quota: quota.MaxUsers, Of: func(u *directorypb.User) quota.Thing { return quota.Thing{UserID: u.GetCreatedBy()} },
	}, user)
}

func (a *Accounts) tokenRoom(token *directorypb.Token) error {
	return room(a, token.GetTenantId(), quota.Kept[*directorypb.Token]{
		Records: a.tokens, What: "apiTokens", Quota: quota.MaxAPITokens, Of: func(t *directorypb.Token) quota.Thing {
			return quota.Thing{ProjectID: t.GetProjectId(), UserID: t.GetUserId()}
		},
	}, token)
}
