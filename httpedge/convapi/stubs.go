package convapi

import "parley/httpedge/endpoint"

// Stand-ins until their parts are there: whoever brings one deletes it here.

func (a *API) taskRows() []endpoint.Row { return nil }
