// Package openid signs people in at an OpenID provider: authorization code with PKCE, state and nonce. It keeps no state: what begins at
// one node may end at another, since what both must know is in a cookie of the browser, signed, for ten minutes.
package openid

import (
	"context"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	// go-oidc: discovery, keys and the checks of id tokens; the library of the field.
	"github.com/coreos/go-oidc/v3/oidc"
	// oauth2: the Go project's own, which go-oidc builds on.
	"golang.org/x/oauth2"
)

// Config is the settings of a provider.
type Config struct {
	Issuer       string
	ClientID     string
	ClientSecret string // "" = a public client
	Scopes       []string
	Redirect     *url.URL       // where the provider sends people back to
	Roots        *x509.CertPool // nil = the system's
	Timeout      time.Duration  // of one request to the provider
	Logger       *slog.Logger   // told what the provider does wrong; nil = nobody
}

// ErrProvider says that the provider could not be asked, or answered what it must not.
var ErrProvider = errors.New("openid: the provider")

// ErrRefused says that a sign-in does not hold: another browser's, too old, or not what the provider signed.
var ErrRefused = errors.New("openid: refused")

// Person is who signed in, as the provider says.
type Person struct {
	Issuer, Subject string
	Email           string
	Verified        bool // the email
	Name            string
}

// Provider is an OpenID provider. It is safe for concurrent use, and asked for the first time when somebody signs in.
type Provider struct {
	config Config
	client *http.Client

	mu    sync.Mutex
	known *oidc.Provider
}

// maxAnswer bounds an answer of the provider.
const maxAnswer = 1 << 20

// New returns a provider.
func New(config Config) *Provider {
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{RootCAs: config.Roots, MinVersion: tls.VersionTLS12},
		MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: maxAnswer, ForceAttemptHTTP2: true,
	}
	return &Provider{config: config, client: &http.Client{
		Transport: bounded{transport}, Timeout: config.Timeout,
		// What is sent there holds the client's secret: it goes to the address that discovery names, or nowhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close lets go of connections.
func (p *Provider) Close() { p.client.CloseIdleConnections() }

// bounded cuts answers that are too long.
type bounded struct{ next *http.Transport }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := b.next.RoundTrip(request)
	if err == nil {
		response.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(response.Body, maxAnswer), response.Body}
	}
	return response, err
}

// CloseIdleConnections is called by http.Client.
func (b bounded) CloseIdleConnections() { b.next.CloseIdleConnections() }

// discover asks the provider what it offers, once.
func (p *Provider) discover(ctx context.Context) (*oidc.Provider, error) {
	p.mu.Lock()
	known := p.known
	p.mu.Unlock()
	if known != nil {
		return known, nil
	}
	// Keys are fetched under this context for as long as the provider is known, so it is not the request's.
	lasting := oidc.ClientContext(context.WithoutCancel(ctx), p.client)
	known, err := oidc.NewProvider(lasting, p.config.Issuer)
	if err != nil {
		return nil, p.fault(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known == nil {
		p.known = known
	}
	return p.known, nil
}

func (p *Provider) oauth(at *oidc.Provider) *oauth2.Config {
	endpoint := at.Endpoint()
	endpoint.AuthStyle = p.style(at)
	return &oauth2.Config{
		ClientID: p.config.ClientID, ClientSecret: p.config.ClientSecret, Endpoint: endpoint, RedirectURL: p.config.Redirect.String(),
		Scopes: p.config.Scopes,
	}
}

// style is how the client's secret is sent. The library would try both ways, the second one with a code that was used.
func (p *Provider) style(at *oidc.Provider) oauth2.AuthStyle {
	var offered struct {
		Methods []string `json:"token_endpoint_auth_methods_supported"`
	}
	const post = "client_secret_post"
	if p.config.ClientSecret == "" || at.Claims(&offered) == nil && slices.Contains(offered.Methods, post) && !slices.Contains(offered.Methods, "client_secret_basic") {
		return oauth2.AuthStyleInParams
	}
	return oauth2.AuthStyleInHeader
}

// Flow is what a sign-in that has begun must be finished with. Whoever has it may finish the sign-in of this browser, and of no other.
type Flow struct {
	State    string `json:"state"`
	Nonce    string `json:"nonce"`
	Verifier string `json:"verifier"`
}

// Begin returns where a browser signs in, and what it must come back with.
func (p *Provider) Begin(ctx context.Context) (address string, flow Flow, err error) {
	at, err := p.discover(ctx)
	if err != nil {
		return "", flow, err
	}
	flow = Flow{State: oauth2.GenerateVerifier(), Nonce: oauth2.GenerateVerifier(), Verifier: oauth2.GenerateVerifier()}
	return p.oauth(at).AuthCodeURL(flow.State, oidc.Nonce(flow.Nonce), oauth2.S256ChallengeOption(flow.Verifier)), flow, nil
}

// Finish returns who has signed in, by what the provider sent the browser back with.
func (p *Provider) Finish(ctx context.Context, flow Flow, state, code string) (Person, error) {
	if flow.State == "" || subtle.ConstantTimeCompare([]byte(state), []byte(flow.State)) != 1 || code == "" {
		return Person{}, fmt.Errorf("%w: not what this browser began", ErrRefused)
	}
	at, err := p.discover(ctx)
	if err != nil {
		return Person{}, err
	}
	ctx = oidc.ClientContext(ctx, p.client)
	tokens, err := p.oauth(at).Exchange(ctx, code, oauth2.VerifierOption(flow.Verifier))
	if err != nil {
		if refused, is := errors.AsType[*oauth2.RetrieveError](err); is && refused.ErrorCode == "invalid_grant" {
			return Person{}, fmt.Errorf("%w: the code is not taken", ErrRefused)
		}
		return Person{}, p.fault(withoutBody(err))
	}
	raw, ok := tokens.Extra("id_token").(string)
	if !ok {
		return Person{}, p.fault(errors.New("no id token"))
	}
	signed, err := at.Verifier(&oidc.Config{ClientID: p.config.ClientID}).Verify(ctx, raw)
	if err != nil {
		return Person{}, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	if subtle.ConstantTimeCompare([]byte(signed.Nonce), []byte(flow.Nonce)) != 1 {
		return Person{}, fmt.Errorf("%w: the id token is of another sign-in", ErrRefused)
	}
	var claims struct {
		Email    string `json:"email"`
		Verified any    `json:"email_verified"`
		Name     string `json:"name"`
	}
	if err = signed.Claims(&claims); err != nil {
		return Person{}, p.fault(fmt.Errorf("claims: %w", err))
	}
	return Person{
		Issuer: signed.Issuer, Subject: signed.Subject, Email: claims.Email, Verified: verified(claims.Verified),
		Name: claims.Name,
	}, nil
}

// verified reads email_verified, which some providers write as a text.
func verified(claim any) bool { return claim == any(true) || claim == "true" }

// fault is an error of the provider's, for those who run this server.
func (p *Provider) fault(err error) error {
	if p.config.Logger != nil {
		p.config.Logger.Warn("the sign-in provider cannot be used", slog.Any("err", err))
	}
	return fmt.Errorf("%w: %w", ErrProvider, err)
}

// withoutBody leaves the body of an answer out of an error that is logged: tokens may be in it.
func withoutBody(err error) error {
	if refused, is := errors.AsType[*oauth2.RetrieveError](err); is {
		return fmt.Errorf("answered with status %d %s", refused.Response.StatusCode, refused.ErrorCode)
	}
	return err
}
