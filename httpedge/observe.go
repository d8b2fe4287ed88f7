package httpedge

import (
	"context"
	"log/slog"

	"parley/httpedge/endpoint"
)

// Observe counts and logs an answered request: at Debug, or at Error if something broke. At Info, a busy node would say nothing else, and what
// it says to people at its start would be gone.
func (s *Server) Observe(done *endpoint.Done) {
	s.metrics.observe(done)
	ctx := context.Background()
	if done.Cause != nil {
		s.log.LogAttrs(ctx, levelOf(done), "request failed", append(attributes(done), slog.Any("err", done.Cause))...)
		return
	}
	if s.log.Enabled(ctx, slog.LevelDebug) {
		s.log.LogAttrs(ctx, slog.LevelDebug, "request", attributes(done)...)
	}
}

// levelOf distinguishes what broke here (Error) from what is temporarily unreachable (Warn).
func levelOf(done *endpoint.Done) slog.Level {
	if done.Status == 503 {
		return slog.LevelWarn
	}
	return slog.LevelError
}

func attributes(done *endpoint.Done) []slog.Attr {
	const room = 12
	attrs := make([]slog.Attr, 0, room)
	attrs = append(attrs,
		slog.String("request_id", done.Call.RequestID),
		slog.String("method", string(done.Method)),
		slog.String("route", routeLabel(done.Route)),
		slog.String("path", printable(done.Path)),
		slog.Int("status", done.Status),
		slog.Duration("elapsed", done.Elapsed),
		slog.Int("bytes", done.Bytes),
	)
	if done.Code != "" {
		attrs = append(attrs, slog.String("code", done.Code))
	}
	if done.Call.Caller.UserID != "" {
		attrs = append(attrs, slog.String("caller", done.Call.Caller.UserID))
	}
	if owner := done.Call.ServedBy(); owner != "" {
		attrs = append(attrs, slog.String("served_by", owner))
	}
	if done.Call.ServedStale() {
		attrs = append(attrs, slog.Bool("stale", true))
	}
	if done.Streamed {
		attrs = append(attrs, slog.Bool("stream", true))
	}
	return attrs
}

// routeLabel is the pattern of a route, so that the set of labels is bounded.
func routeLabel(route *endpoint.Route) string {
	if route == nil {
		return "unmatched"
	}
	return route.Path
}

// printable bounds a path for the log. The log handler escapes invalid text.
func printable(path []byte) string {
	const most = 256
	if len(path) > most {
		return string(path[:most]) + "..."
	}
	return string(path)
}
