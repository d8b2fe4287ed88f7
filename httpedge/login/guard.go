package login

import (
	"net/netip"
	"net/url"
	"strings"

	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/httpedge/endpoint"
	"parley/proto/failurepb"
)

// Reached says how clients reach the server.
type Reached struct {
	// URL is where people find the server, e.g. https://parley.example.com; nil = as the request's Host says, without TLS.
	URL *url.URL
}

// guard removes identity headers, and refuses what a page of another site has a browser send. Reads are let through: the page does
// not see the answer, and a link may lead here.
func (s *Sessions) guard(request endpoint.Request) *machine.Failure {
	if headers, ok := request.(endpoint.Headers); ok {
		for _, name := range identityHeaders() {
			headers.ReplaceHeader(name, "")
		}
	}
	switch request.Method() {
	case "GET", "HEAD", "OPTIONS":
		return nil
	}
	if s.config.Reached.foreign(request) {
		return failure.New(failurepb.Code_FORBIDDEN, failure.ForeignPage)
	}
	return nil
}

// foreign says that a browser sent the request for a page of another origin. Browsers send Sec-Fetch-Site where they trust the
// connection, and Origin with everything that is no GET; neither can be set by a page.
func (r *Reached) foreign(request endpoint.Request) bool {
	switch request.Header("Sec-Fetch-Site") {
	case "", "same-origin", "none":
	default:
		return true
	}
	origin := request.Header("Origin")
	if origin == "" {
		return false
	}
	from, err := url.Parse(origin)
	if err != nil || from.Host == "" || from.Scheme != "http" && from.Scheme != "https" { // "null", for example
		return true
	}
	if r.URL != nil && strings.EqualFold(from.Host, r.URL.Host) {
		return from.Scheme != r.URL.Scheme
	}
	return !strings.EqualFold(from.Host, request.Header("Host"))
}

// securely says that the client's connection is encrypted, as far as is known.
func (r *Reached) securely(request endpoint.Request) bool {
	if r.URL != nil && r.URL.Scheme == "https" {
		return true
	}
	proxied, is := request.(endpoint.Proxied)
	return is && proxied.FromProxy() && strings.EqualFold(request.Header("X-Forwarded-Proto"), "https")
}

// client is the address by which attempts are counted. Of IPv6 it is the network, since a client has all addresses of one.
func client(request endpoint.Request) string {
	const network = 64
	address, err := netip.ParseAddr(request.RemoteIP())
	if err != nil || !address.Is6() {
		return request.RemoteIP()
	}
	prefix, err := address.WithZone("").Prefix(network)
	if err != nil { // an address of 128 bits has one
		return request.RemoteIP()
	}
	return prefix.String()
}
