package dashboard

import (
	"context"

	"parley/actors/core/failure"
	"parley/actors/core/identity"
	"parley/proto/failurepb"
)

type acceptInviteInput struct {
	Token    string `json:"token" doc:"Of the invitation"`
	Password string `json:"password"`
	Name     string `json:"name,omitempty" doc:"As invited when it is not given"`
}

// acceptInvite makes somebody who was invited a user who signs in. The invitation is checked before anything is hashed, and decided
// afterwards.
func (a *API) acceptInvite(ctx context.Context, in *acceptInviteInput) (*loginOut, error) {
	if err := a.Sessions.Ready(); err != nil {
		return nil, err
	}
	if in.Token == "" {
		return nil, failure.New(failurepb.Code_VALIDATION, failure.Required).In("token")
	}
	if err := identity.CheckPassword(in.Password); err != nil {
		return nil, err
	}
	if err := a.attempt(ctx, "invite", a.config.Limits.Login, failure.TooManyInvitations); err != nil {
		return nil, err
	}
	if _, err := a.Accounts.Invited(ctx, in.Token); err != nil {
		return nil, err
	}
	hash, err := a.Hasher.Hash(ctx, in.Password)
	if err != nil {
		return nil, err
	}
	user, err := a.Accounts.AcceptInvite(ctx, in.Token, in.Name, hash)
	if err != nil {
		return nil, err
	}
	out, err := a.signIn(ctx, user)
	if err != nil {
		return nil, err
	}
	out.Message = "Invitation accepted"
	return out, nil
}
