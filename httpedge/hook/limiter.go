package hook

import (
	"context"
	"math"

	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/httpedge/endpoint"
	"parley/proto/failurepb"
)

// Limiter calls rateLimit for each request that inner allows. It returns inner itself when the hook is off.
func (h *Hooks) Limiter(inner endpoint.Limiter) endpoint.Limiter {
	if h.rate == nil {
		return inner
	}
	return &limiter{Limiter: inner, hook: h.rate}
}

type limiter struct {
	endpoint.Limiter // inner limits the streams
	hook             *hookClient
}

type rateQuestion struct {
	Hook     string `json:"hook"`
	Method   string `json:"method"`
	Route    string `json:"route"` // as in the API document
	Path     string `json:"path"`
	RemoteIP string `json:"remoteIp"`
	Caller   person `json:"caller"`
}

// Allow implements endpoint.Limiter.
func (l *limiter) Allow(caller endpoint.Caller, request endpoint.Request, route *endpoint.Route) *machine.Failure {
	if refused := l.Limiter.Allow(caller, request, route); refused != nil {
		return refused
	}
	got, err := l.hook.ask(context.Background(), &rateQuestion{ // the hook's timeout bounds it
		Hook: rateLimit, Method: request.Method(), Route: route.Path, Path: request.Path(),
		RemoteIP: request.RemoteIP(), Caller: personOf(caller),
	})
	switch {
	case err != nil && l.hook.lenient():
		return nil
	case err != nil:
		return failure.New(failurepb.Code_RATE_LIMITED, failure.RateLimitNotChecked).With("retryAfter", 1)
	case got.denied() || got.Allowed == nil:
		return denied(failurepb.Code_RATE_LIMITED, got, failure.TooManyRequests).With("retryAfter", seconds(got.RetryAfter))
	}
	return nil
}

// seconds rounds a wait to whole seconds, at least one and at most a day.
func seconds(wait float64) int {
	const longest = 24 * 60 * 60
	if math.IsNaN(wait) || wait < 1 {
		return 1
	}
	return int(math.Ceil(min(wait, longest)))
}
