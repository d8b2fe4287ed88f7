package config

import (
	"strings"
	"time"
	"unicode"
)

// minBootstrapToken keeps out what is guessed in no time.
const minBootstrapToken = 8

func (c *Config) checkClient(k *checker) {
	c.Client.BasePath = strings.TrimRight(c.Client.BasePath, "/")
	base := c.Client.BasePath
	if !strings.HasPrefix(base, "/") || strings.ContainsAny(base, "{}?# ") {
		k.failf("client.base_path", "%q must begin with / and be plain", base)
	} else if base == c.HTTP.BasePath {
		k.failf("client.base_path", "%q is the conversation server's (http.base_path)", base)
	}
	k.oneOf("client.license", c.Client.License, "FREE", "STARTER", "PROFESSIONAL", "ENTERPRISE", "ON_PREMISE")
	within(k, []bound[time.Duration]{
		{"client.run_wait", c.Client.RunWait, time.Millisecond, c.Client.MaxRunWait},
		{"client.max_run_wait", c.Client.MaxRunWait, time.Millisecond, time.Hour},
		{"client.callback_timeout", c.Client.CallbackTimeout, 100 * time.Millisecond, 5 * time.Minute},
		{"client.token_cache_ttl", c.Client.TokenCacheTTL, time.Millisecond, time.Minute},
		{"client.idempotency_ttl", c.Client.IdempotencyTTL, time.Second, 30 * 24 * time.Hour},
		{"client.usage_retention", c.Client.UsageRetention, 24 * time.Hour, 100 * 365 * 24 * time.Hour},
		{"gateway.request_timeout", c.Gateway.RequestTimeout, 100 * time.Millisecond, time.Hour},
		{"gateway.stream_timeout", c.Gateway.StreamTimeout, c.Gateway.RequestTimeout, 24 * time.Hour},
		{"gateway.retry_delay", c.Gateway.RetryDelay, time.Millisecond, 5 * time.Second},
		{"gateway.breaker_reset", c.Gateway.BreakerReset, time.Millisecond, time.Hour},
	})
	within(k, []bound[int]{
		{"client.run_concurrency", c.Client.RunConcurrency, 1, 10_000},
		{"client.max_queued_runs", c.Client.MaxQueuedRuns, 1, 10_000},
		{"client.token_cache_entries", c.Client.TokenCacheEntries, 1, 10_000_000},
		{"gateway.max_attempts", c.Gateway.MaxAttempts, 1, 20},
		{"gateway.breaker_threshold", c.Gateway.BreakerThreshold, 0, 1_000_000},
		{"gateway.max_concurrent", c.Gateway.MaxConcurrent, 1, 1_000_000},
	})
	within(k, []bound[Size]{
		{"gateway.max_body", c.Gateway.MaxBody, KiB, GiB},
		{"gateway.max_stream", c.Gateway.MaxStream, KiB, 1024 * GiB},
	})
	token := c.BootstrapToken.Reveal()
	if token == "" {
		return
	}
	if len(token) < minBootstrapToken || Size(len(token)) > c.Auth.MaxToken ||
		strings.ContainsFunc(token, func(r rune) bool { return r > unicode.MaxASCII || !unicode.IsGraphic(r) || r == ' ' }) {
		k.failf("bootstrap_token", "must be at least %d printable ASCII characters without blanks", minBootstrapToken)
	}
}
