package clientapi

import (
	"slices"

	"parley/httpedge/endpoint"
)

// Surface returns the routes of the Client API with its way of wording errors.
func (a *API) Surface() endpoint.Surface {
	return endpoint.Surface{
		Name: "client", Rows: a.rows(), Refusals: refusals(), Wording: wording(), AppendProblem: appendProblem,
		Headers: endpoint.SecurityHeaders(),
	}
}

// rows is the map of this surface; each part of it is in the file of its subject.
func (a *API) rows() []endpoint.Row {
	rows := slices.Concat(
		a.agentRows(),
		a.modelRows(),
		a.responseRows(),
		a.sessionRows(),
		a.runRows(),
		a.userRows(),
	)
	return append(rows, a.documentRows(rows)...)
}
