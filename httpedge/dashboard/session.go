package dashboard

import (
	"cmp"
	"context"

	"parley/actors/core/access"
	"parley/actors/core/failure"
	"parley/actors/core/identity"
	"parley/httpedge/endpoint"
	"parley/proto/failurepb"
)

type sessionOut struct {
	Authenticated      bool        `json:"authenticated"`
	MustChangePassword bool        `json:"mustChangePassword"`
	ProjectCount       int         `json:"projectCount"`
	UserID             string      `json:"userId"`
	Role               string      `json:"role"`
	ServicePermissions permissions `json:"servicePermissions"`
	SecondFactor       bool        `json:"secondFactor" doc:"Whether a code is asked for at the sign-in"`
}

// session says who is signed in.
func (a *API) session(ctx context.Context, _ *empty) (*sessionOut, error) {
	grant := endpoint.CallerFrom(ctx).Grant
	user := grant.Owner
	projects, err := a.Accounts.ProjectCount(user)
	if err != nil {
		return nil, err
	}
	return &sessionOut{
		Authenticated: true, MustChangePassword: user.GetSignIn().GetMustChange(), ProjectCount: projects, UserID: user.GetId(),
		Role: access.RoleIn(user, "", grant.Groups...), ServicePermissions: ownPermissions(user),
		SecondFactor: identity.AsksForCode(user),
	}, nil
}

type successOut struct {
	Success bool `json:"success"`
}

type endSessionsInput struct {
	UserID string `json:"userId,omitempty" doc:"Whose sessions; one's own when it is not given"`
}

// endSessions ends all sessions of a user on all nodes. Whoever ends their own is signed out, too.
func (a *API) endSessions(ctx context.Context, in *endSessionsInput) (*successOut, error) {
	caller := endpoint.CallerFrom(ctx)
	userID := cmp.Or(in.UserID, caller.UserID)
	if _, err := a.Accounts.EndSessions(ctx, identity.Bearer(caller.Grant), userID); err != nil {
		return nil, err
	}
	if userID == caller.UserID {
		a.Sessions.End(ctx)
	}
	return &successOut{Success: true}, nil
}

type changePasswordInput struct {
	CurrentPassword string `json:"currentPassword"`
	NewPassword     string `json:"newPassword"`
}

// changePassword ends all sessions of the user but this one, which goes on under a new cookie.
func (a *API) changePassword(ctx context.Context, in *changePasswordInput) (*successOut, error) {
	user := endpoint.CallerFrom(ctx).Grant.Owner
	if err := identity.CheckPassword(in.NewPassword); err != nil {
		return nil, err
	}
	// Whoever has a stolen session may not guess the password with it.
	if err := a.checkOwnPassword(ctx, user, in.CurrentPassword); err != nil {
		return nil, err
	}
	hash, err := a.Hasher.Hash(ctx, in.NewPassword)
	if err != nil {
		return nil, err
	}
	changed, err := a.Accounts.ChangePassword(ctx, user.GetId(), user.GetSignIn().GetGeneration(), hash)
	if err != nil {
		return nil, err
	}
	_, err = a.begin(ctx, changed)
	return &successOut{Success: true}, err
}

type chooseProjectInput struct {
	ProjectID string `json:"projectId"`
}

// chooseProject sets the project in which later requests act.
func (a *API) chooseProject(ctx context.Context, in *chooseProjectInput) (*successOut, error) {
	if in.ProjectID == "" {
		return nil, failure.New(failurepb.Code_VALIDATION, failure.Required).In("projectId")
	}
	project, err := a.Accounts.ChooseProject(endpoint.CallerFrom(ctx).Grant.Owner, in.ProjectID)
	if err != nil {
		return nil, err
	}
	a.Sessions.SetProject(ctx, project.GetId())
	return &successOut{Success: true}, nil
}
