package config

import "time"

// Client is about the Client API: agents, sessions, responses, runs, for callers with an API token.
type Client struct {
	// Path before all its routes; a trailing slash is dropped. Default /api/client/v1.
	BasePath string `key:"base_path"`
	// Licence tier of the first tenant: FREE, STARTER, PROFESSIONAL, ENTERPRISE or ON_PREMISE. It decides which features
	// there are and how many requests a month has. Applied at every start. Default ON_PREMISE.
	License string `key:"license"`
	// How long a wait for a run lasts when it does not say. Default 30s.
	RunWait time.Duration `key:"run_wait"`
	// Longest wait for a run. Default 5m.
	MaxRunWait time.Duration `key:"max_run_wait"`
	// Background runs of one project that run at the same time, in the whole cluster; others wait in line. Default 32.
	RunConcurrency int `key:"run_concurrency"`
	// Background runs of one project that may wait in line; above that 429. Default 1000.
	MaxQueuedRuns int `key:"max_queued_runs"`
	// Longest wait for one attempt of a run's callback; five are made. Default 10s.
	CallbackTimeout time.Duration `key:"callback_timeout"`
	// How long a checked API token is remembered without asking again, at most a minute. Default 1m.
	TokenCacheTTL time.Duration `key:"token_cache_ttl"`
	// Checked API tokens remembered. Default 10000.
	TokenCacheEntries int `key:"token_cache_entries"`
	// How long the answer to a request with an Idempotency-Key is kept. Default 24h.
	IdempotencyTTL time.Duration `key:"idempotency_ttl"`
	// How long what was used in an hour is kept, 400 days. Default 9600h.
	UsageRetention time.Duration `key:"usage_retention"`
}

// Gateway is about the OpenAI-compatible routes, which call models directly.
type Gateway struct {
	// Longest call, retries included; of a stream the longest wait for its first and for each further piece. Until the first
	// piece nothing is sent, so what lies between client and server must wait as long; then silence is broken every sse.ping.
	// Raise it for models that think longer. Default 2m.
	RequestTimeout time.Duration `key:"request_timeout"`
	// Longest stream in all: one that is never silent and never ends breaks off then. Default 30m.
	StreamTimeout time.Duration `key:"stream_timeout"`
	// Most bytes that a model may send in one stream, on the wire; then it breaks off. Default 64MiB.
	MaxStream Size `key:"max_stream"`
	// How often a call is made at most: again after what may pass, never after a refusal. Default 3.
	MaxAttempts int `key:"max_attempts"`
	// First pause before a call is made again; it doubles, up to 5s. Default 200ms.
	RetryDelay time.Duration `key:"retry_delay"`
	// Failures in a row after which a provider is left alone for a while, by calls of one project; turns wait until it is tried
	// again. 0 = never. Default 5.
	BreakerThreshold int `key:"breaker_threshold"`
	// How long it is left alone. Default 30s.
	BreakerReset time.Duration `key:"breaker_reset"`
	// Largest request body; images come in it. Default 10MiB.
	MaxBody Size `key:"max_body"`
	// Calls under way at once on this node; others are refused with 503. Default 4096.
	MaxConcurrent int `key:"max_concurrent"`
}
