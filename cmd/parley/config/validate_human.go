package config

import (
	"fmt"
	"net/netip"
	"reflect"
	"regexp"
	"strings"
)

func (c *Config) checkHuman(k *checker) {
	hooks := reflect.ValueOf(&c.Hooks).Elem()
	for _, f := range fieldsOf(hooks.Type()) {
		if hook, ok := hooks.Field(f.index).Interface().(Hook); ok && hook.URL != "" {
			checkRemote(k, "hooks."+f.key+".url", hook.URL)
		}
	}
	if _, err := c.Outbound.Prefixes(); err != nil {
		k.problems = append(k.problems, err)
	}
	for i, host := range c.Outbound.AllowHosts {
		if !regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$`).MatchString(host) {
			k.failf(fmt.Sprintf("outbound.allow_hosts[%d]", i), "%q is not a host name", host)
		}
	}
}

// Prefixes returns the special address ranges that may be called. A single address is a range of one.
func (o *Outbound) Prefixes() ([]netip.Prefix, error) {
	prefixes := make([]netip.Prefix, 0, len(o.Allow))
	for i, text := range o.Allow {
		if !strings.Contains(text, "/") {
			address, err := netip.ParseAddr(text)
			if err != nil {
				return nil, fmt.Errorf("outbound.allow[%d]: %q is not an address range such as 10.1.0.0/16", i, text)
			}
			prefixes = append(prefixes, netip.PrefixFrom(address, address.BitLen()))
			continue
		}
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("outbound.allow[%d]: %q is not an address range such as 10.1.0.0/16", i, text)
		}
		prefixes = append(prefixes, prefix.Masked())
	}
	return prefixes, nil
}
