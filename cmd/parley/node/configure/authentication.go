package configure

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"parley/cmd/parley/config"
	"parley/httpedge/auth"
)

// Authenticator builds the authenticator that the auth section configures. stop ends its background work.
func Authenticator(c *config.Config, logger *slog.Logger, registerer prometheus.Registerer) (authenticator *auth.Authenticator, stop func(), err error) {
	settings := auth.DefaultConfig()
	settings.Enabled = c.Auth.Enabled
	settings.HeaderName, settings.TokenPrefix = c.Auth.HeaderName, c.Auth.TokenPrefix
	settings.ExcludeRoutes = c.Auth.ExcludeRoutes
	settings.UserIDFromQuery = slices.Contains(c.Auth.ResolveUserID, "query")
	settings.MaxTokenBytes = int(c.Auth.MaxToken)
	provider, stop, err := newProvider(c, logger)
	if err != nil {
		return nil, nil, fmt.Errorf("auth: %w", err)
	}
	authenticator, err = auth.New(settings, provider, logger, registerer)
	if err != nil {
		stop()
		return nil, nil, fmt.Errorf("auth: %w", err)
	}
	return authenticator, stop, nil
}

func newProvider(c *config.Config, logger *slog.Logger) (auth.Provider, func(), error) {
	nothing := func() {}
	if !c.Auth.Enabled {
		return nil, nothing, nil
	}
	switch c.Auth.Provider {
	case "static":
		tokens, err := staticTokens(c.Auth.Tokens)
		if err != nil {
			return nil, nothing, err
		}
		provider, err := auth.NewStatic(tokens)
		return provider, nothing, err
	case "jwt":
		settings, err := jwtConfig(&c.Auth)
		if err != nil {
			return nil, nothing, err
		}
		provider, err := auth.NewJWT(settings, logger, nil)
		if err != nil {
			return nil, nothing, err
		}
		return provider, provider.Stop, nil
	case "callout":
		settings := auth.DefaultCalloutConfig()
		settings.URL, settings.Timeout = c.Auth.Callout.URL, c.Auth.Callout.Timeout
		settings.MaxConcurrent, settings.CacheTTL = c.Auth.Callout.MaxConcurrent, c.Auth.Callout.CacheTTL
		settings.CacheEntries = c.Auth.CacheEntries
		provider, err := auth.NewCallout(settings, nil)
		if err != nil {
			return nil, nothing, err
		}
		return provider, provider.Stop, nil
	}
	return nil, nothing, fmt.Errorf("no provider %q", c.Auth.Provider)
}

func staticTokens(configured []config.Token) ([]auth.StaticToken, error) {
	tokens := make([]auth.StaticToken, 0, len(configured))
	for i, token := range configured {
		made := auth.StaticToken{UserID: token.UserID}
		if token.SHA256 == "" {
			made.SHA256 = sha256.Sum256([]byte(token.Token.Reveal()))
		} else if n, err := hex.Decode(made.SHA256[:], []byte(token.SHA256)); err != nil || n != sha256.Size {
			return nil, fmt.Errorf("tokens[%d].sha256 is not 64 hex digits", i)
		}
		tokens = append(tokens, made)
	}
	return tokens, nil
}

func jwtConfig(c *config.Auth) (auth.JWTConfig, error) {
	settings := auth.DefaultJWTConfig()
	secret, err := fromFile([]byte(c.JWT.Secret.Reveal()), c.JWT.SecretFile)
	if err != nil {
		return settings, fmt.Errorf("jwt.secret_file: %w", err)
	}
	key, err := fromFile([]byte(c.JWT.PublicKey), c.JWT.PublicKeyFile)
	if err != nil {
		return settings, fmt.Errorf("jwt.public_key_file: %w", err)
	}
	settings.Algorithm, settings.Secret, settings.PublicKeyPEM, settings.JWKSURL = c.JWT.Algorithm, secret, key, c.JWT.JWKSURI
	settings.Issuer, settings.Audiences, settings.Leeway = c.JWT.Issuer, c.JWT.Audience, c.JWT.Leeway
	settings.RequireExpiry, settings.UserIDClaim = c.JWT.RequireExpiry, c.JWT.UserIDClaim
	settings.CacheEntries, settings.CacheTTL = c.CacheEntries, c.JWT.CacheTTL
	settings.Refresh, settings.MaxStale = c.JWT.JWKSRefresh, c.JWT.JWKSMaxStale
	settings.FetchTimeout, settings.MaxKeySetBytes = c.JWT.JWKSTimeout, int64(c.JWT.JWKSMaxBytes)
	return settings, nil
}

func fromFile(value []byte, name string) ([]byte, error) {
	if name == "" {
		return value, nil
	}
	text, err := os.ReadFile(name)
	return bytes.TrimRight(text, "\r\n"), err
}
