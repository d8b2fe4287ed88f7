package hook

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"
)

// Names of the hooks, as used in calls, logs and metrics.
const (
	resolveContext   = "resolve_context"
	rateLimit        = "rate_limit"
	authorizeBudget  = "authorize_budget"
	authorizeResolve = "authorize_resolve"
)

// What a missing or bad answer means.
const (
	Refuse = "refuse"
	Allow  = "allow"
)

// Config configures the hooks. An endpoint without a URL is off.
type Config struct {
	ResolveContext, RateLimit, AuthorizeBudget, AuthorizeResolve Endpoint
	// Headers are the request headers that are passed to resolveContext, if present. Default Authorization, Cookie.
	Headers []string
}

// Endpoint configures the calls of one hook.
type Endpoint struct {
	// URL is https, or http to loopback. Empty = the hook is off.
	URL string
	// Secret signs the calls. Empty = they are not signed.
	Secret string
	// Timeout bounds one call, including the wait for a slot. Default 3 s. A longer one tolerates a slow application
	// and makes requests wait for it.
	Timeout time.Duration
	// OnError is what a missing or bad answer means: refuse (the default) or allow.
	OnError string
	// MaxConcurrent bounds the calls in progress. Default 64.
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

// checkURL accepts addresses to which credentials may be sent.
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
