package config

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
)

// Provider kinds of Auth.
const (
	ProviderStatic  = "static"
	ProviderJWT     = "jwt"
	ProviderCallout = "callout"
)

func (c *Config) checkAuth(k *checker) {
	a := &c.Auth
	host, _, err := net.SplitHostPort(c.Listen)
	if err == nil && !a.Enabled && !a.AllowInsecure && !isLoopback(host) {
		k.failf("auth.enabled", "listen is %s, which others can reach: switch authentication on, listen on 127.0.0.1, "+
			"or set auth.allow_insecure if something in front of this server authenticates", c.Listen)
	}
	if !isHeaderName(a.HeaderName) {
		k.failf("auth.header_name", "%q is not a header name", a.HeaderName)
	}
	for i, route := range a.ExcludeRoutes {
		if !strings.HasPrefix(route, "/") && !strings.HasPrefix(route, "*") {
			k.failf(fmt.Sprintf("auth.exclude_routes[%d]", i), "%q must begin with /", route)
		}
	}
	if a.Provider != "" || a.Enabled {
		k.oneOf("auth.provider", a.Provider, ProviderStatic, ProviderJWT, ProviderCallout)
	}
	switch a.Provider {
	case ProviderStatic:
		checkTokens(k, a.Tokens)
	case ProviderJWT:
		checkJWT(k, &a.JWT)
	case ProviderCallout:
		checkRemote(k, "auth.callout.url", a.Callout.URL)
	default:
	}
}

func checkTokens(k *checker, tokens []Token) {
	if len(tokens) == 0 {
		k.failf("auth.tokens", "must not be empty with provider static")
	}
	for i, t := range tokens {
		key := fmt.Sprintf("auth.tokens[%d]", i)
		if (t.Token == "") == (t.SHA256 == "") {
			k.failf(key, "needs token or sha256, and not both")
		}
		if digest, err := hex.DecodeString(t.SHA256); t.SHA256 != "" && (err != nil || len(digest) != 32) {
			k.failf(key+".sha256", "needs 64 hex digits")
		}
		if t.UserID == "" {
			k.failf(key+".user_id", "must not be empty")
		}
	}
}

func checkJWT(k *checker, j *JWT) {
	secret, public := j.Secret != "" || j.SecretFile != "", j.PublicKey != "" || j.PublicKeyFile != ""
	sources := 0
	for _, given := range []bool{j.Secret != "", j.SecretFile != "", j.PublicKey != "", j.PublicKeyFile != "", j.JWKSURI != ""} {
		if given {
			sources++
		}
	}
	if sources != 1 {
		k.failf("auth.jwt", "needs exactly one of secret, secret_file, public_key, public_key_file and jwks_uri")
		return
	}
	if j.JWKSURI != "" {
		checkRemote(k, "auth.jwt.jwks_uri", j.JWKSURI)
	}
	switch j.Algorithm {
	case "":
		j.Algorithm = "RS256"
		if secret {
			j.Algorithm = "HS256"
		}
	case "HS256", "HS384", "HS512":
		if public || j.JWKSURI != "" {
			k.failf("auth.jwt.algorithm", "%s needs a secret, not a public key", j.Algorithm)
		}
	case "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA":
		if secret {
			k.failf("auth.jwt.algorithm", "%s needs a public key, not a secret", j.Algorithm)
		}
	default:
		k.failf("auth.jwt.algorithm", "%q is not supported", j.Algorithm)
	}
	if _, _, err := j.Keys(); err != nil {
		k.problems = append(k.problems, err)
	}
}

// Keys reads the shared secret or the public key in PEM form from where the settings point. Both are nil with a key
// set.
func (j *JWT) Keys() (secret, publicPEM []byte, err error) {
	switch {
	case j.Secret != "":
		return []byte(j.Secret.Reveal()), nil, nil
	case j.SecretFile != "":
		secret, err = readSecret("auth.jwt.secret_file", j.SecretFile)
		return secret, nil, err
	case j.PublicKey != "":
		return nil, []byte(j.PublicKey), nil
	case j.PublicKeyFile != "":
		publicPEM, err = readSecret("auth.jwt.public_key_file", j.PublicKeyFile)
		return nil, publicPEM, err
	}
	return nil, nil, nil
}

// readSecret reads a file that holds one secret.
func readSecret(key, name string) ([]byte, error) {
	text, err := readLimited(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	secret := strings.TrimRight(string(text), "\r\n")
	if secret == "" {
		return nil, fmt.Errorf("%s: %s is empty", key, name)
	}
	return []byte(secret), nil
}

// checkRemote accepts URLs to which secrets may be sent.
func checkRemote(k *checker, key, address string) {
	u, err := serviceURL(address)
	if err != nil {
		k.failf(key, "%w", err)
		return
	}
	if u.Scheme != "https" && !isLoopback(u.Hostname()) {
		k.failf(key, "must be https (plain http is for loopback only)")
	}
}

// serviceURL parses the URL of a service. Its error does not contain the URL, which may hold a password.
func serviceURL(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") {
		return nil, errors.New("needs an http or https URL")
	}
	if u.User != nil {
		return nil, errors.New("must not hold a user name or password")
	}
	return u, nil
}
