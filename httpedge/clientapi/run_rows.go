package clientapi

import "parley/httpedge/endpoint"

func (*API) runRows() []endpoint.Row { return nil }
