package aegis

import (
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	// How browsers and HTTP clients read a host in other letters, so that a look-alike is judged as the host that is called.
	"golang.org/x/net/idna"
)

// reachHosts judges which hosts a text names, in each way that a client may read it.
func (j *judgement) reachHosts(text, place, key string) {
	rules := j.shield.Rules
	if !j.leadsOut() || len(rules.AllowedDomains)+len(rules.DeniedDomains) == 0 {
		return
	}
	if j.allowed == nil {
		j.allowed, j.denied = domainsOf(rules.AllowedDomains), domainsOf(rules.DeniedDomains)
	}
	judged := map[string]bool{}
	judge := func(host string, allows bool) {
		if judged[host] {
			return
		}
		judged[host] = true // the readings that may allow come first
		switch {
		case j.denied.hold(host):
			j.find(Block, High, "domain_denied", "host "+host+" is denied", place)
		case allows && len(rules.AllowedDomains) > 0 && !j.allowed.hold(host):
			j.find(Block, High, "domain_not_allowed", "host "+host+" is not among those that are allowed", place)
		}
	}
	for _, host := range hosts(text, key) {
		judge(host, true)
	}
	if strings.Contains(text, `\`) { // for some clients the other slash, for others a letter like any
		for _, host := range hosts(strings.ReplaceAll(text, `\`, "/"), key) {
			judge(host, true)
		}
	}
	if strings.ContainsAny(text, "\t\r\n") { // some clients leave them out; in prose they end a URL
		whole := isAddress(key) && !strings.Contains(text, " ")
		for _, host := range hosts(strings.NewReplacer("\t", "", "\r", "", "\n", "", `\`, "/").Replace(text), key) {
			judge(host, whole)
		}
	}
}

// hosts are the hosts that a text names: of its URLs, and the text itself where its name says that it is one.
func hosts(text, key string) []string {
	var all []string
	stop := 0 // where what may be a host ends
	add := func(from int) {
		if stop <= from {
			stop = len(text)
			if at := strings.IndexAny(text[from:], " \t\r\n\"'<>`/?#"); at >= 0 {
				stop = from + at
			}
		}
		if host := hostOf(text[from:stop]); host != "" {
			all = append(all, host)
		}
	}
	for at := 0; at < len(text); at++ {
		switch {
		case text[at] == ':' && scheme(text[:at]): // of these any number of slashes leads to a host
			at = len(text) - len(strings.TrimLeft(text[at+1:], `/\`))
			add(at)
			at-- // another may follow at once
		case strings.HasPrefix(text[at:], "//"):
			at++
			add(at + 1)
		}
	}
	if len(all) == 0 && isAddress(key) && !strings.ContainsAny(text, " \t\n") {
		stop = 0
		add(0)
	}
	return all
}

// scheme says whether a text ends in the name of a scheme whose URLs have a host, whatever follows.
func scheme(text string) bool {
	at := len(text)
	for at > 0 && (text[at-1]|0x20 >= 'a' && text[at-1]|0x20 <= 'z') {
		at--
	}
	return slices.Contains([]string{"http", "https", "ws", "wss", "ftp"}, strings.ToLower(text[at:]))
}

// isAddress says whether a member of this name is an address, also without a scheme: url, base_url, webhookUrl, hosts.
func isAddress(key string) bool {
	if strings.EqualFold(key, "address") || strings.EqualFold(key, "server") {
		return true
	}
	for _, name := range []string{"host", "hostname", "domain", "url", "uri", "endpoint"} {
		for _, form := range []string{name, name + "s"} {
			at := len(key) - len(form)
			if at < 0 || !strings.EqualFold(key[at:], form) {
				continue
			}
			if at == 0 || strings.IndexByte("_-. ", key[at-1]) >= 0 || key[at] >= 'A' && key[at] <= 'Z' {
				return true
			}
		}
	}
	return false
}

// maxHost is more than a host has that can be called, in its longest spelling.
const maxHost = 1024

// hostOf is the host of a URL's authority; of what is none, what stands where the host would.
func hostOf(authority string) string {
	end := authority[max(len(authority)-maxHost, 0):]
	if at := strings.LastIndexByte(end, '@'); at >= 0 {
		authority = end[at+1:]
	} else if len(authority) > maxHost {
		authority = authority[:maxHost] // the rest is zeros of a port
	}
	if inside, is := strings.CutPrefix(authority, "["); is {
		inside, _, _ = strings.Cut(inside, "]")
		return plainHost(inside)
	}
	authority, _, _ = strings.Cut(authority, ":")
	return plainHost(authority)
}

// plainHost is a host as it is compared: as it is looked up, without the dot of the root, and an address in its usual form.
func plainHost(host string) string {
	if plain, err := url.PathUnescape(host); err == nil {
		host = plain
	}
	if strings.IndexFunc(host, func(r rune) bool { return r > unicode.MaxASCII }) >= 0 {
		// What it makes of a host that is none is compared all the same.
		if looked, _ := idna.New(idna.MapForLookup(), idna.StrictDomainName(false)).ToASCII(host); looked != "" {
			host = looked
		}
	}
	host = strings.TrimRight(strings.ToLower(host), ".")
	if address, err := netip.ParseAddr(host); err == nil {
		return address.Unmap().String()
	}
	if address, is := numbers(host); is {
		return address.String()
	}
	return host
}

// numbers reads an IPv4 address as C and browsers do: up to four numbers, decimal, octal or hexadecimal, the last of which fills the rest.
func numbers(host string) (netip.Addr, bool) {
	var none netip.Addr
	parts := strings.Split(host, ".")
	if len(parts) > 4 || host == "" || host[0] < '0' || host[0] > '9' {
		return none, false
	}
	var sum uint64
	for i, part := range parts {
		base := 10
		if hex, is := strings.CutPrefix(part, "0x"); is {
			part, base = hex, 16
		} else if len(part) > 1 && part[0] == '0' {
			base = 8
		}
		if part == "" && base == 16 {
			part = "0"
		}
		number, err := strconv.ParseUint(part, base, 32)
		last := i == len(parts)-1
		if err != nil || !last && number > 255 || last && number >= 1<<(8*(5-len(parts))) {
			return none, false
		}
		if last {
			sum |= number
		} else {
			sum |= number << (8 * (3 - i))
		}
	}
	return netip.AddrFrom4([4]byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)}), true //nolint:gosec // four bytes, said above
}

// domains are those of a rule, as hosts are compared.
type domains map[string]bool

func domainsOf(rule []string) domains {
	all := make(domains, len(rule))
	for _, domain := range rule {
		all[plainHost(strings.TrimPrefix(strings.TrimPrefix(domain, "*"), "."))] = true
	}
	return all
}

// hold says whether a host is one of the domains or below one.
func (d domains) hold(host string) bool {
	for {
		if d[host] {
			return true
		}
		_, parent, is := strings.Cut(host, ".")
		if !is {
			return false
		}
		host = parent
	}
}
