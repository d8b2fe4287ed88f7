package clientapi

import "parley/httpedge/endpoint"

func (*API) agentRows() []endpoint.Row { return nil }
