package users

import (
	"context"

	"parley/actors/core/identity"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/clientapi/render"
	"parley/proto/directorypb"
)

type userTokenListInput struct {
	ID     string `path:"id"`
	Limit  int    `query:"limit"`
	Offset int    `query:"offset"`
}

// userTokenSchema is a token without its secret.
type userTokenSchema struct {
	ID                 string             `json:"id"`
	InternalID         string             `json:"_id"`
	UserID             string             `json:"userId"`
	ProjectID          string             `json:"projectId"`
	Label              string             `json:"label"`
	TokenPrefix        string             `json:"tokenPrefix"`
	ServicePermissions render.Permissions `json:"servicePermissions"`
	LastUsed           *string            `json:"lastUsed"`
	CreatedAt          string             `json:"createdAt"`
	ExpiresAt          *string            `json:"expiresAt"`
}

type userTokenListOut struct {
	Tokens     []userTokenSchema       `json:"tokens"`
	Pagination render.PaginationSchema `json:"pagination"`
}

func (a *api) listUserTokens(ctx context.Context, in *userTokenListInput) (*userTokenListOut, error) {
	tokens, total, err := a.Accounts.PageTokens(ctx, bearer(ctx), in.ID, in.Limit, in.Offset)
	if err != nil {
		return nil, handler.RecordError(err)
	}
	out := &userTokenListOut{Tokens: []userTokenSchema{}, Pagination: render.Pagination(in.Limit, in.Offset, total)}
	for _, t := range tokens {
		out.Tokens = append(out.Tokens, userTokenSchema{
			ID: t.GetId(), InternalID: t.GetId(), UserID: t.GetUserId(), ProjectID: t.GetProjectId(), Label: t.GetLabel(),
			TokenPrefix: t.GetPrefix(), ServicePermissions: scopeOf(t), LastUsed: render.NullableTime(a.Accounts.LastUse(t.GetId())),
			CreatedAt: render.Time(t.GetCreatedAt()), ExpiresAt: render.NullableTime(t.GetExpiresAt()),
		})
	}
	return out, nil
}

type createUserTokenInput struct {
	ID                 string                   `path:"id"`
	Label              string                   `json:"label"`
	ServicePermissions handler.PermissionsInput `json:"servicePermissions"`
	ProjectID          string                   `json:"projectId"`
	ExpiresAt          string                   `json:"expiresAt"`
}

// createdUserTokenOut is a new token, the only time with its secret.
type createdUserTokenOut struct {
	ID                 string             `json:"id"`
	Label              string             `json:"label"`
	ServicePermissions render.Permissions `json:"servicePermissions"`
	ProjectID          string             `json:"projectId"`
	ExpiresAt          *string            `json:"expiresAt"`
	CreatedAt          string             `json:"createdAt"`
	Token              string             `json:"token"`
	Message            string             `json:"message"`
}

func (a *api) createUserToken(ctx context.Context, in *createUserTokenInput) (*createdUserTokenOut, error) {
	secret, t, err := a.Accounts.CreateToken(ctx, bearer(ctx), identity.NewToken{
		UserID: in.ID, ProjectID: in.ProjectID, Label: in.Label, Scope: in.ServicePermissions.Scope,
		Scoped: in.ServicePermissions.Given, ExpiresAt: in.ExpiresAt,
	})
	if err != nil {
		return nil, handler.RecordError(err)
	}
	return &createdUserTokenOut{
		ID: t.GetId(), Label: t.GetLabel(), ServicePermissions: scopeOf(t), ProjectID: t.GetProjectId(),
		ExpiresAt: render.NullableTime(t.GetExpiresAt()), CreatedAt: render.Time(t.GetCreatedAt()), Token: secret,
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

func (a *api) deleteUserToken(ctx context.Context, in *deleteUserTokenInput) (*userTokenDeletedOut, error) {
	if err := a.Accounts.DeleteToken(ctx, bearer(ctx), in.ID, in.TokenID); err != nil {
		return nil, handler.RecordError(err)
	}
	return &userTokenDeletedOut{Message: "API token deleted successfully"}, nil
}

// scopeOf is a token's scope, null when it has none.
func scopeOf(t *directorypb.Token) render.Permissions {
	if !t.GetScoped() {
		return nil
	}
	if t.GetScope() == nil { // an empty one, which allows nothing
		return render.Permissions{}
	}
	return t.GetScope()
}
