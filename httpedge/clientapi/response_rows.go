package clientapi

import "parley/httpedge/endpoint"

func (*API) responseRows() []endpoint.Row { return nil }
