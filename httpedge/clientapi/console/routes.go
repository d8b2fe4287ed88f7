// Package console is the routes that pages need beside the resources: what changes in a project's lists, and what is going on in it.
package console

import (
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/endpoint"
	"parley/proto/failurepb"
)

// api is the handlers.
type api struct {
	*handler.API

	sums  *sums
	reach Reach

	trials chan struct{} // a place for each call that is tried
}

// LiveRoutes returns the stream of the lists, which API tokens may follow, too.
func LiveRoutes(shared *handler.API) []endpoint.Route {
	a := &api{API: shared}
	return []endpoint.Route{
		endpoint.OnStream("GET /live", "agents:read", a.live, endpoint.Tag("Console"), endpoint.Errors(failurepb.Code_RATE_LIMITED),
			endpoint.Summary("Follow the rows of the project's sessions and runs as they change: ready, session, run, and reset when some may have been missed")),
	}
}
