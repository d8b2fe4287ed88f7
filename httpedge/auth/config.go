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

// Config configures how callers are authenticated. Start from DefaultConfig.
type Config struct {
	// Enabled turns authentication on. Off trusts every caller: for a loopback listener only. Default false.
	Enabled bool
	// TenantID and ProjectID are those of all callers of this surface. Default "default" for both.
	TenantID, ProjectID string
	// HeaderName is the header with the token. Default Authorization.
	HeaderName string
	// TokenPrefix is stripped if present, in any case; a bare token is accepted, too. Default "Bearer ".
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

// StaticToken is one entry of the static token map: the token's SHA-256 and its user.
type StaticToken struct {
	SHA256 [sha256.Size]byte
	UserID string
}

// JWTConfig configures signed tokens. Exactly one of Secret, PublicKeyPEM and JWKSURL is set.
type JWTConfig struct {
	// Algorithm is the accepted algorithm. Default HS256 with a Secret, otherwise RS256.
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
	// Leeway is the clock difference tolerated for expiry and not-before. Default 30 s.
	Leeway time.Duration
	// RequireExpiry refuses tokens without an expiry. Default false.
	RequireExpiry bool
	// UserIDClaim is the claim with the user id; dots reach into objects. If it is empty or absent: sub, userId,
	// user_id.
	UserIDClaim string
	// UserID is a function in UserIDClaim's place; "" falls through to the usual claims.
	UserID func(claims map[string]any) string
	// CacheEntries bounds the cached tokens, about 150 bytes each. 0 caches none. Default 10,000.
	CacheEntries int
	// CacheTTL is how long a validated token is cached, never beyond its expiry. Longer saves signature checks; a
	// withdrawn key is noticed that much later. Default 1 min.
	CacheTTL time.Duration
	// Refresh is the time between two fetches of the key set. Default 10 min.
	Refresh time.Duration
	// MinRefresh is the least time between two fetches, whatever unknown key ids arrive. Default 5 s.
	MinRefresh time.Duration
	// MaxStale is how long the last valid key set is used while its URL does not answer. Default 24 h.
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

// CalloutConfig configures the callout to an HTTP service.
type CalloutConfig struct {
	// URL gets POST {"token"}: https, or http to loopback. It answers 200 {"valid", "userId", "error"}.
	URL string
	// Timeout bounds one request, including the wait for a slot. Default 3 s.
	Timeout time.Duration
	// MaxConcurrent bounds the requests in progress; more wait within Timeout. Default 64.
	MaxConcurrent int
	// CacheTTL is how long a yes is cached. Default 0: every request asks, so that a withdrawn token is invalid at
	// once.
	CacheTTL time.Duration
	// CacheEntries bounds the cached tokens. Default 10,000.
	CacheEntries int
}

// DefaultCalloutConfig returns the defaults.
func DefaultCalloutConfig() CalloutConfig {
	return CalloutConfig{Timeout: 3 * time.Second, MaxConcurrent: 64, CacheEntries: 10_000}
}

// checkServiceURL accepts addresses to which tokens may be sent and from which keys may be fetched.
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

// withoutURL removes the URL from an error of net/http before it is logged: its query may hold a secret.
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

// newTransport returns a transport without a proxy from the environment. All waits are bounded by the client's timeout.
func newTransport(maxConns int) *http.Transport {
	return &http.Transport{
		MaxConnsPerHost: maxConns, MaxIdleConnsPerHost: min(maxConns, 16), IdleConnTimeout: 30 * time.Second,
		TLSHandshakeTimeout: 5 * time.Second, MaxResponseHeaderBytes: 64 << 10, ForceAttemptHTTP2: true,
	}
}
