package hook

import (
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Hooks are the configured hooks. They are safe for concurrent use.
type Hooks struct {
	headers                        []string
	context, rate, budget, resolve *hookClient // nil = off
	transport                      *http.Transport
}

// New returns the hooks of a configuration. Zero fields get their defaults.
func New(config Config, log *slog.Logger, registerer prometheus.Registerer) (*Hooks, error) {
	config = config.withDefaults()
	calls := newCalls(registerer)
	h := &Hooks{headers: config.Headers, transport: &http.Transport{
		// No proxy from the environment. All waits are bounded by the call's deadline.
		MaxIdleConnsPerHost: 16, IdleConnTimeout: 30 * time.Second, TLSHandshakeTimeout: 5 * time.Second,
		MaxResponseHeaderBytes: 64 << 10, ForceAttemptHTTP2: true,
	}}
	client := &http.Client{
		Transport: h.transport,
		// A redirect would send a caller's credentials to an address that was not configured.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	for _, one := range []struct {
		name       string
		endpoint   Endpoint
		hookClient **hookClient
	}{
		{resolveContext, config.ResolveContext, &h.context},
		{rateLimit, config.RateLimit, &h.rate},
		{authorizeBudget, config.AuthorizeBudget, &h.budget},
		{authorizeResolve, config.AuthorizeResolve, &h.resolve},
	} {
		if one.endpoint.URL == "" {
			continue
		}
		if err := one.endpoint.check(); err != nil {
			return nil, fmt.Errorf("hook %s: %w", one.name, err)
		}
		*one.hookClient = newAsker(one.name, one.endpoint, client, log, calls)
	}
	return h, nil
}

// Stop closes idle connections. Calls in progress end with their requests.
func (h *Hooks) Stop() { h.transport.CloseIdleConnections() }

// newCalls counts calls by hook and outcome: yes, no, failed.
func newCalls(registerer prometheus.Registerer) *prometheus.CounterVec {
	calls := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "parley_hook_calls_total",
		Help: "Questions to the operator's application by hook and answer: yes, no, failed.",
	}, []string{"hook", "answer"})
	if registerer != nil {
		registerer.MustRegister(calls)
	}
	return calls
}
