package clientapi

import "parley/httpedge/endpoint"

func (*API) userRows() []endpoint.Row { return nil }
