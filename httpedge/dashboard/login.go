package dashboard

import (
	"context"
	"strings"

	"parley/actors/core/access"
	"parley/actors/core/audit"
	"parley/actors/core/failure"
	"parley/actors/core/identity"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

// permissions is servicePermissions in an answer; null = what the role gives.
type permissions map[string]string

// Described implements openapi.Described.
func (p permissions) Described() (value any, nullable bool) { return map[string]any{}, true }

type tenantSchema struct {
	CompanyName string `json:"companyName"`
	ID          string `json:"id"`
	Slug        string `json:"slug"`
}

type loginInput struct {
	Email    string `json:"email"`
	Password string `json:"password"`
	Slug     string `json:"slug,omitempty" doc:"Of the company; without it whichever of the email's accounts has the password"`
}

type loginUserSchema struct {
	Email              string      `json:"email"`
	Features           []string    `json:"features"`
	ID                 string      `json:"id"`
	LicenseType        string      `json:"licenseType"`
	Name               string      `json:"name"`
	Role               string      `json:"role"`
	ServicePermissions permissions `json:"servicePermissions"`
}

type loginOut struct {
	Message            string          `json:"message"`
	MustChangePassword bool            `json:"mustChangePassword"`
	Tenant             tenantSchema    `json:"tenant"`
	User               loginUserSchema `json:"user"`
}

// login signs a user in. Whatever is wrong with email and password has one answer, after one hash for each account of the email, and
// after one without any: the time tells whether somebody has accounts in several companies, not whether they have one.
func (a *API) login(ctx context.Context, in *loginInput) (*loginOut, error) {
	if err := a.Sessions.Ready(); err != nil {
		return nil, err
	}
	email := identity.LoginEmail(in.Email)
	if email == "" || in.Password == "" {
		return nil, failure.New(failurepb.Code_VALIDATION, failure.LoginIncomplete)
	}
	if err := a.attempt(ctx, "login", a.config.Limits.Login, failure.TooManyLogins); err != nil {
		return nil, err
	}
	if err := a.take(ctx, "login/account/"+email, a.config.Limits.Account, failure.TooManyLogins); err != nil {
		return nil, err
	}
	tenantID := ""
	if slug := strings.TrimSpace(in.Slug); slug != "" {
		tenant, err := a.Accounts.TenantBySlug(slug)
		if err != nil {
			return nil, err
		}
		if tenant == nil {
			return nil, failure.New(failurepb.Code_AUTH_REQUIRED, failure.UnknownCompany)
		}
		tenantID = tenant.GetId()
	}
	user, err := a.userWith(ctx, email, tenantID, in.Password)
	if err != nil {
		return nil, err
	}
	if identity.AsksForCode(user) {
		return nil, a.askForCode(user)
	}
	return a.signIn(ctx, user)
}

// signIn sets the cookies of a user who has shown all that they are asked for.
func (a *API) signIn(ctx context.Context, user *directorypb.User) (*loginOut, error) {
	member, err := a.begin(ctx, user)
	if err != nil {
		return nil, err
	}
	tier := member.Licence.Tier()
	return &loginOut{
		Message: "Login successful", MustChangePassword: user.GetSignIn().GetMustChange(), Tenant: tenantJSON(member.Tenant),
		User: loginUserSchema{
			Email: user.GetEmail(), Features: tier.Features(), ID: user.GetId(), LicenseType: string(tier), Name: user.GetName(),
			Role: access.RoleIn(user, "", member.Groups...), ServicePermissions: ownPermissions(user),
		},
	}, nil
}

// userWith returns the account of an email that has the password.
func (a *API) userWith(ctx context.Context, email, tenantID, password string) (*directorypb.User, error) {
	candidates, err := a.Accounts.Candidates(ctx, email, tenantID)
	if err != nil {
		return nil, err
	}
	for _, user := range candidates {
		audit.ActsFor(ctx, actorOf(user)) // whether or not it is them
		matches, failed := a.Hasher.Matches(ctx, user.GetSignIn().GetPassword(), password)
		if failed != nil {
			return nil, failed
		}
		if matches {
			return user, nil
		}
	}
	if len(candidates) == 0 {
		if _, err = a.Hasher.Matches(ctx, nil, password); err != nil {
			return nil, err
		}
	}
	return nil, failure.New(failurepb.Code_AUTH_REQUIRED, failure.WrongEmailOrPassword)
}

// begin signs a user in, unless they may not any more.
func (a *API) begin(ctx context.Context, user *directorypb.User) (identity.Member, error) {
	audit.ActsFor(ctx, actorOf(user))
	member, err := a.Accounts.Resume(ctx, identity.Session{
		UserID: user.GetId(), TenantID: user.GetTenantId(), Generation: user.GetSignIn().GetGeneration(),
	})
	if err != nil {
		return member, err
	}
	return member, a.Sessions.Begin(ctx, member)
}

// actorOf is a user whom the audit trail is told of where nobody is signed in yet.
func actorOf(user *directorypb.User) audit.Actor {
	return audit.Actor{TenantID: user.GetTenantId(), UserID: user.GetId(), Email: user.GetEmail(), Role: user.GetRole()}
}

func tenantJSON(tenant *directorypb.Tenant) tenantSchema {
	return tenantSchema{CompanyName: tenant.GetName(), ID: tenant.GetId(), Slug: tenant.GetSlug()}
}

func ownPermissions(user *directorypb.User) permissions {
	if len(user.GetServicePermissions()) == 0 {
		return nil
	}
	return user.GetServicePermissions()
}

type empty struct{}

type messageOut struct {
	Message string `json:"message"`
}

// logout clears the cookies, whether or not they were good.
func (a *API) logout(ctx context.Context, _ *empty) (*messageOut, error) {
	a.Sessions.End(ctx)
	return &messageOut{Message: "Logged out successfully"}, nil
}
