package auditlog

import (
	"context"
	"io"

	"parley/actors/core/audit"
	"parley/actors/core/failure"
	"parley/httpedge/endpoint"
	"parley/proto/auditpb"
	"parley/proto/failurepb"
)

// mediaType is of lines of JSON.
const mediaType = "application/x-ndjson"

// exportRows is how many rows are read at once.
const exportRows = 500

func (a *api) exportAuditLogs(ctx context.Context, in *filterInput) (*endpoint.File, error) {
	filter, err := in.filter()
	if err != nil {
		return nil, err
	}
	tenantID := endpoint.CallerFrom(ctx).TenantID
	return &endpoint.File{
		ContentType: mediaType, Size: -1, Header: map[string]string{"Content-Disposition": `attachment; filename="audit.jsonl"`},
		Open: func(int64, int64) (io.ReadCloser, error) {
			return a.export(ctx, tenantID, filter)
		},
	}, nil
}

// Export returns the whole trail of a tenant for an operator.
func (p *Parts) Export(ctx context.Context, tenantID string) (io.ReadCloser, error) {
	return p.export(ctx, tenantID, nil)
}

// export reads the trail as it is now, page by page, while it is read.
func (p *Parts) export(ctx context.Context, tenantID string, filter *auditpb.Filter) (io.ReadCloser, error) {
	e := &exporter{ctx: ctx, parts: p, tenantID: tenantID, filter: filter}
	return e, e.fill() // its first page: what fails now is still answered as an error
}

// exporter is an export that is being read.
type exporter struct {
	ctx      context.Context //nolint:containedctx // of the request that reads it
	parts    *Parts
	tenantID string
	filter   *auditpb.Filter
	begun    bool
	last     *auditpb.Mark // where it ends, as of its beginning
	behind   uint64
	ready    []byte
	done     bool
}

// Read implements io.Reader.
func (e *exporter) Read(into []byte) (int, error) {
	for len(e.ready) == 0 {
		if e.done {
			return 0, io.EOF
		}
		if err := e.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(into, e.ready)
	e.ready = e.ready[n:]
	return n, nil
}

// Close implements io.Closer.
func (e *exporter) Close() error {
	e.done, e.ready = true, nil
	return nil
}

// fill reads the next rows. Rows that are added meanwhile are not in the export.
func (e *exporter) fill() error {
	reply, err := e.parts.rows(e.ctx, e.tenantID, &auditpb.RowsQuery{Behind: e.behind, Ascending: true, Limit: exportRows, Filter: e.filter})
	if err != nil {
		return err
	}
	filtered := e.filter != nil
	var lines []byte
	if !e.begun {
		e.begun, e.last = true, reply.GetLast()
		lines = audit.AppendBegin(lines, e.tenantID, reply.GetCheckpoint(), filtered)
	}
	if e.behind != 0 && reply.GetCheckpoint().GetNumber() > e.behind {
		return failure.New(failurepb.Code_UNAVAILABLE, failure.AuditTrimmed)
	}
	for _, row := range reply.GetRows() {
		if row.GetNumber() <= e.last.GetNumber() {
			lines = append(audit.AppendJSON(lines, row), '\n')
		}
	}
	e.behind = reply.GetNext()
	if e.behind == 0 || e.behind >= e.last.GetNumber() {
		e.done = true
		lines = audit.AppendEnd(lines, e.tenantID, e.last, filtered)
	}
	e.ready = lines
	return nil
}
