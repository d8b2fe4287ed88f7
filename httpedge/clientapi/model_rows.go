package clientapi

import "parley/httpedge/endpoint"

func (*API) modelRows() []endpoint.Row { return nil }
