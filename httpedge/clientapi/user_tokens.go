package clientapi

import (
	"context"

	"parley/actors/core/identity"
	"parley/proto/directorypb"
)

type userTokenListInput struct {
	ID     string `path:"id"`
	Limit  int    `query:"limit"`
	Offset int    `query:"offset"`
}

// userTokenSchema is a token without its secret.
type userTokenSchema struct {
	ID                 string      `json:"id"`
	InternalID         string      `json:"_id"`
	UserID             string      `json:"userId"`
	ProjectID          string      `json:"projectId"`
	Label              string      `json:"label"`
	TokenPrefix        string      `json:"tokenPrefix"`
	ServicePermissions permissions `json:"servicePermissions"`
	LastUsed           *string     `json:"lastUsed"`
	CreatedAt          string      `json:"createdAt"`
	ExpiresAt          *string     `json:"expiresAt"`
}

type userTokenListOut struct {
	Tokens     []userTokenSchema `json:"tokens"`
	Pagination paginationSchema  `json:"pagination"`
}

func (a *API) listUserTokens(ctx context.Context, in *userTokenListInput) (*userTokenListOut, error) {
	tokens, total, err := a.Accounts.PageTokens(ctx, bearer(ctx), in.ID, in.Limit, in.Offset)
	if err != nil {
		return nil, recordError(err)
	}
	out := &userTokenListOut{Tokens: []userTokenSchema{}, Pagination: pagination(in.Limit, in.Offset, total)}
	for _, t := range tokens {
		out.Tokens = append(out.Tokens, userTokenSchema{
			ID: t.GetId(), InternalID: t.GetId(), UserID: t.GetUserId(), ProjectID: t.GetProjectId(), Label: t.GetLabel(),
			TokenPrefix: t.GetPrefix(), ServicePermissions: scopeOf(t), LastUsed: nullableTime(a.Accounts.LastUse(t.GetId())),
			CreatedAt: timeText(t.GetCreatedAt()), ExpiresAt: nullableTime(t.GetExpiresAt()),
		})
	}
	return out, nil
}

type createUserTokenInput struct {
	ID                 string           `path:"id"`
	Label              string           `json:"label"`
	ServicePermissions permissionsInput `json:"servicePermissions"`
	ProjectID          string           `json:"projectId"`
	ExpiresAt          string           `json:"expiresAt"`
}

// createdUserTokenOut is a new token, the only time with its secret.
type createdUserTokenOut struct {
	ID                 string      `json:"id"`
	Label              string      `json:"label"`
	ServicePermissions permissions `json:"servicePermissions"`
	ProjectID          string      `json:"projectId"`
	ExpiresAt          *string     `json:"expiresAt"`
	CreatedAt          string      `json:"createdAt"`
	Token              string      `json:"token"`
	Message            string      `json:"message"`
}

func (a *API) createUserToken(ctx context.Context, in *createUserTokenInput) (*createdUserTokenOut, error) {
	secret, t, err := a.Accounts.CreateToken(ctx, bearer(ctx), identity.NewToken{
		UserID: in.ID, ProjectID: in.ProjectID, Label: in.Label, Scope: in.ServicePermissions.scope,
		Scoped: in.ServicePermissions.given, ExpiresAt: in.ExpiresAt,
	})
	if err != nil {
		return nil, recordError(err)
	}
	return &createdUserTokenOut{
		ID: t.GetId(), Label: t.GetLabel(), ServicePermissions: scopeOf(t), ProjectID: t.GetProjectId(),
		ExpiresAt: nullableTime(t.GetExpiresAt()), CreatedAt: timeText(t.GetCreatedAt()), Token: secret,
		Message: "API token created successfully",
	}, nil
}

type deleteUserTokenInput struct {
	ID      string `path:"id"`
	TokenID string `path:"tokenId"`
}

type userTokenDeletedOut struct {
	Message string `json:"message"`
}

func (a *API) deleteUserToken(ctx context.Context, in *deleteUserTokenInput) (*userTokenDeletedOut, error) {
	if err := a.Accounts.DeleteToken(ctx, bearer(ctx), in.ID, in.TokenID); err != nil {
		return nil, recordError(err)
	}
	return &userTokenDeletedOut{Message: "API token deleted successfully"}, nil
}

// scopeOf is a token's scope, null when it has none.
func scopeOf(t *directorypb.Token) permissions {
	if !t.GetScoped() {
		return nil
	}
	if t.GetScope() == nil { // an empty one, which allows nothing
		return permissions{}
	}
	return t.GetScope()
}
