package dashboard

import (
	"context"
	"time"

	"parley/actors/core/audit"
	"parley/actors/core/failure"
	"parley/actors/core/identity"
	"parley/proto/failurepb"
	"parley/proto/mailpb"
)

type registerOptionsOut struct {
	Mode Registration `json:"mode"`
}

// registerOptions says who may register.
func (a *API) registerOptions(context.Context, *empty) (*registerOptionsOut, error) {
	return &registerOptionsOut{Mode: a.config.Registration}, nil
}

type registerInput struct {
	CompanyName string `json:"companyName"`
	Slug        string `json:"slug,omitempty" doc:"Made of the company's name when it is not given"`
	Name        string `json:"name"`
	Email       string `json:"email"`
	Password    string `json:"password"`
	AccessCode  string `json:"accessCode,omitempty"`
}

type registerUserSchema struct {
	Email       string   `json:"email"`
	Features    []string `json:"features"`
	ID          string   `json:"id"`
	LicenseType string   `json:"licenseType"`
	Name        string   `json:"name"`
	Role        string   `json:"role"`
}

type registerOut struct {
	Message string             `json:"message"`
	Tenant  tenantSchema       `json:"tenant"`
	User    registerUserSchema `json:"user"`
}

// register creates a tenant with the FREE licence, whatever the body says about that, its owner and its first project.
func (a *API) register(ctx context.Context, in *registerInput) (*registerOut, error) {
	if err := a.Sessions.Ready(); err != nil {
		return nil, err
	}
	if a.config.Registration == RegistrationDisabled {
		return nil, failure.New(failurepb.Code_FORBIDDEN, failure.RegistrationDisabled)
	}
	wanted := identity.Registration{
		Company: in.CompanyName, Slug: in.Slug, Name: in.Name, Email: in.Email, Password: in.Password,
	}
	if err := wanted.Check(); err != nil {
		return nil, err
	}
	if err := a.attempt(ctx, "register", a.config.Limits.Register, failure.TooManyRegistrations); err != nil {
		return nil, err
	}
	if err := a.Accounts.CheckCompany(&wanted); err != nil {
		return nil, err
	}
	// Every node keeps all companies in memory, and whoever has many addresses has many limits.
	if err := a.take(ctx, "registrations", a.config.Limits.Founded, failure.TooManyRegistrations); err != nil {
		return nil, err
	}
	made, err := a.found(ctx, &wanted, in.AccessCode)
	if err != nil {
		return nil, err
	}
	audit.ActsFor(ctx, actorOf(made.Owner))
	if err = a.Sessions.Begin(ctx, identity.Member{User: made.Owner, Tenant: made.Tenant, Project: made.Project}); err != nil {
		return nil, err
	}
	a.welcome(ctx, made)
	tier := a.Accounts.Licence(made.Tenant).Tier()
	return &registerOut{
		Message: "Company and user registered successfully", Tenant: tenantJSON(made.Tenant),
		User: registerUserSchema{
			Email: made.Owner.GetEmail(), Features: tier.Features(), ID: made.Owner.GetId(), LicenseType: string(tier),
			Name: made.Owner.GetName(), Role: made.Owner.GetRole(),
		},
	}, nil
}

// welcome has a mail sent to whoever's address was given. The company is registered with or without it: who sends mails logs what goes
// wrong, and above the limit of those that anybody may ask for there is none.
func (a *API) welcome(ctx context.Context, made identity.Founded) {
	if allowed, _, err := a.Attempts.Take(ctx, mailsCount, a.config.Limits.Mails); err != nil || !allowed {
		return
	}
	_ = a.Mails.Send(ctx, &mailpb.Letter{
		Template: mailpb.Template_WELCOME, TenantId: made.Tenant.GetId(), UserId: made.Owner.GetId(), AskedAt: made.Tenant.GetCreatedAt(),
	})
}

// giveBackTimeout bounds giving an access code back, also after the request's own time.
const giveBackTimeout = 5 * time.Second

// found registers, with an access code during the beta. A refused registration gives its code back.
func (a *API) found(ctx context.Context, wanted *identity.Registration, code string) (made identity.Founded, err error) {
	if a.config.Registration == RegistrationBeta {
		giveBack, refused := a.Accounts.TakeAccessCode(ctx, a.config.AccessCodes, code, wanted.Email)
		if refused != nil {
			return made, refused
		}
		defer func() {
			if made.Tenant == nil {
				late, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTimeout)
				defer cancel()
				giveBack(late)
			}
		}()
	}
	hash, err := a.Hasher.Hash(ctx, wanted.Password)
	if err != nil {
		return made, err
	}
	return a.Accounts.Register(ctx, wanted, hash)
}
