package dashboard

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"time"

	"parley/actors/core/failure"
	"parley/actors/core/identity"
	"parley/httpedge/endpoint"
	"parley/httpedge/login"
	"parley/httpedge/openid"
	"parley/proto/failurepb"
)

// Provider says who signs in at the OpenID provider, and by which name they know it.
type Provider struct {
	Name string
	Slug string // of the company whose people do; "" = the first one
	Role string // of those who come for the first time; "" = they are not let in
}

type providerOut struct {
	Enabled bool   `json:"enabled"`
	Name    string `json:"name,omitempty"`
}

// providerOptions says whether people may sign in at a provider.
func (a *API) providerOptions(context.Context, *empty) (*providerOut, error) {
	if a.Provider == nil {
		return &providerOut{}, nil
	}
	return &providerOut{Enabled: true, Name: a.config.Provider.Name}, nil
}

// redirectOut is the body of an answer that sends the browser elsewhere.
type redirectOut struct {
	Location string `json:"location"`
}

func redirect(ctx context.Context, to string) *redirectOut {
	if headers, ok := endpoint.RequestFrom(ctx).(endpoint.Headers); ok {
		headers.AnswerHeader("Location", to)
	}
	return &redirectOut{to}
}

// flow is what the browser holds while its user is at the provider.
type flow struct {
	openid.Flow

	ReturnTo string `json:"returnTo"`
}

// flowAge is how long somebody may take at the provider.
const flowAge = 10 * time.Minute

func (a *API) providerReady() error {
	if err := a.Sessions.Ready(); err != nil {
		return err
	}
	if a.Provider == nil {
		return failure.New(failurepb.Code_NOT_FOUND, failure.ProviderMissing)
	}
	return nil
}

type startInput struct {
	ReturnTo string `query:"return_to" doc:"Path of this server to which the browser is sent afterwards; / when it is not given"`
}

// startAtProvider sends the browser to the provider.
func (a *API) startAtProvider(ctx context.Context, in *startInput) (*redirectOut, error) {
	if err := a.providerReady(); err != nil {
		return nil, err
	}
	to, err := ownPath(in.ReturnTo)
	if err != nil {
		return nil, err
	}
	address, begun, err := a.Provider.Begin(ctx)
	if err != nil {
		return nil, providerFailure(err)
	}
	if err = a.Sessions.Hold(ctx, flow{begun, to}, flowAge); err != nil {
		return nil, err
	}
	return redirect(ctx, address), nil
}

// ownPath is a path of this server, and never another server's: browsers take // and /\ for the beginning of a host.
func ownPath(given string) (string, error) {
	const longest = 1000
	if given == "" {
		return "/", nil
	}
	to, err := url.Parse(given)
	if err != nil || len(given) > longest || to.Scheme != "" || to.Host != "" || to.User != nil || !strings.HasPrefix(given, "/") ||
		strings.HasPrefix(given, "//") || strings.ContainsFunc(given, func(r rune) bool { return r <= ' ' || r > '~' || r == '\\' }) {
		return "", failure.New(failurepb.Code_VALIDATION, failure.ForeignPath).In("return_to")
	}
	to.Fragment, to.RawFragment = "", ""
	return to.String(), nil
}

type callbackInput struct {
	State string `query:"state"`
	Code  string `query:"code"`
	Error string `query:"error"`
}

// backFromProvider signs in whoever comes back from the provider, in the browser that was sent there.
func (a *API) backFromProvider(ctx context.Context, in *callbackInput) (*redirectOut, error) {
	if err := a.providerReady(); err != nil {
		return nil, err
	}
	if err := a.attempt(ctx, "provider", a.config.Limits.Login, failure.TooManyLogins); err != nil {
		return nil, err
	}
	var begun flow
	held := a.Sessions.Held(ctx, &begun)
	a.Sessions.LetGo(ctx)
	refused := failure.New(failurepb.Code_AUTH_REQUIRED, failure.ProviderRefused)
	if !held || in.Error != "" {
		return nil, refused
	}
	who, err := a.Provider.Finish(ctx, begun.Flow, in.State, in.Code)
	if err != nil {
		return nil, providerFailure(err)
	}
	user, err := a.Accounts.SignInByProvider(ctx, identity.ProviderLogin{
		Issuer: who.Issuer, Subject: who.Subject, Email: who.Email, Verified: who.Verified, Name: who.Name,
		Slug: a.config.Provider.Slug, Role: a.config.Provider.Role,
	})
	if err != nil {
		return nil, err
	}
	if identity.AsksForCode(user) {
		ticket, failed := a.Tickets.Make(login.SecondStep, user, time.Now())
		return redirect(ctx, begun.ReturnTo+"#challenge="+ticket), failed
	}
	if _, err = a.begin(ctx, user); err != nil {
		return nil, err
	}
	return redirect(ctx, begun.ReturnTo), nil
}

func providerFailure(err error) error {
	switch {
	case errors.Is(err, openid.ErrRefused):
		return failure.New(failurepb.Code_AUTH_REQUIRED, failure.ProviderRefused)
	case errors.Is(err, openid.ErrProvider):
		return failure.New(failurepb.Code_UNAVAILABLE, failure.ProviderUnavailable)
	}
	return err
}
