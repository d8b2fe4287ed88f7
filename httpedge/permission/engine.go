package permission

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley/actors/core/access"
	"parley/actors/core/failure"
	"parley/actors/core/permission"
	"parley/actors/machine"
	"parley/httpedge/endpoint"
	"parley/proto/decisionpb"
	"parley/proto/failurepb"
)

// Config is the settings of the permission engine.
type Config struct {
	// Policy says who decides.
	Policy permission.Policy
	// URL is where an external engine is: the evaluation endpoint is URL + "/access/v1/evaluation". Only for permission.External.
	URL string
	// Token is sent to it as a bearer token; empty = none.
	Token string
	// Timeout bounds one question, including the wait for a place. Default 1 s. A longer one tolerates a slow engine and makes
	// every request wait for it.
	Timeout time.Duration
	// MaxConcurrent bounds the questions under way. Default 256.
	MaxConcurrent int
}

// Engine decides. It is safe for concurrent use.
type Engine struct {
	policy   permission.Policy
	external *evaluator // only for permission.External
	log      *Log
}

// New returns an engine. A nil log keeps nothing.
func New(config Config, log *Log, logger *slog.Logger, to prometheus.Registerer) (*Engine, error) {
	e := &Engine{policy: config.Policy, log: log}
	if config.Policy != permission.External {
		return e, nil
	}
	if address, err := url.Parse(config.URL); err != nil || address.Host == "" {
		return nil, errors.New("the external permission engine needs a URL")
	}
	e.external = newEvaluator(config, logger, to)
	return e, nil
}

// Policy is who decides, for what has no time to ask another engine.
func (e *Engine) Policy() permission.Policy { return e.policy }

// Stop closes the connections to an external engine.
func (e *Engine) Stop() {
	if e.external != nil {
		e.external.client.CloseIdleConnections()
	}
}

// Where is the route that a caller wants to use.
type Where interface {
	Method() string
	Path() string
}

// Check refuses what the caller may not do, and keeps the decision.
func (e *Engine) Check(ctx context.Context, caller endpoint.Caller, service access.Service, level access.Level, where Where) *machine.Failure {
	verdict := permission.Decide(e.policy, caller.Grant, service, level)
	if verdict.Allowed && e.external == nil {
		return nil
	}
	text := verdict.Reason.Text(caller.Grant, service, level)
	if verdict.Allowed {
		said, err := e.external.ask(ctx, caller, service, level, where.Method()+" "+where.Path())
		switch {
		case err != nil:
			return unavailable()
		case said.allowed:
			return nil
		}
		verdict, text = permission.Verdict{Reason: permission.EngineRefused}, said.reason
		if text == "" {
			text = verdict.Reason.Text(caller.Grant, service, level)
		}
	}
	return e.refuse(caller, where, &decisionpb.Decision{
		Service: string(service), Level: level.String(), Reason: string(verdict.Reason), Text: text, External: e.external != nil,
	})
}

// Allows says whether the caller may do something besides what the route takes, and keeps nothing. It fails when that cannot be
// decided.
func (e *Engine) Allows(ctx context.Context, caller endpoint.Caller, service access.Service, level access.Level) (bool, error) {
	verdict := permission.Decide(e.policy, caller.Grant, service, level)
	if !verdict.Allowed || e.external == nil {
		return verdict.Allowed, nil
	}
	said, err := e.external.ask(ctx, caller, service, level, "")
	if err != nil {
		return false, unavailable()
	}
	return said.allowed, nil
}

func unavailable() *machine.Failure {
	return failure.New(failurepb.Code_AUTHORIZATION_UNAVAILABLE, failure.AuthorizationUnavailable)
}

// refuse is the refusal that a decision leads to. Without an engine there are no decisions, only refusals.
func (e *Engine) refuse(caller endpoint.Caller, where Where, decision *decisionpb.Decision) *machine.Failure {
	refused := failure.New(failurepb.Code_FORBIDDEN, failure.PermissionMissing).
		Param("service", decision.GetService()).Param("level", decision.GetLevel())
	if e.policy == permission.Off || e.log == nil {
		return refused
	}
	decision.TenantId, decision.ProjectId, decision.UserId = caller.TenantID, caller.ProjectID, caller.UserID
	decision.Route = cut(where.Method() + " " + where.Path())
	decision.TokenId = caller.TokenID()
	return refused.With("reason", decision.GetText()).With("decisionId", e.log.add(decision, time.Now()))
}

// cut bounds what a decision keeps of a path, and makes it a text: one that is none would cost the whole batch.
func cut(route string) string {
	const longest = 256
	return strings.ToValidUTF8(route[:min(len(route), longest)], "?")
}
