package auth

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Config says how callers are authenticated. Start from DefaultConfig.
type Config struct {
	// Enabled turns authentication on. Off trusts every caller: for a loopback listener only. Default false.
	Enabled bool
	// TenantID and ProjectID are what all callers of this surface belong to. Default "default" both.
	TenantID, ProjectID string
	// HeaderName is the header with the token. Default Authorization.
	HeaderName string
	// TokenPrefix is stripped when it is there, in any case; a bare token is accepted too. Default "Bearer ".
	TokenPrefix string
	// ExcludeRoutes are paths after the base path that need no token: exact, or with * for anything. Default none.
	ExcludeRoutes []string
	// UserIDFromQuery lets ?userId= name the user of a request without identity. It is a claim, never an identity.
	// Default true.
	UserIDFromQuery bool
	// MaxTokenBytes bounds a token. Longer ones are refused unread. Default 8 KiB.
	MaxTokenBytes int
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		TenantID: "default", ProjectID: "default", HeaderName: "Authorization", TokenPrefix: "Bearer ",
		UserIDFromQuery: true, MaxTokenBytes: 8 << 10,
	}
}

// StaticToken is one entry of the static token map: the token's SHA-256 and the user it stands for.
type StaticToken struct {
	SHA256 [sha256.Size]byte
	UserID string
}

// JWTConfig is about signed tokens. Exactly one of Secret, PublicKeyPEM and JWKSURL is set.
type JWTConfig struct {
	// Algorithm is the one accepted. Default HS256 with a Secret, else RS256.
	Algorithm string
	// Secret is the shared secret of the HS algorithms; should have at least 32 bytes.
	Secret []byte
	// PublicKeyPEM is a public key or certificate in PEM form.
	PublicKeyPEM []byte
	// JWKSURL is the address of a key set: https, or http to loopback.
	JWKSURL string
	// Issuer that tokens must name. Empty = any.
	Issuer string
	// Audiences of which a token must name one. Empty = any.
	Audiences []string
	// Leeway forgives a difference of clocks at expiry and not-before. Default 30 s.
	Leeway time.Duration
	// RequireExpiry refuses tokens without an expiry. Default false.
	RequireExpiry bool
	// UserIDClaim is the claim with the user id; dots reach into objects. Absent: sub, userId, user_id.
	UserIDClaim string
	// UserID is a function in UserIDClaim's place; "" falls through to the usual claims.
	UserID func(claims map[string]any) string
	// CacheEntries bounds the remembered tokens, about 150 bytes each. 0 remembers none. Default 10,000.
	CacheEntries int
	// CacheTTL is how long a checked token is believed, never beyond its expiry. Longer saves signature checks; a
	// withdrawn key is noticed that much later. Default 1 min.
	CacheTTL time.Duration
	// Refresh is the time between two fetches of the key set. Default 10 min.
	Refresh time.Duration
	// MinRefresh is the least time between two fetches, whatever unknown key ids arrive. Default 5 s.
	MinRefresh time.Duration
	// MaxStale is how long the last good key set serves while its URL does not. Default 24 h.
	MaxStale time.Duration
	// FetchTimeout bounds one fetch. Default 5 s.
	FetchTimeout time.Duration
	// MaxKeySetBytes bounds the key set. Default 512 KiB.
	MaxKeySetBytes int64
}

// DefaultJWTConfig returns the defaults.
func DefaultJWTConfig() JWTConfig {
	return JWTConfig{
		Leeway: 30 * time.Second, CacheEntries: 10_000, CacheTTL: time.Minute, Refresh: 10 * time.Minute,
		MinRefresh: 5 * time.Second, MaxStale: 24 * time.Hour, FetchTimeout: 5 * time.Second, MaxKeySetBytes: 512 << 10,
	}
}

// CalloutConfig is about asking an HTTP service.
type CalloutConfig struct {
	// URL is asked with POST {"token"}: https, or http to loopback. It answers 200 {"valid", "userId", "error"}.
	URL string
	// Timeout bounds one question, the wait for a place included. Default 3 s.
	Timeout time.Duration
	// MaxConcurrent bounds the questions under way; more wait within Timeout. Default 64.
	MaxConcurrent int
	// CacheTTL is how long a yes is remembered. Default 0: every request asks, so that a withdrawn token ends at once.
	CacheTTL time.Duration
	// CacheEntries bounds the remembered tokens. Default 10,000.
	CacheEntries int
}

// DefaultCalloutConfig returns the defaults.
func DefaultCalloutConfig() CalloutConfig {
	return CalloutConfig{Timeout: 3 * time.Second, MaxConcurrent: 64, CacheEntries: 10_000}
}

// checkServiceURL accepts addresses to which tokens, or from which keys, may travel.
func checkServiceURL(u *url.URL) error {
	switch {
	case u.User != nil:
		return errors.New("service URL must not hold a user name or password")
	case u.Host == "":
		return errors.New("service URL has no host")
	case u.Scheme == "https":
		return nil
	case u.Scheme != "http":
		return fmt.Errorf("service URL has scheme %q, not https", u.Scheme)
	}
	ip := net.ParseIP(u.Hostname())
	if strings.EqualFold(u.Hostname(), "localhost") || (ip != nil && ip.IsLoopback()) {
		return nil
	}
	return errors.New("service URL must be https (plain http is for loopback only)")
}

// withoutURL takes the URL from an error of net/http, which is logged: its query may be a secret.
func withoutURL(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}

func parseServiceURL(address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return errors.New("service URL is malformed")
	}
	return checkServiceURL(u)
}

// newTransport makes connections of our own: no proxy from the environment, all waits bounded by the client's timeout.
func newTransport(maxConns int) *http.Transport {
	return &http.Transport{
		MaxConnsPerHost: maxConns, MaxIdleConnsPerHost: min(maxConns, 16), IdleConnTimeout: 30 * time.Second,
		TLSHandshakeTimeout: 5 * time.Second, MaxResponseHeaderBytes: 64 << 10, ForceAttemptHTTP2: true,
	}
}
