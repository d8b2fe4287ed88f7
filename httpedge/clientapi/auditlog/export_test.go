package auditlog_test

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/actors/core/audit"
	"parley/httpedge/clientapi/auditlog"
	"parley/httpedge/endpoint/endpointtest"
	"parley/proto/auditpb"
)

// TestExportOfManyRows: 100,000 rows go through in pages: what the export holds does not grow with the trail, and the whole is a chain.
func TestExportOfManyRows(t *testing.T) {
	const count, most = 100_000, 8 << 20
	all := make([]*auditpb.Row, count) // in the store: before anything is measured
	last := &auditpb.Mark{}
	for i := range all {
		all[i] = &auditpb.Row{
			Id: fmt.Sprint("aud_", i), TenantId: "acme", CreatedAt: int64(i), StartedAt: int64(i), Method: "POST", Route: "/api/users", Path: "/api/users",
			Outcome: audit.Success, UserAgent: strings.Repeat("x", 200),
		}
		audit.Seal(all[i], last)
		last = &auditpb.Mark{Number: all[i].GetNumber(), Hash: all[i].GetHash()}
	}
	entities := endpointtest.Entities{}
	endpointtest.On(entities, func(_ context.Context, query *auditpb.RowsQuery) (*auditpb.RowsReply, error) {
		from := int(query.GetBehind())
		to := min(from+int(query.GetLimit()), count)
		reply := &auditpb.RowsReply{Last: last, Next: uint64(to), Rows: all[from:to]}
		if to == count {
			reply.Next = 0
		}
		return reply, nil
	})
	parts := auditlog.Parts{Entities: entities, Chain: func(tenantID string) string { return "audit_" + tenantID }}
	before := heap()
	export, err := parts.Export(t.Context(), "acme")
	require.NoError(t, err)
	watched := &watch{Reader: export, before: before}
	found, err := audit.Verify(watched, nil)
	require.NoError(t, err)
	require.NoError(t, export.Close())
	require.Equal(t, uint64(count), found.Rows)
	require.Greater(t, watched.bytes, 50<<20)
	require.Less(t, watched.most, int64(most), "%d bytes went through", watched.bytes)
	runtime.KeepAlive(all)
}

func heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// watch notes the most memory that is held while something is read.
type watch struct {
	io.Reader

	before, most int64
	bytes, next  int
}

func (w *watch) Read(into []byte) (int, error) {
	n, err := w.Reader.Read(into)
	if w.bytes += n; w.bytes >= w.next {
		w.next += 10 << 20
		w.most = max(w.most, heap()-w.before)
	}
	return n, err
}
