package guard

import (
	"context"
	"errors"

	"parley/actors/core/aegis"
	"parley/actors/core/failure"
	"parley/actors/core/guardrail"
	"parley/actors/machine"
	"parley/proto/decisionpb"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

// Parts are what a Guard needs of the node. All are required.
type Parts struct {
	// Ready says why shields cannot be asked yet.
	Ready func() error
	// Shield reads a shield of a project; the failure of one that is not there is NOT_FOUND.
	Shield func(ctx context.Context, tenantID, projectID, id string) (*directorypb.Shield, error)
	// Guardrail finds a guardrail of a project by key; the failure of one that is not there is NOT_FOUND.
	Guardrail func(ctx context.Context, projectID, key string) (*guardrail.Guardrail, error)
	// Roles are what a user of a tenant is there.
	Roles func(ctx context.Context, tenantID, userID string) []string
	// Fits says why arguments do not fit a schema.
	Fits func(ctx context.Context, schema, arguments []byte) error
	// Take counts a call under a key in the whole cluster, and says whether it is one of those that a minute may have.
	Take func(ctx context.Context, key string, perMinute int) (bool, error)
	// Ask asks a model about a call, for a bounded time, at the cost of a project. The error's text is shown to whoever is judged.
	Ask func(ctx context.Context, by *Payer, question *aegis.Question) (answer string, err error)
	// Keep has a verdict written. It waits while too many are to be written. The error is seen, and counted, where it comes from.
	Keep func(ctx context.Context, verdict *decisionpb.Verdict) error
	// NewID makes ids of traces.
	NewID func(kind string) string
}

// Payer is whose call a judge's is booked as.
type Payer struct{ TenantID, ProjectID, UserID, TokenID string }

// Guard judges calls. It is safe for concurrent use.
type Guard struct{ parts Parts }

// New returns a guard.
func New(parts Parts) *Guard { return &Guard{parts} }

// Shield reads the shield that an agent names. One that is not there is a failure: its agent does nothing without it.
func (g *Guard) Shield(ctx context.Context, tenantID, projectID, id string) (*aegis.Shield, error) {
	record, err := g.parts.Shield(ctx, tenantID, projectID, id)
	if refused, is := errors.AsType[*machine.Failure](err); is && refused.Code == failurepb.Code_NOT_FOUND {
		return nil, failure.New(failurepb.Code_FORBIDDEN, failure.AgentShieldGone).Param("shield", id)
	}
	if err != nil {
		return nil, err
	}
	shield, wrong := aegis.Of(record)
	if wrong != nil {
		return nil, wrong
	}
	return shield, nil
}

// Roles are what a user may call tools as.
func (g *Guard) Roles(ctx context.Context, tenantID, userID string) []string {
	if userID == "" {
		return nil
	}
	return g.parts.Roles(ctx, tenantID, userID)
}

// Judge judges a call, and has the verdict kept. An error means that the call must not go on.
func (g *Guard) Judge(ctx context.Context, shield *aegis.Shield, call *aegis.Call, how aegis.How) (*aegis.Result, error) {
	if err := g.parts.Ready(); err != nil {
		return nil, err
	}
	result, err := shield.Evaluate(ctx, call, aegis.Ports{
		Fits: g.parts.Fits,
		Take: func(ctx context.Context, key string, perMinute int) (bool, error) {
			if how.Counted || how.Again {
				return true, nil
			}
			return g.parts.Take(ctx, shield.GetProjectId()+"\x00"+shield.GetId()+"\x00"+key, perMinute)
		},
		Approved: func(ctx context.Context) (bool, error) {
			if how.Approved == nil {
				return false, nil
			}
			return how.Approved(ctx)
		},
		Ask: func(ctx context.Context, question *aegis.Question) (string, error) {
			by := &Payer{TenantID: shield.GetTenantId(), ProjectID: shield.GetProjectId(), UserID: how.UserID, TokenID: how.TokenID}
			return g.parts.Ask(ctx, by, question)
		},
	})
	if err != nil || how.Again {
		return result, err
	}
	if result.TraceID = how.TraceID; result.TraceID == "" {
		result.TraceID = g.parts.NewID("trc")
	}
	return result, g.parts.Keep(ctx, &decisionpb.Verdict{
		TraceId: result.TraceID, ProjectId: shield.GetProjectId(), ShieldId: shield.GetId(), ActorId: call.Actor, Stage: call.Stage, ResourceName: call.Name,
		Decision: result.Decision.String(), Risk: result.Risk, Reasons: result.Reasons(), PolicyVersion: result.Version, Enforced: result.Enforced,
	})
}
