package hook

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"
)

// Names of the hooks, as they stand in questions, logs and metrics.
const (
	resolveContext   = "resolve_context"
	rateLimit        = "rate_limit"
	authorizeBudget  = "authorize_budget"
	authorizeResolve = "authorize_resolve"
)

// What no answer means.
const (
	Refuse = "refuse"
	Allow  = "allow"
)

// Config says which hooks there are. An endpoint without a URL is off.
type Config struct {
	ResolveContext, RateLimit, AuthorizeBudget, AuthorizeResolve Endpoint
	// Headers are the request headers that resolveContext is told, where the request has them. Default Authorization,
	// Cookie.
	Headers []string
}

// Endpoint is where one hook is asked.
type Endpoint struct {
	// URL is https, or http to loopback. Empty = the hook is off.
	URL string
	// Secret signs the questions. Empty = they are not signed.
	Secret string
	// Timeout bounds one question, the wait for a place included. Default 3 s. Longer forgives a slow application and
	// lets requests hang on it.
	Timeout time.Duration
	// OnError is what no answer, or a bad one, means: refuse (the default) or allow.
	OnError string
	// MaxConcurrent bounds the questions under way. Default 64.
	MaxConcurrent int
}

func (c Config) withDefaults() Config {
	if c.Headers == nil {
		c.Headers = []string{"Authorization", "Cookie"}
	}
	for _, e := range []*Endpoint{&c.ResolveContext, &c.RateLimit, &c.AuthorizeBudget, &c.AuthorizeResolve} {
		if e.Timeout == 0 {
			e.Timeout = 3 * time.Second
		}
		if e.OnError == "" {
			e.OnError = Refuse
		}
		if e.MaxConcurrent == 0 {
			e.MaxConcurrent = 64
		}
	}
	return c
}

func (e Endpoint) check() error {
	switch {
	case e.Timeout < 0 || e.MaxConcurrent < 0:
		return errors.New("timeout and concurrency must be positive")
	case e.OnError != Refuse && e.OnError != Allow:
		return fmt.Errorf("on_error is %q, not refuse or allow", e.OnError)
	}
	return checkURL(e.URL)
}

// checkURL accepts addresses to which credentials may travel.
func checkURL(address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return errors.New("URL is malformed")
	case u.User != nil:
		return errors.New("URL must not hold a user name or password")
	case u.Host == "":
		return errors.New("URL has no host")
	case u.Scheme == "https":
		return nil
	case u.Scheme != "http":
		return fmt.Errorf("URL has scheme %q, not https", u.Scheme)
	}
	ip := net.ParseIP(u.Hostname())
	if strings.EqualFold(u.Hostname(), "localhost") || (ip != nil && ip.IsLoopback()) {
		return nil
	}
	return errors.New("URL must be https (plain http is for loopback only)")
}
