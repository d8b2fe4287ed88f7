package clientapi

import (
	"time"

	"parley/httpedge/endpoint"
	"parley/proto/failurepb"
)

// runRows is the routes of background runs.
func (a *API) runRows() []endpoint.Row {
	const (
		missing = failurepb.Code_RUN_NOT_FOUND
		toRead  = 10 * time.Second // besides the wait
	)
	runs := endpoint.Tag("Runs")
	return []endpoint.Row{
		endpoint.On("GET /agents/runs/{runId}", "agents:read", a.getRun,
			runs, endpoint.Summary("Read a background run"), endpoint.Errors(failurepb.Code_VALIDATION, missing)),
		endpoint.On("POST /agents/runs/{runId}/cancel", "agents:write", a.cancelRun,
			runs, endpoint.Summary("Cancel a background run; one that is over stays as it is"),
			endpoint.Timeout(a.config.CancelWait+toRead),
			endpoint.Errors(failurepb.Code_VALIDATION, missing, failurepb.Code_STORAGE_FULL, failurepb.Code_STORAGE_FAILED)),
		endpoint.On("GET /agents/runs/{runId}/wait", "agents:read", a.waitForRun,
			runs, endpoint.Summary("Wait until a background run is over or requires an action, and read it"),
			endpoint.Timeout(a.config.MaxRunWait+toRead), endpoint.Errors(failurepb.Code_INVALID_REQUEST, missing)),
	}
}
