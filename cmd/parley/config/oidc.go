package config

import (
	"net"
	"net/url"
	"slices"
	"time"
)

// OIDC configures how people sign in at an OpenID provider (/api/auth/oidc), besides their passwords.
type OIDC struct {
	// URL of the provider, as in its own discovery document: https, but for one on this machine. Empty = there is none.
	Issuer string `key:"issuer"`
	// Name by which the provider knows this server. The address to which it sends people back is
	// {accounts.url}/api/auth/oidc/callback.
	ClientID string `key:"client_id"`
	// Secret that goes with client_id; empty where the provider asks for none.
	ClientSecret Secret `key:"client_secret"`
	// What the provider is called where people sign in.
	Name string `key:"name" default:"Single sign-on"`
	// What is asked for; openid and email must be among it.
	Scopes []string `key:"scopes" default:"openid,email,profile"`
	// Slug of the company whose people sign in there; empty = the first one. Who has an account with an email that the
	// provider has verified is that user.
	Company string `key:"company"`
	// Role of people who come for the first time and have no account: they get one. Empty = they are not let in.
	CreateRole string `key:"create_role" one_of:",user,project_admin,admin"`
	// Certificates (PEM) that the provider's is checked against, instead of the system's.
	CAFile string `key:"ca_file"`
	// Time limit of one request to the provider.
	Timeout time.Duration `key:"timeout" default:"10s" range:"100ms..1m"`
}

func (c *Config) checkOIDC(k *checker) {
	o := &c.OIDC
	if o.Issuer == "" {
		if o.ClientID != "" {
			k.failf("oidc.client_id", "needs oidc.issuer")
		}
		return
	}
	at, err := url.Parse(o.Issuer)
	if err != nil || at.Host == "" || at.User != nil || at.RawQuery != "" || at.Fragment != "" || at.Scheme != "https" && !onThisMachine(at) {
		k.failf("oidc.issuer", "%q is not a URL such as https://login.example.com", o.Issuer)
	}
	if o.ClientID == "" {
		k.failf("oidc.client_id", "is required with oidc.issuer")
	}
	if c.Accounts.URL == "" {
		k.failf("accounts.url", "is required with oidc.issuer: the provider sends people back there")
	}
	if !slices.Contains(o.Scopes, "openid") || !slices.Contains(o.Scopes, "email") {
		k.failf("oidc.scopes", "openid and email must be among them")
	}
}

// onThisMachine says that a plain http URL leads nowhere else.
func onThisMachine(at *url.URL) bool {
	address := net.ParseIP(at.Hostname())
	return at.Scheme == "http" && (at.Hostname() == "localhost" || address != nil && address.IsLoopback())
}
