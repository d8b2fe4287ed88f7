package endpoint

import (
	"fmt"
	"net/netip"
	"strings"
)

// Proxies are the addresses that are believed when they say for whom they ask. The zero value believes nobody.
type Proxies struct {
	Trusted []netip.Prefix
	// Header is where they say it: X-Forwarded-For or Forwarded (RFC 7239). Only one is read, since a proxy hands on what a client wrote
	// into the other. "" = X-Forwarded-For.
	Header string
	// Announced means that they begin each connection with a PROXY protocol header; see accept.Announce. The header field holds as well, where
	// the connection is another trusted proxy's.
	Announced bool
}

// The headers that Proxies may read.
const (
	HeaderForwardedFor = "X-Forwarded-For"
	HeaderForwarded    = "Forwarded"
)

// trust reports whether an address is one of them.
func (p Proxies) trust(address netip.Addr) bool {
	for _, proxy := range p.Trusted {
		if proxy.Contains(address) {
			return true
		}
	}
	return false
}

// client is whom a connection's other end asks for: itself, or the last address that a trusted proxy reports and that is no trusted proxy
// itself. What stands before an entry that names no address is not believed.
func (p Proxies) client(peer netip.Addr, values func(header string) []string) netip.Addr {
	peer = peer.Unmap()
	if len(p.Trusted) == 0 || !p.trust(peer) {
		return peer
	}
	header, read := HeaderForwardedFor, hopAddress
	if strings.EqualFold(p.Header, HeaderForwarded) {
		header, read = HeaderForwarded, forwardedAddress
	}
	hops := strings.Split(strings.Join(values(header), ","), ",")
	for i := len(hops) - 1; i >= 0 && p.trust(peer); i-- {
		hop, err := read(strings.TrimSpace(hops[i]))
		if err != nil {
			break
		}
		peer = hop.Unmap().WithZone("")
	}
	return peer
}

// hopAddress reads an address as proxies write it, some with a port.
func hopAddress(hop string) (netip.Addr, error) {
	address, err := netip.ParseAddr(hop)
	if err == nil {
		return address, nil
	}
	if bare, is := strings.CutPrefix(hop, "["); is { // an IPv6 address without a port
		if inner, closed := strings.CutSuffix(bare, "]"); closed {
			return netip.ParseAddr(inner)
		}
	}
	with, err := netip.ParseAddrPort(hop)
	return with.Addr(), err
}

// forwardedAddress reads the address of an element of Forwarded: for=192.0.2.1;proto=https, for="[2001:db8::1]:443". A quoted comma, which
// no address holds, would have been cut before: then it names none.
func forwardedAddress(element string) (netip.Addr, error) {
	for pair := range strings.SplitSeq(element, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
		if strings.EqualFold(name, "for") {
			if quoted, is := strings.CutPrefix(value, `"`); is {
				value = strings.TrimSuffix(quoted, `"`)
			}
			return hopAddress(value)
		}
	}
	return netip.Addr{}, fmt.Errorf("%q names no address", element)
}
