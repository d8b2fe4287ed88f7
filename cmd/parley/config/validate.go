package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Validate checks all settings and normalises those with two spellings. Its error names every wrong setting, one per
// line.
func (c *Config) Validate() error {
	c.HTTP.BasePath = strings.TrimRight(c.HTTP.BasePath, "/")
	k := &checker{}
	c.checkProcess(k)
	c.checkBounds(k)
	c.checkCluster(k)
	c.checkHTTP(k)
	c.checkAuth(k)
	c.checkHuman(k)
	c.checkClient(k)
	c.checkAccounts(k)
	c.checkMail(k)
	c.checkOIDC(k)
	c.checkLicense(k)
	c.checkWebhook(k)
	c.checkSecrets(k)
	if _, err := c.AgentRecords(); err != nil {
		k.problems = append(k.problems, err)
	}
	return errors.Join(k.problems...)
}

// checker collects problems.
type checker struct{ problems []error }

func (k *checker) failf(key, format string, args ...any) {
	k.problems = append(k.problems, fmt.Errorf("%s: %w", key, fmt.Errorf(format, args...)))
}

func (k *checker) oneOf(key, value string, allowed ...string) {
	if !slices.Contains(allowed, value) {
		k.failf(key, "%q is not one of %s", value, strings.Join(allowed, ", "))
	}
}

func (c *Config) checkProcess(k *checker) {
	if c.DataDir == "" {
		k.failf("data_dir", "must not be empty")
	}
	checkAddress(k, "listen", c.Listen)
	checkAddress(k, "ops_listen", c.OpsListen)
	if _, port, err := net.SplitHostPort(c.Listen); err == nil && port != "0" && c.Listen == c.OpsListen {
		k.failf("ops_listen", "must differ from listen (%s)", c.Listen)
	}
	if !regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$`).MatchString(c.Node.Name) {
		k.failf("node.name", "%q needs 1 to 63 letters, digits and inner hyphens", c.Node.Name)
	}
}

func checkAddress(k *checker, key, address string) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		k.failf(key, "%q is not host:port", address)
		return
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		k.failf(key, "%q is not a port number", port)
	}
}

func (c *Config) checkHTTP(k *checker) {
	base := c.HTTP.BasePath
	if base != "" && !regexp.MustCompile(`^(/[A-Za-z0-9._~-]+)+$`).MatchString(base) {
		k.failf("http.base_path", "%q must begin with / and hold letters, digits, '-', '.', '_', '~' between slashes", base)
	}
	if slices.ContainsFunc(strings.Split(base, "/"), func(s string) bool { return s == "." || s == ".." }) {
		k.failf("http.base_path", "%q must not hold . or .. segments", base)
	}
	for i, origin := range c.HTTP.CORS.Origins {
		if origin == "*" {
			continue
		}
		u, err := url.Parse(origin)
		if err != nil || u.Host == "" || u.Scheme == "" || u.Scheme+"://"+u.Host != origin || strings.Contains(u.Host, "*") {
			k.failf(fmt.Sprintf("http.cors.origins[%d]", i), "%q is not an origin such as https://chat.example.com", origin)
		}
	}
	for i, host := range c.HTTP.Hosts {
		if host == "" || strings.ContainsAny(host, ":/@ ") {
			k.failf(fmt.Sprintf("http.hosts[%d]", i), "%q is not the name of a host, without a port", host)
		}
	}
	for i, proxy := range c.HTTP.TrustedProxies {
		if _, err := ParseNetwork(proxy); err != nil {
			k.failf(fmt.Sprintf("http.trusted_proxies[%d]", i), "%q is neither an address nor a network such as 10.0.0.0/8", proxy)
		}
	}
	if c.HTTP.ProxyProtocol && len(c.HTTP.TrustedProxies) == 0 {
		k.failf("http.proxy_protocol", "needs http.trusted_proxies: nobody else is believed")
	}
	for i, name := range c.HTTP.CORS.Headers {
		if !isHeaderName(strings.TrimSuffix(name, "*")) {
			k.failf(fmt.Sprintf("http.cors.headers[%d]", i), "%q is not a header name", name)
		}
	}
}

// ParseNetwork reads a network, or an address as the network of that alone.
func ParseNetwork(text string) (netip.Prefix, error) {
	if strings.Contains(text, "/") {
		return netip.ParsePrefix(text)
	}
	address, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Prefix{}, err
	}
	return netip.PrefixFrom(address, address.BitLen()), nil
}

// Warnings reports settings of a valid configuration that are probably not intended, for the log.
func (c *Config) Warnings() []string {
	var warnings []string
	if slices.Contains(c.HTTP.CORS.Origins, "*") {
		who := "call in the name of whoever runs it, as authentication is off"
		if c.Auth.Enabled {
			who = "make use of every token that it gets hold of"
		}
		warnings = append(warnings, "http.cors.origins is \"*\": a page of any origin may "+who+"; name the origins that are meant")
	}
	return warnings
}

// checkSecrets refuses the placeholder that --print-config writes for a secret.
func (c *Config) checkSecrets(k *checker) {
	var walk func(value reflect.Value, key string)
	walk = func(value reflect.Value, key string) {
		switch value.Kind() {
		case reflect.Pointer:
			if !value.IsNil() {
				walk(value.Elem(), key)
			}
		case reflect.Struct:
			for _, f := range fieldsOf(value.Type()) {
				walk(value.Field(f.index), join(key, f.key))
			}
		case reflect.Slice:
			for i := range value.Len() {
				walk(value.Index(i), fmt.Sprintf("%s[%d]", key, i))
			}
		case reflect.String:
			if value.Type() == reflect.TypeFor[Secret]() && value.String() == redacted {
				k.failf(key, "is redacted: put the real secret in its place")
			}
		default:
		}
	}
	walk(reflect.ValueOf(c).Elem(), "")
}

func isHeaderName(name string) bool {
	return regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$").MatchString(name)
}

// isLoopback reports whether only this machine can reach the address.
func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
