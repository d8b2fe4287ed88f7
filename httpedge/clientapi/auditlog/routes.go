// Package auditlog is the routes by which owners and admins read the audit trail. They are mounted twice, as those of webhooks: on
// the Client API and on the dashboard's surface.
package auditlog

import (
	"time"

	"parley/actors/core/entity"
	"parley/httpedge/endpoint"
	"parley/proto/failurepb"
)

// Pages of rows.
const (
	pageRows    = 50
	maxPageRows = 200
	// exportTimeout bounds an export in all.
	exportTimeout = 30 * time.Minute
)

// Parts is what the routes need of the rest of the node.
type Parts struct {
	Entities entity.Client
	// Chain is the id of a tenant's chain.
	Chain func(tenantID string) string
}

// api is the handlers.
type api struct{ Parts }

// Routes returns the routes, relative to a surface.
func Routes(parts Parts) []endpoint.Route {
	a := &api{parts}
	const read = "audit:read" // a service for owners and admins only
	tag := endpoint.Tag("Audit")
	refused := endpoint.Errors(failurepb.Code_FORBIDDEN, failurepb.Code_AUTHORIZATION_UNAVAILABLE, failurepb.Code_INVALID_REQUEST)
	return []endpoint.Route{
		endpoint.On("GET /audit/logs", read, a.listAuditLogs, tag, refused, endpoint.Page("limit", pageRows, maxPageRows),
			endpoint.Errors(failurepb.Code_INVALID_CURSOR), endpoint.Summary("List who changed what in the tenant, newest first")),
		endpoint.OnBytes("GET /audit/logs/export", read, a.exportAuditLogs, tag, refused, endpoint.Media(mediaType), endpoint.Timeout(exportTimeout),
			endpoint.Summary("Download the audit trail as lines of JSON in its own order, which parley audit verify checks")),
	}
}
