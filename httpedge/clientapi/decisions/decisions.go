// Package decisions is the routes by which owners and admins look up what the permission engine refused.
package decisions

import (
	"context"
	"strconv"
	"strings"

	"parley/actors/core/entity"
	"parley/actors/core/failure"
	"parley/actors/core/permission"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/clientapi/render"
	"parley/httpedge/endpoint"
	"parley/proto/decisionpb"
	"parley/proto/failurepb"
)

// Pages of decisions.
const (
	decisionPage    = 50
	maxDecisionPage = 200
)

// api is the handlers.
type api struct{ *handler.API }

// Routes returns the routes.
func Routes(shared *handler.API) []endpoint.Route {
	a := &api{shared}
	const read = "audit:read" // a service for owners and admins only
	tag, refused := endpoint.Tag("Permissions"), endpoint.Errors(failurepb.Code_FORBIDDEN, failurepb.Code_AUTHORIZATION_UNAVAILABLE)
	return []endpoint.Route{
		endpoint.On("GET /permissions/decisions", read, a.listDecisions, tag, refused,
			endpoint.Page("limit", decisionPage, maxDecisionPage), endpoint.Errors(failurepb.Code_INVALID_CURSOR),
			endpoint.Summary("List what the permission engine refused in the tenant, newest first")),
		endpoint.On("GET /permissions/decisions/{decisionId}", read, a.getDecision, tag, refused,
			endpoint.Summary("Read a decision of the permission engine"), endpoint.Errors(failurepb.Code_NOT_FOUND)),
	}
}

// decisionSchema is a refusal, or several equal ones of a second.
type decisionSchema struct {
	ID        string  `json:"id"`
	Decision  string  `json:"decision"`
	Reason    string  `json:"reason"`
	Code      string  `json:"code"`
	Engine    string  `json:"engine"`
	Service   string  `json:"service"`
	Level     string  `json:"level"`
	Route     string  `json:"route"`
	ProjectID *string `json:"projectId"`
	UserID    *string `json:"userId"`
	TokenID   *string `json:"tokenId"`
	Count     uint32  `json:"count"`
	CreatedAt string  `json:"createdAt"`
	LastAt    string  `json:"lastAt"`
}

type decisionOut struct {
	Decision *decisionSchema `json:"decision"`
}

type decisionListOut struct {
	Decisions  []*decisionSchema `json:"decisions"`
	HasMore    bool              `json:"hasMore"`
	NextCursor *string           `json:"nextCursor"`
}

func view(d *decisionpb.Decision) *decisionSchema {
	engine := "builtin"
	if d.GetExternal() {
		engine = "external"
	}
	return &decisionSchema{
		ID: d.GetId(), Decision: "deny", Reason: d.GetText(), Code: d.GetReason(), Engine: engine, Service: d.GetService(),
		Level: d.GetLevel(), Route: d.GetRoute(), ProjectID: render.Nullable(d.GetProjectId()), UserID: render.Nullable(d.GetUserId()),
		TokenID: render.Nullable(d.GetTokenId()), Count: d.GetCount(), CreatedAt: render.Time(d.GetDecidedAt()), LastAt: render.Time(d.GetLastAt()),
	}
}

type decisionInput struct {
	DecisionID string `path:"decisionId"`
}

func (a *api) getDecision(ctx context.Context, in *decisionInput) (*decisionOut, error) {
	batch, _, ok := permission.BatchOf(in.DecisionID)
	if !ok {
		return nil, failure.New(failurepb.Code_NOT_FOUND, failure.DecisionNotFound)
	}
	reply, err := entity.Read[*decisionpb.DecisionReply](ctx, a.Entities, &decisionpb.DecisionQuery{
		Id: batch, DecisionId: in.DecisionID, TenantId: endpoint.CallerFrom(ctx).TenantID,
	})
	if err != nil {
		return nil, err
	}
	return &decisionOut{Decision: view(reply.GetDecision())}, nil
}

type decisionListInput struct {
	Limit int    `query:"limit"`
	After string `query:"after" doc:"nextCursor of the page before"`
}

func (a *api) listDecisions(ctx context.Context, in *decisionListInput) (*decisionListOut, error) {
	query := &decisionpb.DecisionsQuery{TenantId: endpoint.CallerFrom(ctx).TenantID, Limit: uint32(max(in.Limit, 1))}
	if in.After != "" {
		at, id, found := strings.Cut(in.After, ".")
		number, err := strconv.ParseInt(at, 10, 64)
		if _, _, known := permission.BatchOf(id); err != nil || !found || !known {
			return nil, failure.New(failurepb.Code_INVALID_CURSOR, failure.ForeignCursor)
		}
		query.After, query.AfterAt = id, number
	}
	reply, err := entity.Read[*decisionpb.DecisionsReply](ctx, a.Entities, query)
	if err != nil {
		return nil, err
	}
	out := &decisionListOut{Decisions: []*decisionSchema{}}
	for _, d := range reply.GetDecisions() {
		out.Decisions = append(out.Decisions, view(d))
	}
	if at := reply.GetNextAt(); at != 0 && len(out.Decisions) > 0 {
		next := strconv.FormatInt(at, 10) + "." + out.Decisions[len(out.Decisions)-1].ID
		out.HasMore, out.NextCursor = true, &next
	}
	return out, nil
}
