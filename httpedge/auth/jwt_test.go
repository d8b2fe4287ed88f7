package auth

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lestrrat-go/jwx/v3/jwa"
	"github.com/lestrrat-go/jwx/v3/jws"
	"github.com/stretchr/testify/require"

	"parley/actors/core/failure"
	"parley/httpedge/endpoint"
)

var (
	hmacSecret = []byte("0123456789abcdef0123456789abcdef")
	rsaKey     = sync.OnceValue(func() *rsa.PrivateKey { key, _ := rsa.GenerateKey(rand.Reader, 2048); return key })
	otherRSA   = sync.OnceValue(func() *rsa.PrivateKey { key, _ := rsa.GenerateKey(rand.Reader, 2048); return key })
	ecKey      = sync.OnceValue(func() *ecdsa.PrivateKey {
		key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		return key
	})
	edKey = sync.OnceValue(func() ed25519.PrivateKey { _, key, _ := ed25519.GenerateKey(rand.Reader); return key })
)

type claims = map[string]any

// sign makes a token with any header and any key, as an attacker may.
func sign(tb testing.TB, algorithm string, key any, head, body claims) string {
	tb.Helper()
	payload, err := json.Marshal(body)
	require.NoError(tb, err)
	alg, ok := jwa.LookupSignatureAlgorithm(algorithm)
	require.True(tb, ok)
	headers := jws.NewHeaders()
	for name, value := range head {
		require.NoError(tb, headers.Set(name, value))
	}
	token, err := jws.Sign(payload, jws.WithKey(alg, key, jws.WithProtectedHeaders(headers)))
	require.NoError(tb, err)
	return string(token)
}

// forge makes a token from raw parts with an HMAC of any bytes as key.
func forge(tb testing.TB, header string, body claims, key []byte) string {
	tb.Helper()
	payload, err := json.Marshal(body)
	require.NoError(tb, err)
	input := base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + base64.RawURLEncoding.EncodeToString(payload)
	signer, err := jws.SignerFor(jwa.HS256())
	require.NoError(tb, err)
	signature, err := signer.Sign(key, []byte(input))
	require.NoError(tb, err)
	return input + "." + base64.RawURLEncoding.EncodeToString(signature)
}

func publicPEM(tb testing.TB, key crypto.PublicKey) []byte {
	tb.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	require.NoError(tb, err)
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

func newJWT(tb testing.TB, change func(*JWTConfig)) *JWT {
	tb.Helper()
	config := DefaultJWTConfig()
	change(&config)
	j, err := NewJWT(config, slog.New(slog.DiscardHandler), nil)
	require.NoError(tb, err)
	return j
}

func in(d time.Duration) int64 { return time.Now().Add(d).Unix() }

func TestAlgorithms(t *testing.T) {
	for algorithm, keys := range map[string][2]any{
		"HS256": {hmacSecret, nil}, "HS384": {hmacSecret, nil}, "HS512": {hmacSecret, nil},
		"RS256": {rsaKey(), rsaKey().Public()}, "RS512": {rsaKey(), rsaKey().Public()}, "PS256": {rsaKey(), rsaKey().Public()},
		"ES256": {ecKey(), ecKey().Public()}, "EdDSA": {edKey(), edKey().Public()},
	} {
		t.Run(algorithm, func(t *testing.T) {
			j := newJWT(t, func(c *JWTConfig) {
				c.Algorithm = algorithm
				if keys[1] == nil {
					c.Secret = hmacSecret
				} else {
					c.PublicKeyPEM = publicPEM(t, keys[1])
				}
			})
			token := sign(t, algorithm, keys[0], nil, claims{"sub": "alice", "exp": in(time.Hour)})
			for range 2 {
				user, err := j.Validate(t.Context(), token)
				require.NoError(t, err)
				require.Equal(t, "alice", user)
			}
			require.Equal(t, 1, j.cache.len())
		})
	}
}

func TestAttacks(t *testing.T) {
	good := claims{"sub": "alice", "exp": in(time.Hour), "iss": "https://id.example", "aud": []string{"x", "parley"}}
	with := func(name string, value any) claims {
		changed := claims{}
		for k, v := range good {
			changed[k] = v
		}
		if changed[name] = value; value == nil {
			delete(changed, name)
		}
		return changed
	}
	hs := func(body claims) string { return sign(t, "HS256", hmacSecret, nil, body) }
	valid := hs(good)
	parts := strings.Split(valid, ".")
	b64 := base64.RawURLEncoding.EncodeToString
	publicText := publicPEM(t, rsaKey().Public())

	shared := newJWT(t, func(c *JWTConfig) {
		c.Secret, c.Issuer, c.Audiences = hmacSecret, "https://id.example", []string{"parley", "other"}
	})
	public := newJWT(t, func(c *JWTConfig) {
		c.PublicKeyPEM, c.Issuer, c.Audiences = publicText, "https://id.example", []string{"parley"}
	})
	strict := newJWT(t, func(c *JWTConfig) { c.Secret, c.RequireExpiry = hmacSecret, true })

	for name, test := range map[string]struct {
		provider *JWT
		token    string
		text     string // "" = good
	}{
		"good_shared":               {shared, valid, ""},
		"good_public":               {public, sign(t, "RS256", rsaKey(), nil, good), ""},
		"good_audience_text":        {shared, hs(with("aud", "parley")), ""},
		"good_expiry_within_leeway": {shared, hs(with("exp", in(-10*time.Second))), ""},
		"good_without_expiry":       {shared, hs(with("exp", nil)), ""},
		"good_fractional_expiry":    {shared, hs(with("exp", float64(in(time.Hour))+0.5)), ""},
		"good_far_expiry":           {shared, hs(with("exp", 1e300)), ""},
		"none":                      {shared, b64([]byte(`{"alg":"none"}`)) + "." + parts[1] + ".", "Invalid token"},
		"none_in_odd_case":          {shared, b64([]byte(`{"alg":"nOnE"}`)) + "." + parts[1] + "." + parts[2], "Invalid token"},
		"none_on_public":            {public, b64([]byte(`{"alg":"none"}`)) + "." + parts[1] + ".", "Invalid token"},
		"alg_in_capitals":           {shared, forge(t, `{"ALG":"HS256"}`, good, hmacSecret), "Invalid JWT format"},
		"alg_twice":                 {public, forge(t, `{"alg":"HS256","alg":"RS256"}`, good, publicText), "Invalid token"},
		"alg_number":                {shared, forge(t, `{"alg":256}`, good, hmacSecret), "Invalid JWT format"},
		"public_key_as_hmac":        {public, forge(t, `{"alg":"HS256"}`, good, publicText), "Invalid token"},
		"public_key_as_hmac_rs":     {public, forge(t, `{"alg":"RS256"}`, good, publicText), "Invalid token"},
		"public_der_as_hmac":        {public, forge(t, `{"alg":"HS256"}`, good, x509.MarshalPKCS1PublicKey(&rsaKey().PublicKey)), "Invalid token"},
		"rs_token_on_shared":        {shared, sign(t, "RS256", rsaKey(), nil, good), "Invalid token"},
		"longer_hash":               {shared, sign(t, "HS512", hmacSecret, nil, good), "Invalid token"},
		"pss_instead_of_pkcs1":      {public, sign(t, "PS256", rsaKey(), nil, good), "Invalid token"},
		"other_secret":              {shared, sign(t, "HS256", []byte("another secret of thirty-two byte"), nil, good), "Invalid token"},
		"other_rsa_key":             {public, sign(t, "RS256", otherRSA(), nil, good), "Invalid token"},
		"key_in_header":             {public, sign(t, "RS256", otherRSA(), claims{"jku": "https://evil.example/keys"}, good), "Invalid token"},
		"critical_extension":        {shared, forge(t, `{"alg":"HS256","crit":["exp"],"exp":1}`, good, hmacSecret), "Invalid token"},
		"unencoded_payload":         {shared, forge(t, `{"alg":"HS256","b64":false}`, good, hmacSecret), "Invalid token"},
		"payload_changed":           {shared, parts[0] + "." + b64([]byte(`{"sub":"mallory"}`)) + "." + parts[2], "Invalid token"},
		"signature_cut":             {shared, valid[:len(valid)-2], "Invalid token"},
		"signature_missing":         {shared, parts[0] + "." + parts[1] + ".", "Invalid token"},
		"expired":                   {shared, hs(with("exp", in(-time.Minute))), "Token expired"},
		"expired_long_ago":          {shared, hs(with("exp", -1e300)), "Token expired"},
		"expiry_text":               {shared, hs(with("exp", "never")), "Invalid JWT format"},
		"expiry_null":               {shared, forge(t, `{"alg":"HS256"}`, claims{"sub": "a", "exp": nil}, hmacSecret), "Invalid JWT format"},
		"expiry_missing":            {strict, hs(claims{"sub": "a"}), "Token has no expiry"},
		"not_yet":                   {shared, hs(with("nbf", in(time.Hour))), "Token not yet valid"},
		"issuer_other":              {shared, hs(with("iss", "https://evil.example")), "Invalid issuer"},
		"issuer_missing":            {shared, hs(with("iss", nil)), "Invalid issuer"},
		"issuer_list":               {shared, hs(with("iss", []string{"https://id.example"})), "Invalid issuer"},
		"audience_other":            {shared, hs(with("aud", []string{"a", "b"})), "Invalid audience"},
		"audience_missing":          {shared, hs(with("aud", nil)), "Invalid audience"},
		"audience_object":           {shared, hs(with("aud", claims{"parley": true})), "Invalid audience"},
		"no_user":                   {shared, hs(with("sub", nil)), "No user ID in token"},
		"user_empty":                {shared, hs(with("sub", "")), "No user ID in token"},
		"user_object":               {shared, hs(with("sub", claims{"a": 1})), "No user ID in token"},
		"user_control_character":    {shared, hs(with("sub", "a\u0000b")), "No user ID in token"},
		"user_huge":                 {shared, hs(with("sub", strings.Repeat("a", 300))), "No user ID in token"},
		"garbage":                   {shared, "garbage", "Invalid JWT format"},
		"two_parts":                 {shared, parts[0] + "." + parts[1], "Invalid JWT format"},
		"four_parts":                {shared, valid + ".x", "Invalid JWT format"},
		"encrypted":                 {shared, "a.b.c.d.e", "Invalid JWT format"},
		"header_not_base64":         {shared, "!." + parts[1] + "." + parts[2], "Invalid JWT format"},
		"header_not_json":           {shared, b64([]byte("x")) + "." + parts[1] + "." + parts[2], "Invalid JWT format"},
		"header_null":               {shared, b64([]byte("null")) + "." + parts[1] + "." + parts[2], "Invalid JWT format"},
		"header_deep":               {shared, b64([]byte(strings.Repeat("[", 20_000))) + "." + parts[1] + "." + parts[2], "Invalid JWT format"},
		"key_id_number":             {shared, forge(t, `{"alg":"HS256","kid":1}`, good, hmacSecret), "Invalid JWT format"},
		"key_id_huge":               {shared, forge(t, `{"alg":"HS256","kid":"`+strings.Repeat("k", 300)+`"}`, good, hmacSecret), "Invalid JWT format"},
		"empty":                     {shared, "", "Invalid JWT format"},
		"dots":                      {shared, "..", "Invalid JWT format"},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 { // a refusal is never remembered as a yes
				user, err := test.provider.Validate(t.Context(), test.token)
				if test.text == "" {
					require.NoError(t, err)
					require.Equal(t, "alice", user)
					continue
				}
				var refusal *failure.Failure
				require.ErrorAs(t, err, &refusal)
				require.Equal(t, test.text, refusal.DefaultText())
				require.Empty(t, user)
			}
		})
	}
}

func TestPayloadMustBeOneObject(t *testing.T) {
	for _, payload := range []string{`[]`, `null`, `"x"`, `{}{}`, `{"sub":"a"} x`, ``, `{`} {
		_, err := decodeClaims([]byte(payload))
		require.Error(t, err, payload)
	}
}

func TestUserIDClaims(t *testing.T) {
	for name, test := range map[string]struct {
		claim string
		body  claims
		want  string
	}{
		"sub":             {"", claims{"sub": "a", "userId": "b", "user_id": "c"}, "a"},
		"userId":          {"", claims{"userId": "b", "user_id": "c"}, "b"},
		"user_id":         {"", claims{"user_id": "c"}, "c"},
		"number":          {"", claims{"sub": 42}, "42"},
		"configured":      {"email", claims{"sub": "a", "email": "a@example.com"}, "a@example.com"},
		"nested":          {"user.profile.id", claims{"sub": "a", "user": claims{"profile": claims{"id": "n"}}}, "n"},
		"dotted_name":     {"https://x.example/uid", claims{"https://x.example/uid": "u"}, "u"},
		"falls_back":      {"email", claims{"sub": "a"}, "a"},
		"nested_in_text":  {"user.id", claims{"sub": "a", "user": "text"}, "a"},
		"boolean_is_none": {"", claims{"sub": true, "userId": "b"}, "b"},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJWT(t, func(c *JWTConfig) { c.Secret, c.UserIDClaim = hmacSecret, test.claim })
			user, err := j.Validate(t.Context(), sign(t, "HS256", hmacSecret, nil, test.body))
			require.NoError(t, err)
			require.Equal(t, test.want, user)
		})
	}
	j := newJWT(t, func(c *JWTConfig) {
		c.Secret = hmacSecret
		c.UserID = func(body map[string]any) string { name, _ := body["name"].(string); return name }
	})
	user, err := j.Validate(t.Context(), sign(t, "HS256", hmacSecret, nil, claims{"sub": "a", "name": "n"}))
	require.NoError(t, err)
	require.Equal(t, "n", user)
}

func TestCachedTokenEndsWithItsExpiry(t *testing.T) {
	j := newJWT(t, func(c *JWTConfig) { c.Secret, c.CacheTTL, c.Leeway = hmacSecret, time.Hour, 0 })
	expiry := in(10 * time.Minute)
	token := sign(t, "HS256", hmacSecret, nil, claims{"sub": "a", "exp": expiry})
	_, err := j.Validate(t.Context(), token)
	require.NoError(t, err)
	_, ok := j.cache.get(digestOf(token), time.Unix(expiry-1, 0))
	require.True(t, ok)
	_, ok = j.cache.get(digestOf(token), time.Unix(expiry, 0))
	require.False(t, ok)
}

func TestNewJWTRefuses(t *testing.T) {
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	require.NoError(t, err)
	private := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(rsaKey())})
	for name, change := range map[string]func(*JWTConfig){
		"nothing":       func(*JWTConfig) {},
		"two_keys":      func(c *JWTConfig) { c.Secret, c.JWKSURL = hmacSecret, "https://id.example/k" },
		"none":          func(c *JWTConfig) { c.Secret, c.Algorithm = hmacSecret, "none" },
		"unknown":       func(c *JWTConfig) { c.Secret, c.Algorithm = hmacSecret, "XX1" },
		"secret_for_rs": func(c *JWTConfig) { c.Secret, c.Algorithm = hmacSecret, "RS256" },
		"public_for_hs": func(c *JWTConfig) { c.PublicKeyPEM, c.Algorithm = publicPEM(t, rsaKey().Public()), "HS256" },
		"rsa_for_es":    func(c *JWTConfig) { c.PublicKeyPEM, c.Algorithm = publicPEM(t, rsaKey().Public()), "ES256" },
		"curve":         func(c *JWTConfig) { c.PublicKeyPEM, c.Algorithm = publicPEM(t, ecKey().Public()), "ES384" },
		"small_key":     func(c *JWTConfig) { c.PublicKeyPEM = publicPEM(t, small.Public()) },
		"private_key":   func(c *JWTConfig) { c.PublicKeyPEM = private },
		"not_pem":       func(c *JWTConfig) { c.PublicKeyPEM = []byte("x") },
		"broken_pem": func(c *JWTConfig) {
			c.PublicKeyPEM = pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: []byte("x")})
		},
		"hs_for_key_set":     func(c *JWTConfig) { c.JWKSURL, c.Algorithm = "https://id.example/k", "HS256" },
		"plain_http":         func(c *JWTConfig) { c.JWKSURL = "http://id.example/k" },
		"file_url":           func(c *JWTConfig) { c.JWKSURL = "file:///etc/keys" },
		"url_with_user":      func(c *JWTConfig) { c.JWKSURL = "https://u:p@id.example/k" },
		"loopback_lookalike": func(c *JWTConfig) { c.JWKSURL = "http://127.0.0.1.evil.example/k" },
	} {
		t.Run(name, func(t *testing.T) {
			config := DefaultJWTConfig()
			change(&config)
			_, err := NewJWT(config, slog.New(slog.DiscardHandler), nil)
			require.Error(t, err)
		})
	}
}

func FuzzValidate(f *testing.F) {
	j := newJWT(f, func(c *JWTConfig) { c.Secret, c.Issuer = hmacSecret, "i" })
	good := sign(f, "HS256", hmacSecret, claims{"kid": "k"}, claims{"sub": "a", "iss": "i", "exp": in(time.Hour)})
	f.Add(good)
	f.Add("..")
	f.Add(sign(f, "HS256", hmacSecret, nil, claims{"sub": claims{"a": 1}, "aud": []any{1, "x"}, "iss": "i"}))
	f.Fuzz(func(t *testing.T, token string) {
		user, err := j.Validate(context.Background(), token)
		if err == nil {
			require.True(t, validUserID(user))
			return
		}
		var refusal *failure.Failure
		require.ErrorAs(t, err, &refusal)
	})
}

// FuzzClaims lets the holder of the key, so to say, write anything.
func FuzzClaims(f *testing.F) {
	j := newJWT(f, func(c *JWTConfig) {
		c.Secret, c.Issuer, c.Audiences, c.UserIDClaim = hmacSecret, "i", []string{"a"}, "u.v"
	})
	f.Add([]byte(`{"sub":"a","iss":"i","aud":["a"],"exp":99999999999}`))
	f.Add([]byte(`{"u":{"v":1e400},"iss":"i","aud":"a","exp":1e400,"nbf":-0}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		body, err := decodeClaims(payload)
		if err != nil {
			return
		}
		if _, err := j.check(body, time.Now()); err == nil {
			_ = j.userID(body)
		}
	})
}

func BenchmarkJWTCacheHit(b *testing.B) {
	j := newJWT(b, func(c *JWTConfig) { c.PublicKeyPEM = publicPEM(b, rsaKey().Public()) })
	a := newAuthenticator(b, j, nil)
	var r endpoint.Request = bearer(sign(b, "RS256", rsaKey(), nil, claims{"sub": "alice", "exp": in(time.Hour), "iss": "https://id.example", "scope": "chat"}))
	b.ReportAllocs()
	for b.Loop() {
		if _, failure := a.Authenticate(b.Context(), r); failure != nil {
			b.Fatal(failure)
		}
	}
}

func BenchmarkJWTCheck(b *testing.B) {
	for algorithm, key := range map[string]any{"HS256": hmacSecret, "RS256": rsaKey(), "ES256": ecKey()} {
		b.Run(algorithm, func(b *testing.B) {
			j := newJWT(b, func(c *JWTConfig) {
				c.CacheEntries, c.Algorithm = 0, algorithm
				if signer, ok := key.(crypto.Signer); ok {
					c.PublicKeyPEM = publicPEM(b, signer.Public())
				} else {
					c.Secret = hmacSecret
				}
			})
			token := sign(b, algorithm, key, nil, claims{"sub": "alice", "exp": in(time.Hour)})
			b.ReportAllocs()
			for b.Loop() {
				if _, err := j.Validate(b.Context(), token); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
