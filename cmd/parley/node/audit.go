package node

import (
	"context"
	"io"

	"parley/actors/audit"
	"parley/cmd/parley/node/ids"
	"parley/httpedge/clientapi/auditlog"
	"parley/httpedge/trail"
)

// chainOf is the id of a tenant's audit trail.
func (n *Node) chainOf(tenantID string) string {
	return ids.New(n.shards).NewIDFrom(audit.Kind, tenantID)
}

// startTrail makes what writes the audit trail.
func (n *Node) startTrail(mint ids.IDs) *trail.Trail {
	written := trail.New(trail.Parts{
		Entities: &client{n}, Chain: n.chainOf, NewID: mint.NewID, Features: n.features,
		Keep: n.config.Audit.Retention, Rows: uint64(n.config.Audit.MaxRows), Logger: n.log, Registerer: n.metrics,
	})
	n.later(written.Stop)
	return written
}

// auditLog is what reads it.
func (n *Node) auditLog() auditlog.Parts {
	return auditlog.Parts{Entities: &client{n}, Chain: n.chainOf}
}

// exportAudit gives an operator the whole trail of a tenant.
func (n *Node) exportAudit(ctx context.Context, tenantID string) (io.ReadCloser, error) {
	log := n.auditLog()
	return log.Export(ctx, tenantID)
}
