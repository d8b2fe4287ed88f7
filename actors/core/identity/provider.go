package identity

import (
	"context"
	"errors"
	"strings"

	"parley/actors/core/access"
	"parley/actors/core/collection"
	"parley/actors/core/failure"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

// ProviderLogin is who signs in at an OpenID provider, and what the settings say of it.
type ProviderLogin struct {
	Issuer, Subject string
	Email           string
	Verified        bool // the provider has made sure of the email
	Name            string
	Slug            string // of the tenant whose users sign in there; "" = the first one
	Role            string // of users that are made; "" = none are
}

// SignInByProvider returns the user who a provider says has signed in: whom it has said so of before, else whoever has the verified
// email, else a new one. An email alone proves nothing: who has once come as somebody else stays that, and users who may not sign in
// do not by this.
func (a *Accounts) SignInByProvider(ctx context.Context, in ProviderLogin) (*directorypb.User, error) {
	tenant, err := a.providersTenant(ctx, in.Slug)
	if err != nil {
		return nil, err
	}
	const attempts = 2 // somebody else's request may make the user meanwhile
	for range attempts {
		var user *directorypb.User
		user, err = a.byProvider(ctx, tenant, &in)
		if err == nil || !taken(err) {
			return user, err
		}
	}
	return nil, err
}

func (a *Accounts) providersTenant(ctx context.Context, slug string) (*directorypb.Tenant, error) {
	if slug == "" {
		return a.tenants.Get(ctx, DefaultTenant)
	}
	tenant, err := a.TenantBySlug(slug)
	if err == nil && tenant == nil {
		err = failure.New(failurepb.Code_AUTH_REQUIRED, failure.UnknownCompany)
	}
	return tenant, err
}

func (a *Accounts) byProvider(ctx context.Context, tenant *directorypb.Tenant, in *ProviderLogin) (*directorypb.User, error) {
	unknown := failure.New(failurepb.Code_FORBIDDEN, failure.ProviderUserUnknown)
	user, err := a.users.Lookup(providerTerm(tenant.GetId(), in.Issuer, in.Subject))
	if err != nil {
		return nil, err
	}
	if user != nil {
		if !MaySignIn(user) {
			return nil, unknown
		}
		return user, nil
	}
	email, bad := SignInEmail(in.Email)
	if bad != nil || !in.Verified {
		return nil, unknown
	}
	known, err := a.users.All(emailTerm(email))
	if err != nil {
		return nil, err
	}
	for _, other := range known {
		if other.GetTenantId() == tenant.GetId() {
			return a.linkProvider(ctx, other, in, unknown)
		}
	}
	if in.Role == "" {
		return nil, unknown
	}
	return a.createByProvider(ctx, tenant, email, in)
}

// linkProvider has a user sign in at the provider from now on, too.
func (a *Accounts) linkProvider(ctx context.Context, known *directorypb.User, in *ProviderLogin, unknown error) (*directorypb.User, error) {
	return a.users.Change(ctx, known.GetId(), func(user *directorypb.User) error {
		linked := user.GetSignIn().GetProviderIdentity()
		if MaySignIn(user) && linked != nil && linked.GetIssuer() == in.Issuer && linked.GetSubject() == in.Subject {
			return nil // another request of theirs was first
		}
		if !MaySignIn(user) || user.GetEmail() != known.GetEmail() || linked != nil {
			return unknown
		}
		user.SignIn.ProviderIdentity = &directorypb.ProviderIdentity{Issuer: in.Issuer, Subject: in.Subject}
		user.UpdatedAt = a.env.Now().UnixMilli()
		return nil
	})
}

func (a *Accounts) createByProvider(ctx context.Context, tenant *directorypb.Tenant, email string, in *ProviderLogin) (*directorypb.User, error) {
	name := strings.TrimSpace(in.Name)
	if name == "" || checkName(name) != nil {
		name = email
	}
	now := a.env.Now().UnixMilli()
	user := &directorypb.User{
		Id: a.env.NewID("usr"), TenantId: tenant.GetId(), Name: name, Email: email, Role: in.Role, CanLogin: true,
		CreatedAt: now, UpdatedAt: now, SignIn: &directorypb.SignIn{
			Generation: 1, ProviderIdentity: &directorypb.ProviderIdentity{Issuer: in.Issuer, Subject: in.Subject},
		},
	}
	if project := a.firstProject(tenant.GetId()); project != "" {
		user.ProjectIds = []string{project}
	}
	most := a.Licence(tenant).Limits().MaxUsers
	return user, a.users.Create(ctx, user, func() error { return a.userRoom(user) }, limit("users", tenant.GetId(), most, most != access.Unlimited)...)
}

// taken says that somebody else's write made the user meanwhile.
func taken(err error) bool {
	refused, is := errors.AsType[*failure.Failure](err)
	return is && (refused.Code == failurepb.Code_CONFLICT || refused.Code == failurepb.Code_ALREADY_EXISTS)
}

// providerIdentity is who a user is at a provider, as a unique value; "" = nobody.
func providerIdentity(user *directorypb.User) string {
	if known := user.GetSignIn().GetProviderIdentity(); known != nil {
		return collection.Term(known.GetIssuer(), known.GetSubject())
	}
	return ""
}

func providerTerm(tenantID, issuer, subject string) string {
	return collection.Term("provider", tenantID, issuer, subject)
}
