package auth

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"unicode"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/httpedge/endpoint"
	"parley/proto/failurepb"
)

// maxUserID bounds a user id: it becomes part of storage keys.
const maxUserID = 256

// Provider validates tokens. It is called from many goroutines.
type Provider interface {
	// Validate returns the user of a valid token, "" if the token names no user. For an invalid token the error is a
	// *failure.Failure; any other error means that the provider cannot tell, and the request is refused as unavailable.
	Validate(ctx context.Context, token string) (userID string, err error)
}

// refuse is the error for an invalid token.
func refuse(reason failure.Reason) error { return failure.New(failurepb.Code_AUTH_REQUIRED, reason) }

// lifecycle is a provider with something to start and stop.
type lifecycle interface {
	Start()
	Stop()
}

// Authenticator establishes the caller of a request. It implements endpoint.Authenticator.
type Authenticator struct {
	config   Config
	provider Provider
	excluded []routePattern
	metrics  *metrics
	logger   *slog.Logger
	down     atomic.Bool // the provider could not answer the last time
}

var _ endpoint.Authenticator = (*Authenticator)(nil)

// New returns an authenticator that uses the provider, which may be nil when authentication is off.
func New(config Config, provider Provider, logger *slog.Logger, registerer prometheus.Registerer) (*Authenticator, error) {
	if config.Enabled && provider == nil {
		return nil, errors.New("authentication is enabled without a provider")
	}
	if config.HeaderName == "" || config.MaxTokenBytes <= 0 {
		return nil, errors.New("authentication needs a header name and a token limit")
	}
	a := &Authenticator{config: config, provider: provider, logger: logger, metrics: newMetrics(registerer)}
	for _, route := range config.ExcludeRoutes {
		a.excluded = append(a.excluded, parseRoute(route))
	}
	return a, nil
}

// Start starts the provider's background work, if it has any.
func (a *Authenticator) Start() {
	if p, ok := a.provider.(lifecycle); ok {
		p.Start()
	}
}

// Stop ends the background work and waits for it.
func (a *Authenticator) Stop() {
	if p, ok := a.provider.(lifecycle); ok {
		p.Stop()
	}
}

// Authenticate returns the caller of a request, or why it is refused.
func (a *Authenticator) Authenticate(ctx context.Context, request endpoint.Request) (endpoint.Caller, *machine.Failure) {
	caller := endpoint.Caller{TenantID: a.config.TenantID, ProjectID: a.config.ProjectID}
	if !a.config.Enabled {
		caller.Trusted = true
		return a.claimed(caller, request)
	}
	userID, refused := a.identify(ctx, request.Header(a.config.HeaderName))
	if refused != nil {
		if !a.isExcluded(request.Path()) {
			return endpoint.Caller{}, refused
		}
		userID = ""
	}
	if userID == "" {
		a.metrics.anonymous.Inc()
		return a.claimed(caller, request)
	}
	a.metrics.identified.Inc()
	caller.UserID, caller.Identified = endpoint.OutsideUser(userID), true
	return caller, nil
}

// claimed adds the user that the request claims to act for, where such a claim is accepted.
func (a *Authenticator) claimed(caller endpoint.Caller, request endpoint.Request) (endpoint.Caller, *machine.Failure) {
	if !a.config.UserIDFromQuery {
		return caller, nil
	}
	userID := request.Query("userId")
	if userID != "" && !validUserID(userID) {
		return endpoint.Caller{}, failure.New(failurepb.Code_VALIDATION, failure.BadUserID).Param("most", maxUserID)
	}
	caller.UserID = endpoint.OutsideUser(userID)
	return caller, nil
}

// identify returns the user behind the header's token.
func (a *Authenticator) identify(ctx context.Context, header string) (string, *machine.Failure) {
	token := a.token(header)
	if token == "" {
		a.metrics.missing.Inc()
		return "", failure.New(failurepb.Code_AUTH_REQUIRED, failure.AuthenticationRequired)
	}
	userID, err := a.validate(ctx, token)
	var refused *failure.Failure
	switch {
	case err == nil:
		a.setDown(nil)
		return userID, nil
	case errors.As(err, &refused):
		a.metrics.refused.Inc()
		return "", refused
	}
	a.metrics.unavailable.Inc()
	if ctx.Err() == nil {
		a.setDown(err)
	}
	return "", failure.New(failurepb.Code_UNAVAILABLE, failure.AuthenticationUnavailable)
}

// validate asks the provider, unless the text cannot be a token.
func (a *Authenticator) validate(ctx context.Context, token string) (string, error) {
	if len(token) > a.config.MaxTokenBytes || !printable(token) {
		return "", refuse(failure.InvalidToken)
	}
	userID, err := a.provider.Validate(ctx, token)
	if err == nil && userID != "" && !validUserID(userID) {
		return "", refuse(failure.InvalidToken)
	}
	return userID, err
}

// setDown logs when the provider stops or starts answering, rather than once per request.
func (a *Authenticator) setDown(err error) {
	if down := err != nil; a.down.Load() != down && a.down.CompareAndSwap(!down, down) {
		if down {
			a.logger.Error("authentication provider does not answer", slog.Any("err", err))
			return
		}
		a.logger.Info("authentication provider answers again")
	}
}

func (a *Authenticator) token(header string) string {
	prefix := a.config.TokenPrefix
	if len(header) >= len(prefix) && strings.EqualFold(header[:len(prefix)], prefix) {
		header = header[len(prefix):]
	}
	return strings.TrimSpace(header)
}

func (a *Authenticator) isExcluded(path string) bool {
	for _, pattern := range a.excluded {
		if pattern.matches(path) {
			return true
		}
	}
	return false
}

// printable reports whether a token is visible ASCII, as tokens are.
func printable(token string) bool {
	for i := range len(token) {
		if token[i] <= ' ' || token[i] >= 0x7f {
			return false
		}
	}
	return true
}

func validUserID(userID string) bool {
	if userID == "" || len(userID) > maxUserID || !utf8.ValidString(userID) {
		return false
	}
	return !strings.ContainsFunc(userID, unicode.IsControl)
}
