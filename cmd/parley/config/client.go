package config

import "time"

// Client configures the Client API: agents, sessions, responses, runs, for callers with an API token.
type Client struct {
	// Path before all its routes; a trailing slash is dropped.
	BasePath string `key:"base_path" default:"/api/client/v1"`
	// Licence tier of the first tenant: FREE, STARTER, PROFESSIONAL, ENTERPRISE or ON_PREMISE. It determines the
	// available features and the requests per month. Applied at every start.
	License string `key:"license" default:"ON_PREMISE" one_of:"FREE,STARTER,PROFESSIONAL,ENTERPRISE,ON_PREMISE"`
	// How long a wait for a run lasts unless the request says otherwise.
	RunWait time.Duration `key:"run_wait" default:"30s" range:"1ms..client.max_run_wait"`
	// Longest wait for a run.
	MaxRunWait time.Duration `key:"max_run_wait" default:"5m" range:"1ms..1h"`
	// Background runs of one project that run at the same time, in the whole cluster; others are queued.
	RunConcurrency int `key:"run_concurrency" default:"32" range:"1..10_000"`
	// Background runs of one project that may be queued; above that 429.
	MaxQueuedRuns int `key:"max_queued_runs" default:"1000" range:"1..10_000"`
	// Time limit of one attempt of a run's callback; there are up to five.
	CallbackTimeout time.Duration `key:"callback_timeout" default:"10s" range:"100ms..5m"`
	// How long a checked API token is cached, at most a minute.
	TokenCacheTTL time.Duration `key:"token_cache_ttl" default:"1m" range:"1ms..1m"`
	// Checked API tokens that are cached.
	TokenCacheEntries int `key:"token_cache_entries" default:"10000" range:"1..10_000_000"`
	// How long the response to a request with an Idempotency-Key is kept.
	IdempotencyTTL time.Duration `key:"idempotency_ttl" default:"24h" range:"1s..720h"`
	// Largest body of a reported trace; a packed one counts as it is unpacked.
	TracingMaxBody Size `key:"tracing_max_body" default:"10MiB" range:"1KiB..1GiB"`
	// How long reported traces are kept after the last that was heard of them.
	TracingRetention time.Duration `key:"tracing_retention" default:"720h" range:"1m..87600h"`
	// How long hourly usage records are kept, 400 days; whole days of UTC go.
	UsageRetention time.Duration `key:"usage_retention" default:"9600h" range:"24h..876000h"`
}

// Permissions configures who decides what the users of the Client API and the owners of its tokens may do.
type Permissions struct {
	// builtin decides by role and the users' own permissions. http asks another engine by the AuthZEN evaluation API, once per
	// request; a token's scope still binds. off is builtin without a log of decisions, and project admins manage webhooks, too.
	Engine string `key:"engine" default:"builtin" one_of:"builtin,http,off"`
	// Of another engine: /access/v1/evaluation is appended. While it does not answer, all requests are refused with 503.
	URL string `key:"url"`
	// Bearer token for it.
	Token Secret `key:"token"`
	// Longest wait for a decision.
	Timeout time.Duration `key:"timeout" default:"1s" range:"10ms..1m"`
	// Questions in progress at once on this node; further ones wait.
	MaxConcurrent int `key:"max_concurrent" default:"256" range:"1..65_536"`
	// How long the decisions by which requests were refused are kept.
	DecisionRetention time.Duration `key:"decision_retention" default:"720h" range:"1m..87600h"`
}

// Audit configures the trail of who changed what on the Client API and the dashboard's routes.
type Audit struct {
	// How long rows are kept, 400 days.
	Retention time.Duration `key:"retention" default:"9600h" range:"1m..876000h"`
	// Rows that are kept of a tenant; beyond that the oldest ones go, whatever their age.
	MaxRows int `key:"max_rows" default:"200000" range:"64..10_000_000"`
}

// Gateway configures the OpenAI-compatible routes, which call models directly.
type Gateway struct {
	// Time limit of a call, including retries; for a stream that of the wait for its first and for each further piece.
	// Nothing is sent until the first piece, so proxies between client and server must wait as long; after that
	// comments are sent every sse.ping. Raise it for models that think longer.
	RequestTimeout time.Duration `key:"request_timeout" default:"2m" range:"100ms..1h"`
	// Longest stream in all; after that it is cut off.
	StreamTimeout time.Duration `key:"stream_timeout" default:"30m" range:"gateway.request_timeout..24h"`
	// Most bytes that a model may send in one stream, on the wire; after that it is cut off.
	MaxStream Size `key:"max_stream" default:"64MiB" range:"1KiB..1TiB"`
	// Attempts of a call at most. Only temporary failures are retried.
	MaxAttempts int `key:"max_attempts" default:"3" range:"1..20"`
	// First pause before a retry; it doubles, up to 5s.
	RetryDelay time.Duration `key:"retry_delay" default:"200ms" range:"1ms..5s"`
	// Consecutive failures after which calls of one project do not use a provider for a while; turns wait until it is
	// tried again. 0 = never.
	BreakerThreshold int `key:"breaker_threshold" default:"5" range:"0..1_000_000"`
	// How long it is not called.
	BreakerReset time.Duration `key:"breaker_reset" default:"30s" range:"1ms..1h"`
	// Largest request body, including images.
	MaxBody Size `key:"max_body" default:"10MiB" range:"1KiB..1GiB"`
	// Largest recording that may be sent for a transcription.
	MaxUpload Size `key:"max_upload" default:"100MiB" range:"1KiB..4GiB"`
	// How long it may take to come.
	UploadTimeout time.Duration `key:"upload_timeout" default:"15m" range:"1s..24h"`
	// Recordings are kept in the data directory until they have been transcribed: how much in all; beyond that they are refused
	// with 503.
	UploadSpace Size `key:"upload_space" default:"1GiB" range:"gateway.max_upload..1TiB"`
	// Calls in progress at once on this node; further ones are refused with 503.
	MaxConcurrent int `key:"max_concurrent" default:"4096" range:"1..1_000_000"`
	// Memory for answers that are given again to the same request, of all models whose records have a cache; 0 = none are
	// kept. The least used make room.
	MaxCache Size `key:"max_cache" default:"64MiB" range:"0..1TiB"`
}
