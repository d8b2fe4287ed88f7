package config

import "time"

// Auth configures who may call the conversation server and how callers are authenticated.
type Auth struct {
	// Turns authentication on. Off is for development: every caller's claims are trusted.
	Enabled bool `key:"enabled"`
	// Permits a listen address that is reachable from elsewhere although authentication is off. Only behind a proxy
	// that authenticates.
	AllowInsecure bool `key:"allow_insecure"`
	// How tokens are checked: static (the list below), jwt (signed tokens) or callout (ask an HTTP service). Needed when
	// enabled.
	Provider string `key:"provider"`
	// Request header that carries the token; case does not matter.
	HeaderName string `key:"header_name" default:"Authorization"`
	// Prefix stripped from the header if present; a bare token is accepted, too.
	TokenPrefix string `key:"token_prefix" default:"Bearer "`
	// Paths after http.base_path that need no token: exact (/docs), or with * for anything (/docs/*, which does not
	// cover /docs itself). The default lets browsers, which cannot send a token, open the documentation, which contains
	// no private data.
	ExcludeRoutes []string `key:"exclude_routes" default:"/docs,/docs/*"`
	// Where the user id of a request without established identity may come from: query, body, both or none. An established
	// identity always wins.
	ResolveUserID []string `key:"resolve_user_id" default:"query,body" one_of:"query,body"`
	// Longest token; longer ones are refused without being checked.
	MaxToken Size `key:"max_token" default:"8KiB" range:"16..1MiB"`
	// Checked tokens that are cached (jwt and, with callout.cache_ttl, callout), by their SHA-256.
	CacheEntries int `key:"cache_entries" default:"10000" range:"0..10_000_000"`
	// Tokens of provider static.
	Tokens []Token `key:"tokens"`

	JWT     JWT     `key:"jwt"`
	Callout Callout `key:"callout"`
}

// Token is one entry of the static token map.
type Token struct {
	// The token itself. Give this or sha256.
	Token Secret `key:"token"`
	// SHA-256 of the token in hex, so that the file holds no secret.
	SHA256 string `key:"sha256"`
	// User of the token. Required.
	UserID string `key:"user_id"`
}

// JWT configures signed tokens. Exactly one of secret, secret_file, public_key, public_key_file and jwks_uri is set.
type JWT struct {
	// The only signature algorithm accepted: HS256/384/512, RS256/384/512, PS256/384/512, ES256/384/512 or EdDSA. A
	// token's header never decides it. Empty = HS256 with a secret, else RS256.
	Algorithm string `key:"algorithm"`
	// Shared secret of the HS algorithms; at least 32 random bytes.
	Secret Secret `key:"secret"`
	// File with the shared secret; a final newline is dropped.
	SecretFile string `key:"secret_file"`
	// Public key in PEM form.
	PublicKey string `key:"public_key"`
	// File with the public key in PEM form.
	PublicKeyFile string `key:"public_key_file"`
	// URL of a JSON web key set: https, or http to loopback.
	JWKSURI string `key:"jwks_uri"`
	// Issuer that tokens must have. Empty = any.
	Issuer string `key:"issuer"`
	// Audiences of which tokens must have one. Empty = any.
	Audience []string `key:"audience"`
	// Clock difference tolerated for expiry and not-before.
	Leeway time.Duration `key:"leeway" default:"30s" range:"0s..10m"`
	// Refuses tokens without an expiry.
	RequireExpiry bool `key:"require_expiry"`
	// Claim with the user id; dots reach into objects. If it is empty or absent: sub, userId, user_id.
	UserIDClaim string `key:"user_id_claim"`
	// How long a checked token is cached, never beyond its expiry. Longer saves signature checks; a withdrawn key is
	// noticed that much later.
	CacheTTL time.Duration `key:"cache_ttl" default:"1m" range:"0s..24h"`
	// Time between two fetches of the key set; an unknown key id causes an earlier one.
	JWKSRefresh time.Duration `key:"jwks_refresh" default:"10m" range:"1s..24h"`
	// How long the last valid key set is used while its URL does not answer; after that tokens are refused.
	JWKSMaxStale time.Duration `key:"jwks_max_stale" default:"24h" range:"auth.jwt.jwks_refresh..720h"`
	// Time limit of one fetch of the key set.
	JWKSTimeout time.Duration `key:"jwks_timeout" default:"5s" range:"1ms..1m"`
	// Largest key set.
	JWKSMaxBytes Size `key:"jwks_max_bytes" default:"512KiB" range:"1KiB..64MiB"`
}

// Callout asks an HTTP service about every token: POST {"token": ...}, answer {"valid", "userId", "error"}.
type Callout struct {
	// URL of the service: https, or http to loopback.
	URL string `key:"url"`
	// Time limit of one request to the service. Without a response in time the caller's request is refused (503).
	Timeout time.Duration `key:"timeout" default:"3s" range:"1ms..1m"`
	// How long a yes is cached. 0 asks every time, so that a withdrawn token is invalid at once.
	CacheTTL time.Duration `key:"cache_ttl" range:"0s..24h"`
	// Requests to the service at once; further ones wait within their timeout.
	MaxConcurrent int `key:"max_concurrent" default:"64" range:"1..10_000"`
}
