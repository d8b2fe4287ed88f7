package config

import "time"

// Client is about the Client API: agents, sessions, responses, runs, for callers with an API token.
type Client struct {
	// Path before all its routes; a trailing slash is dropped.
	BasePath string `key:"base_path" default:"/api/client/v1"`
	// Licence tier of the first tenant: FREE, STARTER, PROFESSIONAL, ENTERPRISE or ON_PREMISE. It decides which features
	// there are and how many requests a month has. Applied at every start.
	License string `key:"license" default:"ON_PREMISE" one_of:"FREE,STARTER,PROFESSIONAL,ENTERPRISE,ON_PREMISE"`
	// How long a wait for a run lasts when it does not say.
	RunWait time.Duration `key:"run_wait" default:"30s" range:"1ms..client.max_run_wait"`
	// Longest wait for a run.
	MaxRunWait time.Duration `key:"max_run_wait" default:"5m" range:"1ms..1h"`
	// Background runs of one project that run at the same time, in the whole cluster; others wait in line.
	RunConcurrency int `key:"run_concurrency" default:"32" range:"1..10_000"`
	// Background runs of one project that may wait in line; above that 429.
	MaxQueuedRuns int `key:"max_queued_runs" default:"1000" range:"1..10_000"`
	// Longest wait for one attempt of a run's callback; five are made.
	CallbackTimeout time.Duration `key:"callback_timeout" default:"10s" range:"100ms..5m"`
	// How long a checked API token is remembered without asking again, at most a minute.
	TokenCacheTTL time.Duration `key:"token_cache_ttl" default:"1m" range:"1ms..1m"`
	// Checked API tokens remembered.
	TokenCacheEntries int `key:"token_cache_entries" default:"10000" range:"1..10_000_000"`
	// How long the answer to a request with an Idempotency-Key is kept.
	IdempotencyTTL time.Duration `key:"idempotency_ttl" default:"24h" range:"1s..720h"`
	// How long what was used in an hour is kept, 400 days.
	UsageRetention time.Duration `key:"usage_retention" default:"9600h" range:"24h..876000h"`
}

// Gateway is about the OpenAI-compatible routes, which call models directly.
type Gateway struct {
	// Longest call, retries included; of a stream the longest wait for its first and for each further piece. Until the
	// first piece nothing is sent, so what lies between client and server must wait as long; then silence is broken every
	// sse.ping. Raise it for models that think longer.
	RequestTimeout time.Duration `key:"request_timeout" default:"2m" range:"100ms..1h"`
	// Longest stream in all: one that is never silent and never ends breaks off then.
	StreamTimeout time.Duration `key:"stream_timeout" default:"30m" range:"gateway.request_timeout..24h"`
	// Most bytes that a model may send in one stream, on the wire; then it breaks off.
	MaxStream Size `key:"max_stream" default:"64MiB" range:"1KiB..1TiB"`
	// How often a call is made at most: again after what may pass, never after a refusal.
	MaxAttempts int `key:"max_attempts" default:"3" range:"1..20"`
	// First pause before a call is made again; it doubles, up to 5s.
	RetryDelay time.Duration `key:"retry_delay" default:"200ms" range:"1ms..5s"`
	// Failures in a row after which a provider is left alone for a while, by calls of one project; turns wait until it
	// is tried again. 0 = never.
	BreakerThreshold int `key:"breaker_threshold" default:"5" range:"0..1_000_000"`
	// How long it is left alone.
	BreakerReset time.Duration `key:"breaker_reset" default:"30s" range:"1ms..1h"`
	// Largest request body; images come in it.
	MaxBody Size `key:"max_body" default:"10MiB" range:"1KiB..1GiB"`
	// Calls under way at once on this node; others are refused with 503.
	MaxConcurrent int `key:"max_concurrent" default:"4096" range:"1..1_000_000"`
}
