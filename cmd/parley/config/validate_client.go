package config

import (
	"strings"
	"unicode"
)

// minBootstrapToken rejects tokens that are easily guessed.
const minBootstrapToken = 8

func (c *Config) checkClient(k *checker) {
	c.Client.BasePath = strings.TrimRight(c.Client.BasePath, "/")
	base := c.Client.BasePath
	if !strings.HasPrefix(base, "/") || strings.ContainsAny(base, "{}?# ") {
		k.failf("client.base_path", "%q must begin with / and be plain", base)
	} else if base == c.HTTP.BasePath {
		k.failf("client.base_path", "%q is the conversation server's (http.base_path)", base)
	}
	if c.Permissions.Engine == "http" {
		if c.Permissions.URL == "" {
			k.failf("permissions.url", "is needed with engine http")
		} else {
			checkRemote(k, "permissions.url", c.Permissions.URL)
		}
	}
	token := c.BootstrapToken.Reveal()
	if token == "" {
		return
	}
	if len(token) < minBootstrapToken || Size(len(token)) > c.Auth.MaxToken ||
		strings.ContainsFunc(token, func(r rune) bool { return r > unicode.MaxASCII || !unicode.IsGraphic(r) || r == ' ' }) {
		k.failf("bootstrap_token", "must be at least %d printable ASCII characters without blanks", minBootstrapToken)
	}
}
