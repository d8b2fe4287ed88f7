// Package configure turns the configuration of a node into the settings of each of its parts.
package configure

import (
	"os"
	"slices"
	"strings"
	"time"

	"parley/actors/conversation"
	rules "parley/actors/core/permission"
	"parley/actors/inference"
	"parley/actors/machine"
	"parley/cmd/parley/config"
	"parley/httpedge"
	"parley/httpedge/clientapi"
	"parley/httpedge/convapi"
	"parley/httpedge/endpoint"
	"parley/httpedge/gateway"
	"parley/httpedge/gateway/audio"
	"parley/httpedge/limit"
	"parley/httpedge/opsapi"
	"parley/httpedge/permission"
	"parley/httpedge/site"
	"parley/httpedge/sse"
	"parley/persistence"
)

// The functions below derive each part's settings from the configuration. What that does not name keeps the part's default.

// Store returns the settings of the store.
func Store(c *config.Config, d Descriptors) persistence.Options {
	return persistence.Options{
		Dir:             c.DataDir,
		Shards:          c.Storage.Shards,
		CacheBytes:      int64(c.Storage.Cache),
		MemtableBytes:   int64(c.Storage.Memtable),
		MaxOpenFiles:    d.tables,
		SpareFiles:      d.spare,
		MinFreeBytes:    int64(c.Storage.MinFree),
		SnapshotEntries: uint64(c.Storage.SnapshotEntries),
		KeepEntries:     uint64(c.Storage.KeepEntries),
		SnapshotRate:    int64(c.Storage.SnapshotRate),
		OldSums: func(now time.Time) (prefix, before string) {
			return machine.UsagePrefix, machine.UsageDay(now.Add(-c.Client.UsageRetention).UnixMilli())
		},
	}
}

// usageRest is how long usage of a day is still expected after its end: what comes later has the day packed again.
const usageRest = 2 * time.Hour

// PackUsage is how usage of past days is stored at a time.
func PackUsage(now time.Time) persistence.Packing {
	return persistence.Packing{
		Prefix: machine.UsagePrefix, Before: machine.UsageDay(now.Add(-usageRest).UnixMilli()), Head: machine.UsageHead,
		Span: machine.UsageDayOf, Parts: machine.UsageHoursOf,
	}
}

// rememberedOutcomes is how many outcomes of its newest commands a conversation keeps, to answer repeated ones. Only the router
// repeats commands, within seconds, and a conversation takes one turn at a time; each outcome adds about 100 bytes to every write
// of the head.
const rememberedOutcomes = 6

// Conversations returns the limits of conversations.
func Conversations(c *config.Config) conversation.Limits {
	limits := conversation.DefaultLimits()
	limits.MessageBytes = int(c.Conversation.MaxMessage)
	limits.MetadataBytes = int(c.Conversation.MaxMetadata)
	limits.SettleWait = c.Conversation.CancelWait
	limits.MaxSettleWait = max(limits.MaxSettleWait, c.Conversation.CancelWait)
	limits.CancelGrace = c.Turn.StopTimeout
	limits.Outcomes = rememberedOutcomes
	limits.ActionTimeout = c.HITL.Timeout
	limits.OnActionTimeout = c.HITL.OnTimeout
	limits.PendingPolicy = c.HITL.PendingActionPolicy
	limits.ClientToolOutputBytes = int(c.HITL.ClientToolMaxOutput)
	return limits
}

// Hub returns the settings of the streams.
func Hub(c *config.Config) sse.Config {
	hub := sse.DefaultConfig()
	hub.MaxStreams = c.SSE.MaxStreams
	hub.SendBuffer = int(c.SSE.SendBuffer)
	hub.QueueBytes = int(c.SSE.Queue)
	hub.PingEvery = c.SSE.Ping
	hub.StallTimeout = c.SSE.WriteTimeout
	return hub
}

// API returns the settings of the conversation server.
func API(c *config.Config) convapi.Config {
	api := convapi.DefaultConfig()
	api.BasePath = c.HTTP.BasePath
	api.ListPage, api.MaxListPage = c.Conversation.ListPageSize, c.Conversation.MaxListPageSize
	api.MessagePage, api.MaxMessagePage = c.Conversation.MessagePageSize, c.Conversation.MaxPageSize
	api.EventPage, api.MaxEventPage = c.Conversation.EventPageSize, c.Conversation.MaxEventPageSize
	api.MaxBulkDelete = c.Conversation.MaxBulkDelete
	api.TurnTimeout = c.Turn.Timeout
	api.ResolveWait = c.HITL.ResolveWait
	if api.ResolveWait == 0 {
		api.ResolveWait = c.Turn.Timeout
	}
	api.MaxFileBody = int(c.HTTP.MaxFileBody)
	api.FileRetention = c.Conversation.LooseFileRetention
	api.CancelWait = c.Conversation.CancelWait
	api.AllowAnonymousList = c.Conversation.AnonymousList
	api.AuthEnabled = c.Auth.Enabled
	// With a context hook of the application, only that names the user.
	api.UserIDFromBody = slices.Contains(c.Auth.ResolveUserID, "body") && c.Hooks.ResolveContext.URL == ""
	api.Docs = c.HTTP.Docs
	return api
}

// Limit returns the settings of the rate limiter.
func Limit(c *config.Config) limit.Config {
	return limit.Config{
		RequestsPerSecond: c.Limits.RequestsPerSecond, Burst: c.Limits.Burst,
		StreamsPerCaller: c.Limits.StreamsPerCaller, Callers: c.Limits.Callers,
	}
}

// HTTP returns the settings of the HTTP server.
func HTTP(c *config.Config, d Descriptors) httpedge.Config {
	http := httpedge.DefaultConfig()
	http.ReadTimeout, http.WriteTimeout, http.IdleTimeout = c.HTTP.ReadTimeout, c.HTTP.WriteTimeout, c.HTTP.IdleTimeout
	http.RequestTimeout, http.RecheckEvery = c.HTTP.RequestTimeout, min(c.SSE.Ping, http.RecheckEvery)
	http.MaxHeaderBytes, http.MaxBodyBytes, http.MaxPathBytes = int(c.HTTP.MaxHeader), int(c.HTTP.MaxBody), int(c.HTTP.MaxPath)
	http.MaxJSONDepth, http.MaxConnections = c.HTTP.MaxJSONDepth, c.HTTP.MaxConnections
	http.MaxStreams, http.MaxSockets = c.SSE.MaxStreams, d.sockets
	http.Credentials = []string{c.Auth.HeaderName}
	http.Proxies.Header, http.Proxies.Announced = c.HTTP.ForwardedHeader, c.HTTP.ProxyProtocol
	for _, proxy := range c.HTTP.TrustedProxies {
		if network, err := config.ParseNetwork(proxy); err == nil { // as was checked
			http.Proxies.Trusted = append(http.Proxies.Trusted, network)
		}
	}
	if !c.Auth.Enabled {
		http.Site = &site.Policy{Hosts: c.HTTP.Hosts, Names: ownNames(), Origins: c.HTTP.CORS.Origins}
	}
	http.CORS = endpoint.CORS{
		Origins: c.HTTP.CORS.Origins, Headers: corsHeaders(c), MaxAge: c.HTTP.CORS.MaxAge,
	}
	return http
}

// ownNames are the host names of this machine.
func ownNames() []string {
	name, err := os.Hostname()
	if err != nil {
		return nil
	}
	return []string{name}
}

// corsHeaders are the configured headers and the one that carries the token: without it no page of another origin could
// authenticate.
func corsHeaders(c *config.Config) []string {
	carries := func(name string) bool { return strings.EqualFold(name, c.Auth.HeaderName) }
	if slices.ContainsFunc(c.HTTP.CORS.Headers, carries) {
		return c.HTTP.CORS.Headers
	}
	return append(slices.Clone(c.HTTP.CORS.Headers), c.Auth.HeaderName)
}

// Ops returns the settings of the operations listener.
func Ops(c *config.Config, d Descriptors) opsapi.Config {
	ops := opsapi.DefaultConfig()
	ops.RemotePprof, ops.RemoteAdmin = c.Ops.RemotePprof, c.Ops.RemoteAdmin
	ops.MaxConnections, ops.Hosts = d.ops, append(ownNames(), c.HTTP.Hosts...)
	return ops
}

// Client returns the settings of the Client API.
func Client(c *config.Config) clientapi.Config {
	settings := clientapi.DefaultConfig()
	settings.BasePath = c.Client.BasePath
	settings.TurnTimeout = c.Turn.Timeout + c.HTTP.RequestTimeout
	settings.CancelWait = c.Conversation.CancelWait
	settings.RunWait, settings.MaxRunWait = c.Client.RunWait, c.Client.MaxRunWait
	settings.EventPage, settings.MaxEventPage = c.Conversation.EventPageSize, c.Conversation.MaxEventPageSize
	settings.MaxFileBody = int(c.HTTP.MaxFileBody)
	settings.TraceBody, settings.TraceRetention = int(c.Client.TracingMaxBody), c.Client.TracingRetention
	settings.Docs = c.HTTP.Docs
	return settings
}

// Permission returns the settings of the permission engine.
func Permission(c *config.Config) permission.Config {
	settings := permission.Config{
		URL: c.Permissions.URL, Token: c.Permissions.Token.Reveal(), Timeout: c.Permissions.Timeout,
		MaxConcurrent: c.Permissions.MaxConcurrent,
	}
	switch c.Permissions.Engine {
	case "off":
		settings.Policy = rules.Off
	case "http":
		settings.Policy = rules.External
	}
	return settings
}

// Gateway returns the settings of the gateway.
func Gateway(c *config.Config) gateway.Config {
	settings := gateway.DefaultConfig()
	settings.BasePath = c.Client.BasePath
	settings.CallTimeout = c.Gateway.RequestTimeout + gatewayMargin
	settings.StreamTimeout = c.Gateway.StreamTimeout + gatewayMargin
	settings.PingEvery, settings.WriteTimeout = c.SSE.Ping, c.SSE.WriteTimeout
	settings.MaxBody = int(c.Gateway.MaxBody)
	return settings
}

// Audio returns the settings of the gateway's routes of sound.
func Audio(c *config.Config) audio.Config {
	return audio.Config{
		MaxUpload: int64(c.Gateway.MaxUpload), UploadTimeout: c.Gateway.UploadTimeout,
		CallTimeout: c.Gateway.RequestTimeout + gatewayMargin, MaxBody: int(c.Gateway.MaxBody),
	}
}

// gatewayMargin is how much longer the edge waits than the call's own timeout, so that the call reports what was too slow.
const gatewayMargin = 5 * time.Second

// Inference returns the settings of calls to models that belong to no conversation.
func Inference(c *config.Config) inference.Config {
	settings := inference.DefaultConfig()
	settings.RequestTimeout, settings.MaxAttempts = c.Gateway.RequestTimeout, c.Gateway.MaxAttempts
	settings.StreamTimeout, settings.MaxStreamBytes = c.Gateway.StreamTimeout, int64(c.Gateway.MaxStream)
	settings.RetryDelay = c.Gateway.RetryDelay
	settings.MaxConcurrent, settings.MaxCacheBytes = c.Gateway.MaxConcurrent, int64(c.Gateway.MaxCache)
	return settings
}
