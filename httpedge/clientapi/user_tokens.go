package clientapi

import (
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/access"
	"parley/actors/machine"
	"parley/httpedge/endpoint"
	"parley/httpedge/token"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

const (
	minTokenLabel = 3
	maxTokenLabel = 200 // bytes
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
	user, _, err := a.userOfTenant(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	tokens, err := a.tokensWhere(func(t *directorypb.Token) bool {
		return t.GetTenantId() == user.GetTenantId() && t.GetUserId() == user.GetId()
	})
	if err != nil {
		return nil, err
	}
	out := &userTokenListOut{Tokens: []userTokenSchema{}}
	tokens, out.Pagination = pageOf(tokens, in.Limit, in.Offset)
	for _, t := range tokens {
		var used directorypb.TokenUse
		if record, ok := a.Records.Get(endpoint.TokenUses, t.GetId()); ok {
			if err := proto.Unmarshal(record.Value, &used); err != nil {
				return nil, err
			}
		}
		out.Tokens = append(out.Tokens, userTokenSchema{
			ID: t.GetId(), InternalID: t.GetId(), UserID: t.GetUserId(), ProjectID: t.GetProjectId(), Label: t.GetLabel(),
			TokenPrefix: t.GetPrefix(), ServicePermissions: scopeOf(t), LastUsed: nullableTime(used.GetLastUsedAt()),
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
	user, grant, err := a.userOfTenant(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	expires, failure := in.check(now)
	if failure != nil {
		return nil, failure
	}
	projectID, err := a.projectFor(ctx, grant, in.ProjectID)
	if err != nil {
		return nil, err
	}
	if !access.MemberOf(user, projectID) {
		return nil, machine.Fail(failurepb.Code_FORBIDDEN, "The user is not a member of the project")
	}
	var random [32]byte
	_, _ = rand.Read(random[:]) // never fails, it ends the process instead
	secret, hash, prefix := token.Generate(&random)
	made := &directorypb.Token{
		Id: a.IDs.NewID("tok"), TenantId: user.GetTenantId(), ProjectId: projectID, UserId: user.GetId(),
		Label: strings.TrimSpace(in.Label), Hash: hash, Prefix: prefix,
		CreatedAt: now.UnixMilli(), ExpiresAt: expires, CreatedBy: grant.Owner.GetId(),
	}
	limitScope(made, user, grant, in.ServicePermissions)
	err = a.createRecord(ctx, endpoint.Tokens, func() (string, proto.Message, error) {
		return token.Key(hash), made, a.roomForToken(grant)
	})
	if err != nil {
		return nil, err
	}
	return &createdUserTokenOut{
		ID: made.GetId(), Label: made.GetLabel(), ServicePermissions: scopeOf(made), ProjectID: projectID,
		ExpiresAt: nullableTime(expires), CreatedAt: timeText(made.GetCreatedAt()), Token: secret,
		Message: "API token created successfully",
	}, nil
}

// check says what is wrong with a new token, and returns when it expires (Unix ms, 0 = never).
func (in *createUserTokenInput) check(now time.Time) (expires int64, failure *machine.Failure) {
	label := strings.TrimSpace(in.Label)
	switch {
	case utf8.RuneCountInString(label) < minTokenLabel:
		return 0, machine.Fail(failurepb.Code_VALIDATION, "Label must be at least %d characters", minTokenLabel)
	case len(label) > maxTokenLabel:
		return 0, machine.Fail(failurepb.Code_VALIDATION, "label must have at most %d bytes", maxTokenLabel)
	case in.ExpiresAt == "":
		return 0, nil
	}
	at, err := time.Parse(time.RFC3339, in.ExpiresAt)
	if err != nil || !at.After(now) {
		return 0, machine.Fail(failurepb.Code_VALIDATION, "expiresAt must be a date-time (ISO 8601) in the future")
	}
	return at.UnixMilli(), nil
}

// limitScope gives a token the scope that was asked for, as far as whoever makes it has it. Without one it is all that its owner
// may, unless that is more than its maker may: then it is what the maker may.
func limitScope(made *directorypb.Token, owner *directorypb.User, maker *access.Grant, asked permissionsInput) {
	if asked.given {
		made.Scoped, made.Scope = true, asked.scope.Within(maker)
		return
	}
	if !maker.Covers(access.NewGrant(made, owner, maker.Tenant, maker.Project)) {
		made.Scoped, made.Scope = true, maker.Scope()
	}
}

type deleteUserTokenInput struct {
	ID      string `path:"id"`
	TokenID string `path:"tokenId"`
}

type userTokenDeletedOut struct {
	Message string `json:"message"`
}

func (a *API) deleteUserToken(ctx context.Context, in *deleteUserTokenInput) (*userTokenDeletedOut, error) {
	user, _, err := a.userOfTenant(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	tokens, err := a.tokensWhere(func(t *directorypb.Token) bool {
		return t.GetId() == in.TokenID && t.GetTenantId() == user.GetTenantId() && t.GetUserId() == user.GetId()
	})
	if err != nil {
		return nil, err
	}
	noToken := machine.Fail(failurepb.Code_NOT_FOUND, "Token not found")
	if len(tokens) == 0 {
		return nil, noToken
	}
	record, ok := a.Records.Get(endpoint.Tokens, token.Key(tokens[0].GetHash()))
	if !ok {
		return nil, noToken
	}
	if err := a.Records.Delete(ctx, endpoint.Tokens, record.Key, record.Version); err != nil {
		if isConflict(err) {
			return nil, noToken // somebody else has just deleted it: they never change
		}
		return nil, err
	}
	if used, ok := a.Records.Get(endpoint.TokenUses, in.TokenID); ok {
		// Only a note of the past: the token is gone whether or not it goes with it.
		_ = a.Records.Delete(ctx, endpoint.TokenUses, used.Key, used.Version)
	}
	return &userTokenDeletedOut{Message: "API token deleted successfully"}, nil
}

// userOfTenant returns a user of the caller's tenant, for an owner or admin.
func (a *API) userOfTenant(ctx context.Context, id string) (*directorypb.User, *access.Grant, error) {
	grant, failure := administrator(ctx)
	if failure != nil {
		return nil, nil, failure
	}
	user := new(directorypb.User)
	found, err := a.read(ctx, endpoint.Users, id, user)
	if err != nil {
		return nil, nil, err
	}
	if !found || user.GetTenantId() != grant.Tenant.GetId() {
		return nil, nil, machine.Fail(failurepb.Code_NOT_FOUND, textNoUser)
	}
	return user, grant, nil
}

// roomForToken refuses a token above what the plan has.
func (a *API) roomForToken(grant *access.Grant) error {
	limit := grant.Tier().Limits().MaxAPITokens
	if limit == access.Unlimited {
		return nil
	}
	tokens, err := a.tokensWhere(func(t *directorypb.Token) bool { return t.GetTenantId() == grant.Tenant.GetId() })
	if err != nil {
		return err
	}
	if len(tokens) >= limit {
		return limitReached("apiTokens", len(tokens), limit)
	}
	return nil
}

// tokensWhere returns the tokens that are wanted, newest first.
func (a *API) tokensWhere(wanted func(*directorypb.Token) bool) ([]*directorypb.Token, error) {
	tokens, err := decodeAll[directorypb.Token](a.Records.List(endpoint.Tokens, ""))
	tokens = slices.DeleteFunc(tokens, func(t *directorypb.Token) bool { return !wanted(t) })
	newestFirst(tokens, (*directorypb.Token).GetId)
	return tokens, err
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
