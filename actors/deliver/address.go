package deliver

import "net/netip"

// special are the address ranges that are not public although they may look global: the special-purpose registries for IPv4 and IPv6
// (RFC 6890 and later additions), and the fixed addresses of hosters' metadata services.
var special = prefixes( //nolint:gochecknoglobals // a table; nothing writes to it
	"0.0.0.0/8",         // this network
	"10.0.0.0/8",        // private
	"100.64.0.0/10",     // shared behind a carrier's NAT
	"127.0.0.0/8",       // loopback
	"168.63.129.16/32",  // a hoster's platform address
	"169.254.0.0/16",    // link-local, metadata services
	"172.16.0.0/12",     // private
	"192.0.0.0/24",      // protocol assignments, metadata services
	"192.0.2.0/24",      // documentation
	"192.31.196.0/24",   // AS112
	"192.52.193.0/24",   // multicast relays
	"192.88.99.0/24",    // 6to4 relays
	"192.168.0.0/16",    // private
	"192.175.48.0/24",   // AS112
	"198.18.0.0/15",     // benchmarks
	"198.51.100.0/24",   // documentation
	"203.0.113.0/24",    // documentation
	"224.0.0.0/4",       // multicast
	"240.0.0.0/4",       // reserved, broadcast
	"2001::/23",         // protocol assignments: tunnels, identifiers, benchmarks
	"2001:db8::/32",     // documentation
	"2002::/16",         // 6to4: IPv4 inside, through whoever relays it
	"2620:4f:8000::/48", // AS112
	"3fff::/20",         // documentation
)

var (
	global6   = netip.MustParsePrefix("2000::/3")     //nolint:gochecknoglobals // all of IPv6 that is assigned to be global
	translate = netip.MustParsePrefix("64:ff9b::/96") //nolint:gochecknoglobals // IPv4 inside, by the network's own NAT64
)

func prefixes(texts ...string) []netip.Prefix {
	list := make([]netip.Prefix, len(texts))
	for index, text := range texts {
		list[index] = netip.MustParsePrefix(text)
	}
	return list
}

// public reports whether an address is a globally routable unicast one.
func public(address netip.Addr) bool {
	if address.Zone() != "" {
		return false
	}
	address = address.Unmap()
	if address.Is6() && translate.Contains(address) {
		bytes := address.As16()
		address = netip.AddrFrom4([4]byte(bytes[12:]))
	}
	if address.Is6() && !global6.Contains(address) {
		return false
	}
	return address.IsValid() && !within(special, address)
}

func within(list []netip.Prefix, address netip.Addr) bool {
	for _, prefix := range list {
		if prefix.Contains(address) {
			return true
		}
	}
	return false
}
