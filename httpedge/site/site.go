// Package site says which requests a server without authentication takes from browsers: those of its own pages, and of pages
// that the operator has named. Any page of the web can have the browser of somebody on this machine send requests to loopback,
// and read the answers by a name that it lets resolve there (DNS rebinding). Rules only: it reads no request by itself, and knows
// nothing of tokens, which other pages do not have.
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

// Policy is what is allowed besides the server's own pages.
type Policy struct {
	// Hosts are further names by which the server is known, without a port: of a proxy that passes its Host on, say. Names are those
	// of the machine.
	Hosts, Names []string
	// Origins are the pages of other origins that may call, as in endpoint.CORS.
	Origins []string
	// AnyHost switches the check of names off, for a server that is reached by other addresses than loopback.
	AnyHost bool
}

// Loopback says whether an address is one that only this machine has.
func Loopback(address net.Addr) bool {
	tcp, ok := address.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// Request is what a browser tells of who sends a request (RFC 9110, 7.2; the Fetch standard; Fetch Metadata).
type Request struct {
	Method, Host, Origin            string
	FetchSite, FetchMode, FetchDest string // Sec-Fetch-Site, -Mode, -Dest
}

// Browser says whether a browser sent the request on behalf of a page.
func (r Request) Browser() bool { return r.Origin != "" || r.FetchSite != "" }

// Refuse says why the request is not taken; nil = it is.
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
			return nil // a link: the page that it stands on learns nothing
		}
		return failure.New(failurepb.Code_FORBIDDEN, failure.ForeignSite)
	}
	return nil
}

func refuse(reason failure.Reason, from string) *failure.Failure {
	return failure.New(failurepb.Code_FORBIDDEN, reason).Param("from", printable(from))
}

// known says whether a name is one that only this machine resolves, or one of those that were named. An address is no name:
// nobody can let it resolve elsewhere. A request without one is no browser's.
func (p Policy) known(host string) bool {
	if host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return slices.ContainsFunc(slices.Concat(p.Hosts, p.Names), func(name string) bool { return strings.EqualFold(name, host) })
}

// sameOrigin compares what an origin has of a host with the Host of the request. The server does not know under which scheme it
// is reached; a browser that was led to it by another one would name another port, too.
func (p Policy) sameOrigin(r Request) bool {
	origin, err := url.Parse(r.Origin)
	return err == nil && origin.Host != "" && (origin.Scheme == "http" || origin.Scheme == "https") && strings.EqualFold(origin.Host, r.Host)
}

// hostName is a Host without its port, in lower case.
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

// printable is the beginning of a text without what is not to be shown.
func printable(text string) string {
	const most = 100
	return strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' {
			return '?'
		}
		return c
	}, text[:min(len(text), most)])
}
