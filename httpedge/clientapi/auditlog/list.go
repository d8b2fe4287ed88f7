package auditlog

import (
	"context"
	"errors"
	"strconv"
	"time"

	"parley/actors/core/audit"
	"parley/actors/core/entity"
	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/httpedge/endpoint"
	"parley/proto/auditpb"
	"parley/proto/failurepb"
)

// filterInput is what selects rows; what is not given selects all.
type filterInput struct {
	Actor        string `query:"actorUserId" doc:"Id of the user who acted, also by an API token"`
	Token        string `query:"apiTokenId"`
	Service      string `query:"service" doc:"Service of the route, e.g. members"`
	Action       string `query:"action" enum:"none,read,write,admin" doc:"Level that the route needs"`
	Outcome      string `query:"outcome" enum:"success,failure,denied,unknown"`
	ResourceType string `query:"resourceType"`
	ResourceID   string `query:"resourceId"`
	Project      string `query:"projectId"`
	Method       string `query:"method" enum:"POST,PUT,PATCH,DELETE,GET"`
	Request      string `query:"requestId"`
	From         string `query:"from" doc:"RFC 3339, inclusive"`
	To           string `query:"to" doc:"RFC 3339, exclusive"`
}

// filter returns nil where nothing is selected.
func (in *filterInput) filter() (*auditpb.Filter, error) {
	if *in == (filterInput{}) {
		return nil, nil //nolint:nilnil // all rows
	}
	f := &auditpb.Filter{
		ActorUserId: in.Actor, ApiTokenId: in.Token, Service: in.Service, Action: in.Action, Outcome: in.Outcome,
		ResourceType: in.ResourceType, ResourceId: in.ResourceID, ProjectId: in.Project, Method: in.Method, RequestId: in.Request,
	}
	for name, at := range map[string]struct {
		text string
		into *int64
	}{"from": {in.From, &f.From}, "to": {in.To, &f.To}} {
		if at.text == "" {
			continue
		}
		parsed, err := time.Parse(time.RFC3339Nano, at.text)
		if err != nil {
			return nil, failure.New(failurepb.Code_INVALID_REQUEST, failure.BadAuditTime).In(name)
		}
		*at.into = parsed.UnixMilli()
	}
	return f, nil
}

type listInput struct {
	filterInput

	Limit int    `query:"limit"`
	After string `query:"after" doc:"nextCursor of the page before"`
}

// rowJSON is a row in its canonical form.
type rowJSON struct{ row *auditpb.Row }

// MarshalJSON implements json.Marshaler.
func (r rowJSON) MarshalJSON() ([]byte, error) { return audit.AppendJSON(nil, r.row), nil }

// Described implements openapi.Described.
func (rowJSON) Described() (value any, nullable bool) { return rowSchema{}, false }

type rowSchema struct {
	ID           string         `json:"id"`
	Seq          uint64         `json:"seq" doc:"Number in the tenant, without a gap"`
	CreatedAt    string         `json:"createdAt"`
	StartedAt    string         `json:"startedAt"`
	TenantID     string         `json:"tenantId"`
	ProjectID    *string        `json:"projectId"`
	RequestID    string         `json:"requestId"`
	ActorType    string         `json:"actorType" doc:"user, api_token or system"`
	ActorUserID  *string        `json:"actorUserId"`
	ActorEmail   *string        `json:"actorEmail"`
	ActorRole    *string        `json:"actorRole"`
	APITokenID   *string        `json:"apiTokenId"`
	Service      string         `json:"service"`
	Action       string         `json:"action" doc:"Level that the route needs"`
	Event        string         `json:"event" doc:"Method and route"`
	Method       string         `json:"method"`
	Path         string         `json:"path"`
	StatusCode   *int           `json:"statusCode" doc:"null where the outcome is not known"`
	Outcome      string         `json:"outcome" doc:"success, failure, denied, or unknown: its node was gone before it could say"`
	IPAddress    *string        `json:"ipAddress"`
	UserAgent    *string        `json:"userAgent"`
	ResourceType *string        `json:"resourceType"`
	ResourceID   *string        `json:"resourceId"`
	Metadata     map[string]any `json:"metadata" doc:"changes: records before and after, without what is secret; count of equal refusals"`
	PreviousHash string         `json:"previousHash"`
	Hash         string         `json:"hash" doc:"SHA-256 of the row's canonical JSON without it"`
}

type listOut struct {
	Logs       []rowJSON `json:"logs"`
	HasMore    bool      `json:"hasMore"`
	NextCursor *string   `json:"nextCursor"`
}

// listAuditLogs returns a page. With a filter that selects few rows it may be short, or empty, and have more all the same.
func (a *api) listAuditLogs(ctx context.Context, in *listInput) (*listOut, error) {
	filter, err := in.filter()
	if err != nil {
		return nil, err
	}
	var behind uint64
	if in.After != "" {
		if behind, err = strconv.ParseUint(in.After, 10, 64); err != nil || behind == 0 {
			return nil, failure.New(failurepb.Code_INVALID_CURSOR, failure.ForeignCursor)
		}
	}
	reply, err := a.rows(ctx, endpoint.CallerFrom(ctx).TenantID, &auditpb.RowsQuery{Behind: behind, Limit: uint32(max(in.Limit, 1)), Filter: filter})
	if err != nil {
		return nil, err
	}
	out := &listOut{Logs: make([]rowJSON, 0, len(reply.GetRows()))}
	for _, row := range reply.GetRows() {
		out.Logs = append(out.Logs, rowJSON{row})
	}
	if next := reply.GetNext(); next != 0 {
		text := strconv.FormatUint(next, 10)
		out.HasMore, out.NextCursor = true, &text
	}
	return out, nil
}

// rows answers a query about a tenant's chain; one that has not begun has no rows.
func (p *Parts) rows(ctx context.Context, tenantID string, query *auditpb.RowsQuery) (*auditpb.RowsReply, error) {
	query.Id, query.TenantId = p.Chain(tenantID), tenantID
	reply, err := entity.Read[*auditpb.RowsReply](ctx, p.Entities, query)
	if refused, is := errors.AsType[*machine.Failure](err); is && refused.Code == failurepb.Code_NOT_FOUND {
		return &auditpb.RowsReply{}, nil
	}
	return reply, err
}
