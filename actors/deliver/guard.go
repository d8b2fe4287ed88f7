package deliver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"
)

// ErrForbiddenAddress is matched by the error of a request to an address that the guard refuses.
var ErrForbiddenAddress = errors.New("deliver: address not allowed")

// ErrRedirect is matched by the error of a request that was redirected too often, or to a forbidden place.
var ErrRedirect = errors.New("deliver: redirect not followed")

// Limits of one connection; the request's own deadline is the caller's.
const (
	resolveTimeout  = 2 * time.Second // of a judgement before any connection
	dialTimeout     = 10 * time.Second
	handshake       = 10 * time.Second
	idleTimeout     = 90 * time.Second
	maxHeaderBytes  = 64 << 10 // of an answer
	idlePerHost     = 64
	idleInAll       = 256 // each is a descriptor, and anybody may name a host to post to
	defaultHops     = 5
	keepAlivePeriod = 30 * time.Second
)

// GuardConfig determines what a Guard allows besides public addresses.
type GuardConfig struct {
	// Allow are addresses that may be reached although they are private or special.
	Allow []netip.Prefix
	// AllowHosts are host names, or host:port pairs, that may be reached whatever they resolve to.
	AllowHosts []string
	// MaxRedirects bounds the hops of one request; one more fails it. 0 = 5; negative = redirects are not followed.
	MaxRedirects int
}

// Guard decides where outbound requests may go. Safe for concurrent use.
type Guard struct {
	allow     []netip.Prefix
	hosts     map[string]bool
	hops      int
	transport *http.Transport
	direct    *direct
	resolve   func(ctx context.Context, network, host string) ([]netip.Addr, error)
	resolver  *net.Resolver // of connections; nil = the process's own
}

// NewGuard makes a Guard.
func NewGuard(config GuardConfig) *Guard {
	guard := &Guard{hosts: make(map[string]bool, len(config.AllowHosts)), hops: config.MaxRedirects, resolve: net.DefaultResolver.LookupNetIP}
	if guard.hops == 0 {
		guard.hops = defaultHops
	}
	for _, prefix := range config.Allow {
		if prefix.Addr().Is4In6() && prefix.Bits() >= 96 { // addresses are judged unmapped
			prefix = netip.PrefixFrom(prefix.Addr().Unmap(), prefix.Bits()-96)
		}
		guard.allow = append(guard.allow, prefix.Masked())
	}
	for _, host := range config.AllowHosts {
		guard.hosts[normalHost(host)] = true
	}
	guard.transport = &http.Transport{
		DialContext:            guard.dial,
		TLSHandshakeTimeout:    handshake,
		IdleConnTimeout:        idleTimeout,
		MaxIdleConns:           idleInAll,
		MaxIdleConnsPerHost:    idlePerHost,
		MaxResponseHeaderBytes: maxHeaderBytes,
		ForceAttemptHTTP2:      true,
	}
	guard.direct = &direct{dial: guard.dial, next: guard.transport}
	return guard
}

// Client returns an HTTP client that reaches only what the guard allows. The timeout bounds a whole request, including
// reading its answer; 0 = none. Clients of one guard share their idle connections.
func (g *Guard) Client(timeout time.Duration) *http.Client {
	return &http.Client{Transport: g.transport, CheckRedirect: g.redirect, Timeout: timeout}
}

// Direct is like Client, for calls that must be fast: where possible it makes them in the caller's goroutine. It has no timeout.
func (g *Guard) Direct() *http.Client {
	return &http.Client{Transport: g.direct, CheckRedirect: g.redirect}
}

// Close closes idle connections.
func (g *Guard) Close() { g.direct.CloseIdleConnections() }

// Allowed reports whether the guard allows an address.
func (g *Guard) Allowed(address netip.Addr) bool {
	return public(address) || within(g.allow, address.Unmap())
}

// Judge checks in advance whether a URL can be posted to. Errors: ErrBadURL if it is not a valid URL, ErrForbiddenAddress if none of
// its addresses is allowed. A name that cannot be resolved now passes: every connection is checked when it is made.
func (g *Guard) Judge(ctx context.Context, text string) error {
	if err := CheckURL(text); err != nil {
		return err
	}
	target, err := url.Parse(text)
	if err != nil {
		return ErrBadURL
	}
	host := target.Hostname()
	if g.hosts[normalHost(host)] || g.hosts[normalHost(target.Host)] {
		return nil
	}
	if literal, invalid := netip.ParseAddr(host); invalid == nil {
		if !g.Allowed(literal) {
			return ErrForbiddenAddress
		}
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	addresses, err := g.resolve(ctx, "ip", host)
	if err != nil || len(addresses) == 0 || slices.ContainsFunc(addresses, g.Allowed) {
		return nil
	}
	return ErrForbiddenAddress
}

// Public reports whether all addresses of a URL's host are allowed: false for a name that has none or cannot be resolved now.
func (g *Guard) Public(ctx context.Context, text string) bool {
	target, err := url.Parse(text)
	if err != nil {
		return false
	}
	host := target.Hostname()
	if g.hosts[normalHost(host)] || g.hosts[normalHost(target.Host)] {
		return true
	}
	if literal, invalid := netip.ParseAddr(host); invalid == nil {
		return g.Allowed(literal)
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	addresses, err := g.resolve(ctx, "ip", host)
	return err == nil && len(addresses) > 0 && !slices.ContainsFunc(addresses, func(a netip.Addr) bool { return !g.Allowed(a) })
}

func (g *Guard) dial(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlivePeriod, Resolver: g.resolver}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if !g.hosts[normalHost(host)] && !g.hosts[normalHost(address)] {
		dialer.Control = g.control
	}
	return dialer.DialContext(ctx, network, address)
}

// control runs after name resolution, for each address that is about to be connected to.
func (g *Guard) control(_, address string, _ syscall.RawConn) error {
	target, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrForbiddenAddress, err)
	}
	if !g.Allowed(target.Addr()) {
		return fmt.Errorf("%w: %s", ErrForbiddenAddress, target.Addr())
	}
	return nil
}

// redirect checks the next hop of a request and removes headers that another host must not see. net/http drops only the ones it
// knows, and would pass on the caller's own (keys, signatures).
func (g *Guard) redirect(next *http.Request, before []*http.Request) error {
	if len(before) > g.hops || g.hops < 0 {
		return fmt.Errorf("%w: more than %d", ErrRedirect, max(g.hops, 0))
	}
	last := before[len(before)-1]
	if next.URL.Scheme != "https" && (next.URL.Scheme != "http" || last.URL.Scheme == "https") {
		return fmt.Errorf("%w: from %s to %s", ErrRedirect, last.URL.Scheme, next.URL.Scheme)
	}
	next.Header.Del("Referer")
	if next.URL.User != nil {
		return fmt.Errorf("%w: it names a user", ErrRedirect)
	}
	strange := !sameHost(before[0], next)
	for _, hop := range before {
		strange = strange || !sameHost(before[0], hop)
	}
	if strange { // for good, or a way there and back would carry them
		for name := range next.Header {
			if !forAll(name) {
				next.Header.Del(name)
			}
		}
		next.Host = ""
	}
	return nil
}

// sameHost compares the port as well, since another service on the same host is another party. A change from http to https on one
// host changes the port with the scheme and stays with the same party.
func sameHost(a, b *http.Request) bool {
	if !strings.EqualFold(a.URL.Hostname(), b.URL.Hostname()) {
		return false
	}
	if a.URL.Port() == "" && b.URL.Port() == "" {
		return true
	}
	return port(a) == port(b)
}

func port(request *http.Request) string {
	if own := request.URL.Port(); own != "" {
		return own
	}
	if request.URL.Scheme == "https" {
		return "443"
	}
	return "80"
}

// forAll names the headers that hold no secrets and that another host needs.
func forAll(name string) bool {
	switch http.CanonicalHeaderKey(name) {
	case "Accept", "Accept-Encoding", "Accept-Language", "Content-Length", "Content-Type", "Idempotency-Key", "User-Agent":
		return true
	}
	return false
}

// normalHost returns the normal spelling of a host, or of host:port.
func normalHost(host string) string {
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		name, port = strings.Trim(host, "[]"), ""
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if port == "" {
		return name
	}
	return net.JoinHostPort(name, port)
}
