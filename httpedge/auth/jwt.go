package auth

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	// jwx: signature checks and key sets (JWK) are easy to get wrong by hand; only jws, jwk and jwa are used.
	"github.com/lestrrat-go/jwx/v3/jwa"
	"github.com/lestrrat-go/jwx/v3/jws"

	"parley/actors/core/failure"
)

// JWT validates signed tokens (JWS compact form).
type JWT struct {
	config    JWTConfig
	algorithm jwa.SignatureAlgorithm
	key       any     // nil with a key set
	keys      *keySet // nil with a fixed key
	cache     *cache
}

// NewJWT returns a provider for signed tokens. transport is for fetching the key set; nil means a new one.
func NewJWT(config JWTConfig, logger *slog.Logger, transport http.RoundTripper) (*JWT, error) {
	if config.Algorithm == "" {
		config.Algorithm = "RS256"
		if len(config.Secret) > 0 {
			config.Algorithm = "HS256"
		}
	}
	j := &JWT{config: config, cache: newCache(config.CacheEntries)}
	algorithm, ok := jwa.LookupSignatureAlgorithm(config.Algorithm)
	if !ok {
		return nil, fmt.Errorf("algorithm %q is not supported", config.Algorithm)
	}
	j.algorithm = algorithm
	switch {
	case len(config.Secret) > 0 && len(config.PublicKeyPEM) == 0 && config.JWKSURL == "":
		j.key = config.Secret
		if len(config.Secret) < 32 {
			logger.Warn("jwt secret is short: use at least 32 random bytes")
		}
	case len(config.PublicKeyPEM) > 0 && len(config.Secret) == 0 && config.JWKSURL == "":
		key, err := ParsePublicKey(config.PublicKeyPEM)
		if err != nil {
			return nil, err
		}
		j.key = key
	case config.JWKSURL != "" && len(config.Secret) == 0 && len(config.PublicKeyPEM) == 0:
		if strings.HasPrefix(config.Algorithm, "HS") {
			return nil, fmt.Errorf("%s cannot be checked with a key set of public keys", config.Algorithm)
		}
		keys, err := newKeySet(config, logger, transport)
		if err != nil {
			return nil, err
		}
		j.keys = keys
		return j, nil
	default:
		return nil, errors.New("jwt needs exactly one of secret, public key and key set URL")
	}
	if err := Fits(config.Algorithm, j.key); err != nil {
		return nil, err
	}
	return j, nil
}

// Start starts refreshing the key set.
func (j *JWT) Start() {
	if j.keys != nil {
		j.keys.Start()
	}
}

// Stop ends the refreshing and waits for it.
func (j *JWT) Stop() {
	if j.keys != nil {
		j.keys.Stop()
	}
}

// Validate checks signature and claims and returns the user.
func (j *JWT) Validate(ctx context.Context, token string) (string, error) {
	key, now := digestOf(token), time.Now()
	if userID, ok := j.cache.get(key, now); ok {
		return userID, nil
	}
	payload, err := j.verify(ctx, token)
	if err != nil {
		return "", err
	}
	claims, err := decodeClaims(payload)
	if err != nil {
		return "", err
	}
	expiry, err := j.check(claims, now)
	if err != nil {
		return "", err
	}
	userID := j.userID(claims)
	if !validUserID(userID) {
		return "", refuse(failure.TokenWithoutUser)
	}
	until := now.Add(j.config.CacheTTL)
	if !expiry.IsZero() && expiry.Before(until) {
		until = expiry
	}
	if now.Before(until) {
		j.cache.put(key, userID, until)
	}
	return userID, nil
}

// verify returns the payload of a token with a valid signature.
func (j *JWT) verify(ctx context.Context, token string) ([]byte, error) {
	header, err := decodeHeader(token)
	if err != nil {
		return nil, err
	}
	if header.Algorithm != j.config.Algorithm {
		return nil, refuse(failure.InvalidToken)
	}
	candidates := []any{j.key}
	if j.keys != nil {
		if candidates, err = j.keys.find(ctx, header.KeyID); err != nil {
			return nil, err
		}
	}
	for _, key := range candidates {
		// This compares the header's algorithm once more and refuses critical extensions and unencoded payloads.
		if payload, err := jws.VerifyCompactFast(key, []byte(token), j.algorithm); err == nil {
			return payload, nil
		}
	}
	return nil, refuse(failure.InvalidToken)
}

// header is the part of a token's header that is used, only to choose the key.
type header struct {
	Algorithm string
	KeyID     string
}

func decodeHeader(token string) (header, error) {
	malformed := refuse(failure.InvalidJWT)
	encoded, rest, ok := strings.Cut(token, ".")
	if !ok || strings.Count(rest, ".") != 1 {
		return header{}, malformed
	}
	text, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return header{}, malformed
	}
	// A map and not a struct: encoding/json would take "ALG" for "alg".
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil || fields == nil {
		return header{}, malformed
	}
	algorithm, ok := fields["alg"].(string)
	if !ok {
		return header{}, malformed
	}
	keyID, ok := fields["kid"].(string)
	if fields["kid"] != nil && (!ok || len(keyID) > maxKeyID) {
		return header{}, malformed
	}
	return header{Algorithm: algorithm, KeyID: keyID}, nil
}

func decodeClaims(payload []byte) (map[string]any, error) {
	decoder := json.NewDecoder(bytes.NewReader(payload))
	decoder.UseNumber()
	var claims map[string]any
	if err := decoder.Decode(&claims); err != nil || claims == nil {
		return nil, refuse(failure.InvalidJWT)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, refuse(failure.InvalidJWT)
	}
	return claims, nil
}
