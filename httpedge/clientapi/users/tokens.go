package users

import (
	"context"

	"parley/actors/core/identity"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/clientapi/render"
	"parley/httpedge/resource"
	"parley/proto/directorypb"
)

// tokens declares API tokens, without their secrets; lastUse is when one was last used.
func tokens(lastUse func(id string) int64) *resource.Object[*directorypb.Token, struct{}] {
	type record = *directorypb.Token
	o := resource.New[record, struct{}]("userToken", "UserToken").Member("tokens").Failures(handler.RecordError)
	o.Text("id", record.GetId)
	o.Text("_id", record.GetId)
	o.Text("userId", record.GetUserId)
	o.Text("projectId", record.GetProjectId)
	o.Text("label", record.GetLabel)
	o.Text("tokenPrefix", record.GetPrefix)
	resource.Value[any](o, "servicePermissions", scopeOf)
	resource.Value[any](o, "lastUsed", func(t record) *string { return render.NullableTime(lastUse(t.GetId())) })
	resource.Value[any](o, "createdAt", func(t record) string { return render.Time(t.GetCreatedAt()) })
	resource.Value[any](o, "expiresAt", func(t record) *string { return render.NullableTime(t.GetExpiresAt()) })
	return o
}

// madeToken is a new token, the only time with its secret.
type madeToken struct {
	*directorypb.Token

	secret string
}

// newToken is what one is made of.
type newToken struct {
	identity.NewToken

	permissions handler.PermissionsInput
}

// madeTokens declares new tokens, and the body that makes one for the user whom the path names.
func madeTokens() *resource.Object[madeToken, newToken] {
	o := resource.New[madeToken, newToken]("userToken", "CreatedUserToken").Bare().Failures(handler.RecordError).
		Under(func(in *newToken) *string { return &in.UserID })
	o.Text("id", madeToken.GetId)
	o.Text("label", madeToken.GetLabel).Create(func(in *newToken) *string { return &in.Label })
	resource.Value[handler.PermissionsInput](o, "servicePermissions", func(t madeToken) render.Permissions { return scopeOf(t.Token) }).
		Create(func(in *newToken) *handler.PermissionsInput { return &in.permissions })
	o.Text("projectId", madeToken.GetProjectId).Create(func(in *newToken) *string { return &in.ProjectID })
	resource.Value[string](o, "expiresAt", func(t madeToken) *string { return render.NullableTime(t.GetExpiresAt()) }).
		Create(func(in *newToken) *string { return &in.ExpiresAt })
	resource.Value[any](o, "createdAt", func(t madeToken) string { return render.Time(t.GetCreatedAt()) })
	o.Text("token", func(t madeToken) string { return t.secret })
	o.Text("message", func(madeToken) string { return "API token created successfully" })
	return o
}

type tokenPageInput struct {
	ID     string `path:"id"`
	Limit  int    `query:"limit"`
	Offset int    `query:"offset"`
}

func (a *api) pageTokens(ctx context.Context, in *tokenPageInput) ([]*directorypb.Token, resource.Pagination, error) {
	page, total, err := a.Accounts.PageTokens(ctx, bearer(ctx), in.ID, in.Limit, in.Offset)
	return page, resource.Paginate(in.Limit, in.Offset, total), err
}

func (a *api) makeToken(ctx context.Context, in newToken) (madeToken, error) {
	in.Scope, in.Scoped = in.permissions.Scope, in.permissions.Given
	secret, token, err := a.Accounts.CreateToken(ctx, bearer(ctx), in.NewToken)
	return madeToken{token, secret}, err
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
