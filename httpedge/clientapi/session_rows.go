package clientapi

import "parley/httpedge/endpoint"

func (*API) sessionRows() []endpoint.Row { return nil }
