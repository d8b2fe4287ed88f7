// Package site decides which browser requests a server without authentication accepts: those of its own pages, and of
// pages that the operator has named. Any web page can make a local user's browser send requests to loopback, and can
// read the responses by means of a name that it resolves to loopback (DNS rebinding). The package has only rules: it
// reads no requests by itself, and does not deal with tokens, which other pages do not have.
package site

import (
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"parley/actors/core/failure"
	"parley/proto/failurepb"
)

// Policy configures what is allowed besides the server's own pages.
type Policy struct {
	// Hosts are further names of the server, without a port, for instance that of a proxy that passes on its Host.
	// Names are the names of the machine.
	Hosts, Names []string
	// Origins are the pages of other origins that may call, as in endpoint.CORS.
	Origins []string
	// AnyHost turns the check of names off, for a server that listens on other addresses than loopback.
	AnyHost bool
}

// Loopback reports whether an address is only reachable from this machine.
func Loopback(address net.Addr) bool {
	tcp, ok := address.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// Request holds what a browser reports about the origin of a request (RFC 9110, 7.2; the Fetch standard; Fetch
// Metadata).
type Request struct {
	Method, Host, Origin            string
	FetchSite, FetchMode, FetchDest string // Sec-Fetch-Site, -Mode, -Dest
}

// Browser reports whether a browser sent the request on behalf of a page.
func (r Request) Browser() bool { return r.Origin != "" || r.FetchSite != "" }

// Refuse returns why the request is refused; nil if it is accepted.
func (p Policy) Refuse(r Request) *failure.Failure {
	host := hostName(r.Host)
	if !p.AnyHost && !p.known(host) {
		return refuse(failure.UnknownHost, host)
	}
	switch {
	case r.Method == "OPTIONS": // a preflight only asks
		return nil
	case r.Origin != "":
		if p.sameOrigin(r) || slices.Contains(p.Origins, "*") || slices.Contains(p.Origins, r.Origin) {
			return nil
		}
		return refuse(failure.ForeignOrigin, r.Origin)
	case r.FetchSite == "cross-site", r.FetchSite == "same-site": // other ports of this machine are other programs
		if (r.Method == "GET" || r.Method == "HEAD") && r.FetchMode == "navigate" && r.FetchDest == "document" {
			return nil // a link: the linking page learns nothing
		}
		return failure.New(failurepb.Code_FORBIDDEN, failure.ForeignSite)
	}
	return nil
}

func refuse(reason failure.Reason, from string) *failure.Failure {
	return failure.New(failurepb.Code_FORBIDDEN, reason).Param("from", printable(from))
}

// known reports whether a host is localhost or a configured name. Addresses are accepted, since they cannot be rebound,
// and so is a missing host, which no browser sends.
func (p Policy) known(host string) bool {
	if host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return slices.ContainsFunc(slices.Concat(p.Hosts, p.Names), func(name string) bool { return strings.EqualFold(name, host) })
}

// sameOrigin compares an origin's host with the Host of the request. The server does not know the scheme by which it is
// reached; an origin of another scheme would have another port, too.
func (p Policy) sameOrigin(r Request) bool {
	origin, err := url.Parse(r.Origin)
	return err == nil && origin.Host != "" && (origin.Scheme == "http" || origin.Scheme == "https") && strings.EqualFold(origin.Host, r.Host)
}

// hostName returns a Host without its port, in lower case.
func hostName(host string) string {
	host = strings.ToLower(host)
	if strings.HasPrefix(host, "[") {
		name, _, _ := strings.Cut(host[1:], "]")
		return name
	}
	if name, port, ok := strings.Cut(host, ":"); ok && !strings.Contains(port, ":") {
		host = name
	}
	return strings.TrimSuffix(host, ".")
}

// printable returns the beginning of a text, without unprintable characters.
func printable(text string) string {
	const most = 100
	return strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' {
			return '?'
		}
		return c
	}, text[:min(len(text), most)])
}
