package identity

import (
	"context"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/collection"
	"parley/proto/directorypb"
)

// bootstrapToken is the id of the token that the configuration gives.
const bootstrapToken = "tok_bootstrap"

// Bootstrap creates the first tenant, its owner, its project and its first API token. One value is used for all attempts of a
// node, by one goroutine.
type Bootstrap struct {
	Accounts *Accounts
	Token    string // API token of the configuration, "" = none
	Tier     string // licence of the first tenant
	// Owner is who registers the first tenant's company, by the configuration; nil = nobody signs in to it. Hash is of its
	// password.
	Owner *Registration
	Hash  func(ctx context.Context, password string) ([]byte, error)

	tenant *directorypb.Tenant // as this bootstrap creates it
	unsure bool                // an attempt at that has failed, and may have created it
	first  bool                // this bootstrap has created it, and owes the token
}

// Run creates what is missing. It returns the first token to the one who created it: nobody knows it afterwards. Several nodes may
// run it at once; the record of the tenant decides who creates the token.
func (b *Bootstrap) Run(ctx context.Context) (secret string, err error) {
	a, now := b.Accounts, b.Accounts.env.Now().UnixMilli()
	if err = b.createTenant(ctx, now); err != nil {
		return "", err
	}
	if _, err = a.projects.Add(ctx, &directorypb.Project{
		Id: DefaultProject, TenantId: DefaultTenant, Key: "default", Name: "Default Project", CreatedAt: now,
	}); err != nil {
		return "", err
	}
	if _, err = a.users.Add(ctx, &directorypb.User{
		Id: DefaultOwner, TenantId: DefaultTenant, Name: "Owner", Role: "owner", ProjectIds: []string{DefaultProject},
		CreatedAt: now, UpdatedAt: now,
	}); err != nil {
		return "", err
	}
	if err = b.setTier(ctx); err != nil {
		return "", err
	}
	if err = b.setOwner(ctx); err != nil {
		return "", err
	}
	if b.Token != "" {
		return "", b.addToken(ctx, now)
	}
	if !b.first {
		return "", nil
	}
	secret, token := a.newToken()
	token.Id, token.Label = a.env.NewID("tok"), "First token"
	if _, err = a.tokens.Add(ctx, ofDefaultOwner(token, now)); err != nil {
		return "", err
	}
	b.first = false
	return secret, nil
}

// createTenant creates the tenant, unless there is one.
func (b *Bootstrap) createTenant(ctx context.Context, now int64) error {
	if b.tenant == nil {
		b.tenant = &directorypb.Tenant{
			Id: DefaultTenant, Name: "Default", Slug: "default", Tier: b.Tier, OwnerId: DefaultOwner, CreatedAt: now,
		}
	}
	added, err := b.Accounts.tenants.Add(ctx, b.tenant)
	if err != nil {
		b.unsure = true
		return err
	}
	if !added && b.unsure {
		added = proto.Equal(b.Accounts.tenants.Known(DefaultTenant), b.tenant)
	}
	b.first, b.unsure = b.first || added, false
	return nil
}

// setTier applies the configured licence to the first tenant.
func (b *Bootstrap) setTier(ctx context.Context) error {
	tenant, err := b.Accounts.tenants.Get(ctx, DefaultTenant)
	if err != nil || tenant.GetTier() == b.Tier {
		if isMissing(err) {
			return nil
		}
		return err
	}
	_, err = b.Accounts.tenants.Change(ctx, DefaultTenant, func(tenant *directorypb.Tenant) error {
		tenant.Tier = b.Tier
		return nil
	})
	return err
}

// setOwner lets the first tenant's owner sign in as configured, as long as they have no password: one that was changed stays. The
// tenant gets the company's name with it.
func (b *Bootstrap) setOwner(ctx context.Context) error {
	if b.Owner == nil {
		return nil
	}
	owner, err := b.Accounts.users.Get(ctx, DefaultOwner)
	if err != nil || len(owner.GetSignIn().GetPassword()) > 0 {
		if isMissing(err) {
			return nil
		}
		return err
	}
	if _, err = b.Accounts.tenants.Change(ctx, DefaultTenant, func(tenant *directorypb.Tenant) error {
		tenant.Name, tenant.Slug = b.Owner.Company, b.Owner.Slug
		return nil
	}); err != nil {
		return err
	}
	hash, err := b.Hash(ctx, b.Owner.Password)
	if err != nil {
		return err
	}
	_, err = b.Accounts.users.Change(ctx, DefaultOwner, func(user *directorypb.User) error {
		if len(user.GetSignIn().GetPassword()) == 0 {
			user.Name, user.Email, user.CanLogin = b.Owner.Name, b.Owner.Email, true
			user.SignIn = b.Accounts.newSignIn(hash)
		}
		return nil
	})
	return err
}

// addToken makes the configured token valid, and those that were configured before invalid.
func (b *Bootstrap) addToken(ctx context.Context, now int64) error {
	tokens := b.Accounts.tokens
	hash, prefix := TokenDigest(b.Token)
	if _, err := tokens.Add(ctx, ofDefaultOwner(&directorypb.Token{
		Id: bootstrapToken, Label: "Bootstrap token", Hash: hash, Prefix: prefix,
	}, now)); err != nil {
		return err
	}
	configured, err := tokens.All(idTerm(bootstrapToken))
	if err != nil {
		return err
	}
	for _, other := range configured {
		if TokenKey(other.GetHash()) == TokenKey(hash) {
			continue
		}
		if err = tokens.Delete(ctx, TokenKey(other.GetHash()), nil); err != nil && !isMissing(err) && !collection.IsConflict(err) {
			return err
		}
	}
	return nil
}

// ofDefaultOwner makes a token the first owner's, with all that they may.
func ofDefaultOwner(token *directorypb.Token, now int64) *directorypb.Token {
	token.TenantId, token.ProjectId, token.UserId, token.CreatedAt = DefaultTenant, DefaultProject, DefaultOwner, now
	return token
}
