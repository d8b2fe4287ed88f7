package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Validate checks everything once and puts what has two spellings into one form. Its error names every setting that
// is wrong, a line each.
func (c *Config) Validate() error {
	c.HTTP.BasePath = strings.TrimRight(c.HTTP.BasePath, "/")
	k := &checker{}
	c.checkProcess(k)
	c.checkSizes(k)
	c.checkCluster(k)
	c.checkHTTP(k)
	c.checkAuth(k)
	c.checkHuman(k)
	c.checkClient(k)
	c.checkSecrets(k)
	if _, err := c.AgentRecords(); err != nil {
		k.problems = append(k.problems, err)
	}
	return errors.Join(k.problems...)
}

// checker collects problems.
type checker struct{ problems []error }

func (k *checker) failf(key, format string, args ...any) {
	k.problems = append(k.problems, fmt.Errorf("%s: %w", key, fmt.Errorf(format, args...)))
}

func (k *checker) oneOf(key, value string, allowed ...string) {
	if !slices.Contains(allowed, value) {
		k.failf(key, "%q is not one of %s", value, strings.Join(allowed, ", "))
	}
}

type bound[T any] struct {
	key              string
	value, low, high T
}

func within[T int | float64 | Size | time.Duration](k *checker, bounds []bound[T]) {
	for _, b := range bounds {
		if b.value < b.low || b.value > b.high {
			format := func(v T) string { return formatScalar(reflect.ValueOf(v)) }
			k.failf(b.key, "%s is not between %s and %s", format(b.value), format(b.low), format(b.high))
		}
	}
}

func (c *Config) checkProcess(k *checker) {
	if c.DataDir == "" {
		k.failf("data_dir", "must not be empty")
	}
	checkAddress(k, "listen", c.Listen)
	checkAddress(k, "ops_listen", c.OpsListen)
	if _, port, err := net.SplitHostPort(c.Listen); err == nil && port != "0" && c.Listen == c.OpsListen {
		k.failf("ops_listen", "must differ from listen (%s)", c.Listen)
	}
	if !matches(`^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$`, c.Node.Name) {
		k.failf("node.name", "%q needs 1 to 63 letters, digits and inner hyphens", c.Node.Name)
	}
	k.oneOf("log.level", c.Log.Level, "debug", "info", "warn", "error")
	k.oneOf("log.format", c.Log.Format, "text", "json")
}

func checkAddress(k *checker, key, address string) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		k.failf(key, "%q is not host:port", address)
		return
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		k.failf(key, "%q is not a port number", port)
	}
}

func (c *Config) checkSizes(k *checker) {
	const day, many = 24 * time.Hour, 10_000_000
	within(k, []bound[int]{
		{"storage.shards", c.Storage.Shards, 1, 1024},
		{"storage.snapshot_entries", c.Storage.SnapshotEntries, 10, many},
		{"storage.keep_entries", c.Storage.KeepEntries, 1, many},
		{"storage.max_open_files", c.Storage.MaxOpenFiles, 100, many},
		{"http.max_json_depth", c.HTTP.MaxJSONDepth, 4, 1000},
		{"http.max_connections", c.HTTP.MaxConnections, 1, many},
		{"limits.burst", c.Limits.Burst, 0, many},
		{"limits.streams_per_caller", c.Limits.StreamsPerCaller, 0, many},
		{"limits.callers", c.Limits.Callers, 1, many},
		{"conversation.list_page_size", c.Conversation.ListPageSize, 1, c.Conversation.MaxListPageSize},
		{"conversation.max_list_page_size", c.Conversation.MaxListPageSize, 1, 10_000},
		{"conversation.message_page_size", c.Conversation.MessagePageSize, 1, c.Conversation.MaxPageSize},
		{"conversation.max_page_size", c.Conversation.MaxPageSize, 1, 10_000},
		{"conversation.event_page_size", c.Conversation.EventPageSize, 1, c.Conversation.MaxEventPageSize},
		{"conversation.max_event_page_size", c.Conversation.MaxEventPageSize, 1, 10_000},
		{"conversation.max_bulk_delete", c.Conversation.MaxBulkDelete, 1, 10_000},
		{"actors.mailbox", c.Actors.Mailbox, 1, many},
		{"actors.max_active", c.Actors.MaxActive, 1, many},
		{"turn.max_concurrent", c.Turn.MaxConcurrent, 1, many},
		{"turn.max_rounds", c.Turn.MaxRounds, 1, 1000},
		{"turn.meter_tokens", c.Turn.MeterTokens, 1, 100_000},
		{"tools.max_parallel", c.Tools.MaxParallel, 1, 1000},
		{"export.max_concurrent", c.Export.MaxConcurrent, 1, 100},
		{"sse.max_streams", c.SSE.MaxStreams, 1, many},
		{"auth.cache_entries", c.Auth.CacheEntries, 0, many},
		{"auth.callout.max_concurrent", c.Auth.Callout.MaxConcurrent, 1, 10_000},
	})
	within(k, []bound[float64]{{"limits.requests_per_second", c.Limits.RequestsPerSecond, 0, many}})
	within(k, []bound[Size]{
		{"storage.cache", c.Storage.Cache, MiB, TiB},
		{"storage.memtable", c.Storage.Memtable, MiB, 2 * GiB},
		{"storage.snapshot_rate", c.Storage.SnapshotRate, 64 * KiB, TiB},
		{"storage.min_free", c.Storage.MinFree, 0, 1024 * TiB},
		{"http.max_body", c.HTTP.MaxBody, KiB, GiB},
		{"http.max_file_body", c.HTTP.MaxFileBody, c.HTTP.MaxBody, GiB},
		{"http.max_header", c.HTTP.MaxHeader, KiB, MiB},
		{"http.max_path", c.HTTP.MaxPath, 256, c.HTTP.MaxHeader},
		{"conversation.max_message", c.Conversation.MaxMessage, 1, c.HTTP.MaxBody},
		{"conversation.max_metadata", c.Conversation.MaxMetadata, 2, c.HTTP.MaxBody},
		{"turn.max_answer", c.Turn.MaxAnswer, 1, GiB},
		{"turn.max_stream", c.Turn.MaxStream, KiB, 1024 * GiB},
		{"tools.max_result", c.Tools.MaxResult, 256, 4 * MiB},
		{"tools.max_turn_results", c.Tools.MaxTurnResults, c.Tools.MaxResult, 16 * MiB},
		{"hitl.client_tool_max_output", c.HITL.ClientToolMaxOutput, 1, 16 * MiB},
		{"sse.queue", c.SSE.Queue, 4 * KiB, GiB},
		{"sse.send_buffer", c.SSE.SendBuffer, 4 * KiB, 64 * MiB},
		{"auth.max_token", c.Auth.MaxToken, 16, MiB},
		{"auth.jwt.jwks_max_bytes", c.Auth.JWT.JWKSMaxBytes, KiB, 64 * MiB},
	})
	within(k, []bound[time.Duration]{
		{"shutdown_grace", c.ShutdownGrace, 0, time.Hour},
		{"http.read_timeout", c.HTTP.ReadTimeout, 100 * time.Millisecond, time.Hour},
		{"http.write_timeout", c.HTTP.WriteTimeout, 100 * time.Millisecond, time.Hour},
		{"http.idle_timeout", c.HTTP.IdleTimeout, 100 * time.Millisecond, day},
		{"http.request_timeout", c.HTTP.RequestTimeout, 100 * time.Millisecond, time.Hour},
		{"http.cors.max_age", c.HTTP.CORS.MaxAge, 0, 30 * day},
		{"conversation.loose_file_retention", c.Conversation.LooseFileRetention, 0, 36_500 * day},
		{"conversation.cancel_wait", c.Conversation.CancelWait, 0, time.Minute},
		{"actors.idle_timeout", c.Actors.IdleTimeout, 100 * time.Millisecond, 30 * day},
		{"actors.append_timeout", c.Actors.AppendTimeout, 10 * time.Millisecond, time.Hour},
		{"turn.timeout", c.Turn.Timeout, 100 * time.Millisecond, day},
		{"turn.stop_timeout", c.Turn.StopTimeout, 10 * time.Millisecond, time.Hour},
		{"tools.timeout", c.Tools.Timeout, 10 * time.Millisecond, c.Turn.Timeout},
		{"hitl.timeout", c.HITL.Timeout, time.Second, 365 * day},
		{"hitl.resolve_wait", c.HITL.ResolveWait, 0, day},
		{"export.timeout", c.Export.Timeout, 100 * time.Millisecond, time.Hour},
		{"tasks.callback_timeout", c.Tasks.CallbackTimeout, 10 * time.Millisecond, time.Hour},
		{"sse.ping", c.SSE.Ping, 100 * time.Millisecond, time.Hour},
		{"sse.write_timeout", c.SSE.WriteTimeout, 100 * time.Millisecond, time.Hour},
		{"auth.callout.timeout", c.Auth.Callout.Timeout, time.Millisecond, time.Minute},
		{"auth.callout.cache_ttl", c.Auth.Callout.CacheTTL, 0, day},
		{"auth.jwt.leeway", c.Auth.JWT.Leeway, 0, 10 * time.Minute},
		{"auth.jwt.cache_ttl", c.Auth.JWT.CacheTTL, 0, day},
		{"auth.jwt.jwks_refresh", c.Auth.JWT.JWKSRefresh, time.Second, day},
		{"auth.jwt.jwks_max_stale", c.Auth.JWT.JWKSMaxStale, c.Auth.JWT.JWKSRefresh, 30 * day},
		{"auth.jwt.jwks_timeout", c.Auth.JWT.JWKSTimeout, time.Millisecond, time.Minute},
	})
}

func (c *Config) checkHTTP(k *checker) {
	base := c.HTTP.BasePath
	if base != "" && !matches(`^(/[A-Za-z0-9._~-]+)+$`, base) {
		k.failf("http.base_path", "%q must begin with / and hold letters, digits, '-', '.', '_', '~' between slashes", base)
	}
	if slices.ContainsFunc(strings.Split(base, "/"), func(s string) bool { return s == "." || s == ".." }) {
		k.failf("http.base_path", "%q must not hold . or .. segments", base)
	}
	for i, origin := range c.HTTP.CORS.Origins {
		if origin == "*" {
			continue
		}
		u, err := url.Parse(origin)
		if err != nil || u.Host == "" || u.Scheme == "" || u.Scheme+"://"+u.Host != origin || strings.Contains(u.Host, "*") {
			k.failf(fmt.Sprintf("http.cors.origins[%d]", i), "%q is not an origin such as https://chat.example.com", origin)
		}
	}
	for i, host := range c.HTTP.Hosts {
		if host == "" || strings.ContainsAny(host, ":/@ ") {
			k.failf(fmt.Sprintf("http.hosts[%d]", i), "%q is not the name of a host, without a port", host)
		}
	}
	for i, name := range c.HTTP.CORS.Headers {
		if !isHeaderName(strings.TrimSuffix(name, "*")) {
			k.failf(fmt.Sprintf("http.cors.headers[%d]", i), "%q is not a header name", name)
		}
	}
}

// Warnings says what of a valid configuration is probably not meant, for the log.
func (c *Config) Warnings() []string {
	var warnings []string
	if slices.Contains(c.HTTP.CORS.Origins, "*") {
		who := "call in the name of whoever runs it, as authentication is off"
		if c.Auth.Enabled {
			who = "make use of every token that it gets hold of"
		}
		warnings = append(warnings, "http.cors.origins is \"*\": a page of any origin may "+who+"; name the origins that are meant")
	}
	return warnings
}

// checkSecrets refuses the mark that --print-config leaves in the place of a secret.
func (c *Config) checkSecrets(k *checker) {
	var walk func(value reflect.Value, key string)
	walk = func(value reflect.Value, key string) {
		switch value.Kind() {
		case reflect.Pointer:
			if !value.IsNil() {
				walk(value.Elem(), key)
			}
		case reflect.Struct:
			for _, f := range fieldsOf(value.Type()) {
				walk(value.Field(f.index), join(key, f.key))
			}
		case reflect.Slice:
			for i := range value.Len() {
				walk(value.Index(i), fmt.Sprintf("%s[%d]", key, i))
			}
		case reflect.String:
			if value.Type() == reflect.TypeFor[Secret]() && value.String() == redacted {
				k.failf(key, "is redacted: put the real secret in its place")
			}
		default:
		}
	}
	walk(reflect.ValueOf(c).Elem(), "")
}

func matches(pattern, text string) bool {
	ok, err := regexp.MatchString(pattern, text)
	return err == nil && ok
}

func isHeaderName(name string) bool {
	return matches("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$", name)
}

// isLoopback says whether only this machine can reach the address.
func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
