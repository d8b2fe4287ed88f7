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
	// Proxies are the addresses of trusted proxies: their X-Forwarded-For and X-Forwarded-Proto are believed.
	Proxies []netip.Prefix
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
	return r.fromProxy(request) && strings.EqualFold(request.Header("X-Forwarded-Proto"), "https")
}

func (r *Reached) fromProxy(request endpoint.Request) bool {
	address, err := netip.ParseAddr(request.RemoteIP())
	return err == nil && r.trusted(address)
}

func (r *Reached) trusted(address netip.Addr) bool {
	for _, proxy := range r.Proxies {
		if proxy.Contains(address.Unmap()) {
			return true
		}
	}
	return false
}

// hopAddress reads an address as proxies write it, some with a port.
func hopAddress(hop string) (netip.Addr, error) {
	address, err := netip.ParseAddr(hop)
	if err == nil {
		return address, nil
	}
	with, err := netip.ParseAddrPort(hop)
	return with.Addr(), err
}

// Address is where a request comes from: the connection's address, or the last one that a trusted proxy reports and that is no
// trusted proxy itself.
func (r *Reached) Address(request endpoint.Request) string {
	address, known := r.address(request)
	if !known {
		return request.RemoteIP()
	}
	return address.String()
}

// client is the address by which attempts are counted: the connection's, or the last one that a trusted proxy reports and that is
// no trusted proxy itself. Of IPv6 it is the network, since a client has all addresses of one.
func (r *Reached) client(request endpoint.Request) string {
	address, known := r.address(request)
	if !known {
		return request.RemoteIP()
	}
	const network = 64
	if address.Is6() {
		if prefix, err := address.WithZone("").Prefix(network); err == nil {
			return prefix.String()
		}
	}
	return address.String()
}

func (r *Reached) address(request endpoint.Request) (address netip.Addr, known bool) {
	address, err := netip.ParseAddr(request.RemoteIP())
	if err != nil {
		return address, false
	}
	address = address.Unmap()
	if headers, ok := request.(endpoint.Headers); ok && r.trusted(address) {
		hops := strings.Split(strings.Join(headers.HeaderValues("X-Forwarded-For"), ","), ",")
		for i := len(hops) - 1; i >= 0 && r.trusted(address); i-- {
			hop, err := hopAddress(strings.TrimSpace(hops[i]))
			if err != nil {
				break // what comes before it is not to be believed
			}
			address = hop.Unmap()
		}
	}
	return address, true
}
