package config

import (
	"fmt"
	"net/netip"
	"strings"
	"time"
)

func (c *Config) checkHuman(k *checker) {
	k.oneOf("hitl.on_timeout", c.HITL.OnTimeout, "deny", "cancel")
	k.oneOf("hitl.pending_action_policy", c.HITL.PendingActionPolicy, "refuse", "cancel")
	hooks := &c.Hooks
	for _, h := range []struct {
		key  string
		hook *Hook
	}{
		{"hooks.resolve_context", &hooks.ResolveContext},
		{"hooks.authorize_budget", &hooks.AuthorizeBudget},
		{"hooks.authorize_resolve", &hooks.AuthorizeResolve},
		{"hooks.rate_limit", &hooks.RateLimit},
		{"hooks.on_feedback", &hooks.OnFeedback},
	} {
		if h.hook.URL != "" {
			checkRemote(k, h.key+".url", h.hook.URL)
		}
		k.oneOf(h.key+".on_error", h.hook.OnError, "refuse", "allow")
		within(k, []bound[time.Duration]{{h.key + ".timeout", h.hook.Timeout, time.Millisecond, time.Minute}})
	}
	if _, err := c.Outbound.Prefixes(); err != nil {
		k.problems = append(k.problems, err)
	}
	for i, host := range c.Outbound.AllowHosts {
		if !matches(`^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$`, host) {
			k.failf(fmt.Sprintf("outbound.allow_hosts[%d]", i), "%q is not a host name", host)
		}
	}
}

// Prefixes are the ranges that may be called though they are special. A single address is a range of one.
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
