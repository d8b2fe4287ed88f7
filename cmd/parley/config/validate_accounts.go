package config

import (
	"fmt"
	"net/url"
	"slices"
)

// minSessionSecret is the shortest secret that signs sessions (document 3, 16.3).
const minSessionSecret = 32

// minAccessCode rejects codes that are easily guessed.
const minAccessCode = 8

func (c *Config) checkAccounts(k *checker) {
	a := &c.Accounts
	if secret := a.SessionSecret.Reveal(); secret != "" && len(secret) < minSessionSecret {
		k.failf("accounts.session_secret", "needs at least %d bytes (JWT_SECRET)", minSessionSecret)
	}
	for i, code := range a.AccessCodes {
		if len(code.Reveal()) < minAccessCode {
			k.failf(fmt.Sprintf("accounts.access_codes[%d]", i), "needs at least %d characters", minAccessCode)
		}
	}
	if a.URL != "" {
		if at, err := url.Parse(a.URL); err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" || at.User != nil || at.RawQuery != "" || at.Fragment != "" {
			k.failf("accounts.url", "%q is not a URL such as https://parley.example.com", a.URL)
		}
	}
	if set := []bool{a.BootstrapCompany != "", a.BootstrapEmail != "", a.BootstrapPassword != ""}; set[0] != set[1] || set[1] != set[2] {
		k.failf("accounts.bootstrap_company", "needs bootstrap_email and bootstrap_password, and they need it")
	}
}

// readLifetime takes JWT_EXPIRES_IN, unless we have a name of our own for it: what it does not know is 7d there (document 3, 5.2).
func (a *Accounts) readLifetime(env, flags map[string]string) {
	given := env["JWT_EXPIRES_IN"]
	if given == "" || env["PARLEY_ACCOUNTS_SESSION_LIFETIME"] != "" || flags["accounts-session-lifetime"] != "" {
		return
	}
	if !slices.Contains([]string{"1d", "7d", "30d"}, given) {
		given = "7d"
	}
	a.SessionLifetime = given
}
