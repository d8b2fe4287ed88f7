package identity

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"parley/actors/core/access"
	"parley/actors/core/collection"
	"parley/actors/core/failure"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

// Limits of a token's label.
const (
	minLabel = 3   // characters
	maxLabel = 200 // bytes
)

// NewToken is an API token to create.
type NewToken struct {
	UserID    string // for whom it acts; "" = the first tenant's owner, of an operator's request
	ProjectID string // "" = the bearer's own, or the tenant's first when an operator asks
	Label     string
	Scope     access.Scope
	Scoped    bool   // Scope bounds what the token may; without it is all that the user may and the bearer has
	ExpiresAt string // RFC 3339; "" = never
}

// CreateToken creates an API token for a user and returns its secret, which is not stored.
func (a *Accounts) CreateToken(ctx context.Context, caller Caller, in NewToken) (secret string, token *directorypb.Token, err error) {
	if caller.operator {
		in.UserID = cmp.Or(in.UserID, DefaultOwner)
	}
	user, err := a.user(ctx, caller, in.UserID)
	if err != nil {
		return "", nil, err
	}
	now := a.env.Now()
	expires, err := in.check(now)
	if err != nil {
		return "", nil, err
	}
	projectID, err := a.projectIn(ctx, caller, user.GetTenantId(), in.ProjectID)
	if err != nil {
		return "", nil, err
	}
	if err = a.joinProject(ctx, caller, user, projectID); err != nil {
		return "", nil, err
	}
	secret, token = a.newToken()
	token.Id, token.TenantId, token.ProjectId, token.UserId = a.env.NewID("tok"), user.GetTenantId(), projectID, user.GetId()
	token.Label, token.CreatedAt, token.ExpiresAt, token.CreatedBy = strings.TrimSpace(in.Label), now.UnixMilli(), expires, caller.id()
	token.Scoped, token.Scope = scopeFor(caller, token, user, &in)
	most, bound := caller.limit(func(l access.Limits) int { return l.MaxAPITokens })
	err = a.tokens.Create(ctx, token, func() error {
		if _, gone := a.projects.Get(ctx, projectID); gone != nil {
			return gone
		}
		if _, gone := a.users.Get(ctx, user.GetId()); gone != nil || caller.operator {
			return gone
		}
		return a.tokenRoom(token)
	}, limit("apiTokens", user.GetTenantId(), most, bound)...)
	if err != nil {
		return "", nil, err
	}
	return secret, token, nil
}

// newToken makes a token's secret, and its record with what is kept of that.
func (a *Accounts) newToken() (secret string, token *directorypb.Token) {
	var random [32]byte
	a.env.Random(random[:])
	secret, hash, prefix := GenerateToken(&random)
	return secret, &directorypb.Token{Hash: hash, Prefix: prefix}
}

// check returns when the token expires, Unix milliseconds, 0 = never.
func (in *NewToken) check(now time.Time) (expires int64, err error) {
	label := strings.TrimSpace(in.Label)
	switch {
	case utf8.RuneCountInString(label) < minLabel:
		return 0, invalid(failure.AtLeastCharacters).In("Label").Param("least", minLabel)
	case len(label) > maxLabel:
		return 0, invalid(failure.AtMostBytes).In("label").Param("most", maxLabel)
	case in.ExpiresAt == "":
		return 0, nil
	}
	at, err := time.Parse(time.RFC3339, in.ExpiresAt)
	if err != nil || !at.After(now) {
		return 0, invalid(failure.MustBeFutureTime).In("expiresAt")
	}
	return at.UnixMilli(), nil
}

// joinProject makes sure that a user is a member of the project that a token of theirs is for. Only an operator makes them one.
func (a *Accounts) joinProject(ctx context.Context, caller Caller, user *directorypb.User, projectID string) error {
	if access.MemberOf(user, projectID) {
		return nil
	}
	if !caller.operator {
		return failure.New(failurepb.Code_FORBIDDEN, failure.NotMemberOfProject)
	}
	_, err := a.users.Change(ctx, user.GetId(), func(user *directorypb.User) error {
		if !access.MemberOf(user, projectID) {
			user.ProjectIds, user.UpdatedAt = append(user.GetProjectIds(), projectID), a.env.Now().UnixMilli()
		}
		return nil
	})
	return err
}

// scopeFor is the scope that was asked for, as far as the caller has it. Without one the token may do all that its user may, unless
// that is more than the caller may: then it is what the caller may.
func scopeFor(caller Caller, token *directorypb.Token, user *directorypb.User, in *NewToken) (scoped bool, scope access.Scope) {
	if in.Scoped {
		return true, caller.within(in.Scope)
	}
	grant := caller.grant
	if caller.operator || grant.Covers(access.NewGrant(token, user, grant.Tenant, &directorypb.Project{Id: token.GetProjectId()})) {
		return false, nil
	}
	return true, grant.Scope()
}

// PageTokens returns API tokens of a user, newest first, and how many there are.
func (a *Accounts) PageTokens(ctx context.Context, caller Caller, userID string, limit, offset int) ([]*directorypb.Token, int, error) {
	user, err := a.user(ctx, caller, userID)
	if err != nil {
		return nil, 0, err
	}
	return a.tokens.Page(userTerm(user.GetTenantId(), user.GetId()), limit, offset)
}

// ListTokens returns all API tokens that the caller sees by key, or those of a tenant.
func (a *Accounts) ListTokens(caller Caller, tenantID string) ([]*directorypb.Token, error) {
	return listed(caller, a.tokens, tenantID, (*directorypb.Token).GetTenantId)
}

// LastUse is when a token was last used, Unix milliseconds, to about a minute; 0 = never.
func (a *Accounts) LastUse(tokenID string) int64 { return a.uses.Known(tokenID).GetLastUsedAt() }

// DeleteToken deletes an API token: it is refused from then on. userID is whose it has to be, "" = anybody's.
func (a *Accounts) DeleteToken(ctx context.Context, caller Caller, userID, id string) error {
	if err := caller.administrates(); err != nil {
		return err
	}
	if userID != "" {
		if _, err := a.user(ctx, caller, userID); err != nil {
			return err
		}
	}
	token, err := a.tokens.Lookup(idTerm(id))
	if err != nil {
		return err
	}
	if token == nil || !caller.sees(token.GetTenantId()) || userID != "" && token.GetUserId() != userID {
		return missing("token", id)
	}
	return a.deleteToken(ctx, token)
}

func (a *Accounts) deleteToken(ctx context.Context, token *directorypb.Token) error {
	if err := a.tokens.Delete(ctx, TokenKey(token.GetHash()), nil); err != nil {
		if isMissing(err) {
			return missing("token", token.GetId())
		}
		return err
	}
	a.uses.Drop(ctx, token.GetId()) // only says when it was used: it does not matter whether it stays
	return nil
}

// deleteTokensOf deletes a user's tokens for a project, "" = for any.
func (a *Accounts) deleteTokensOf(ctx context.Context, user *directorypb.User, projectID string) error {
	tokens, err := a.tokens.All(userTerm(user.GetTenantId(), user.GetId()))
	if err != nil {
		return err
	}
	for _, token := range tokens {
		if projectID != "" && token.GetProjectId() != projectID {
			continue
		}
		if err = a.deleteToken(ctx, token); err != nil && !isMissing(err) {
			return err
		}
	}
	return nil
}

func isMissing(err error) bool {
	_, is := errors.AsType[*collection.MissingError](err)
	return is
}
