// Package runs is the routes of background runs: to read one, to wait for it, to cancel it.
package runs

import (
	"time"

	"parley/httpedge/clientapi/handler"
	"parley/httpedge/endpoint"
	"parley/proto/failurepb"
)

// api is the handlers of background runs.
type api struct{ *handler.API }

// Routes returns them.
func Routes(shared *handler.API) []endpoint.Route {
	a := &api{shared}
	const (
		missing = failurepb.Code_RUN_NOT_FOUND
		toRead  = 10 * time.Second // besides the wait
	)
	runs := endpoint.Tag("Runs")
	return []endpoint.Route{
		endpoint.On("GET /agents/runs/{runId}", "agents:read", a.getRun,
			runs, endpoint.Summary("Read a background run"), endpoint.Errors(failurepb.Code_VALIDATION, missing)),
		endpoint.On("POST /agents/runs/{runId}/cancel", "agents:write", a.cancelRun,
			runs, endpoint.Summary("Cancel a background run; one that is over stays as it is"),
			endpoint.Timeout(a.Config.CancelWait+toRead),
			endpoint.Errors(failurepb.Code_VALIDATION, missing, failurepb.Code_STORAGE_FULL, failurepb.Code_STORAGE_FAILED)),
		endpoint.On("GET /agents/runs/{runId}/wait", "agents:read", a.waitForRun,
			runs, endpoint.Summary("Wait until a background run is over or requires an action, and read it"),
			endpoint.Timeout(a.Config.MaxRunWait+toRead), endpoint.Errors(failurepb.Code_INVALID_REQUEST, missing)),
	}
}
